"""Transactions on a server of two workers: the work may be the other worker's."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Delivery

from conformance.partitioning.partitions import keys_in
from conformance.partitioning.wire import keyed
from conformance.settlement.backstage import Backstage
from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import utc_now
from conformance.transactions.test_management import InTransaction
from support.proton.transactions import Transaction, taken
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

PARTITIONS = 4
PLAIN = 8


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("workers")
    parted = {"enable_partitioning": "true", "partition_count": str(PARTITIONS)}
    queues = {f"plain-{n}": {} for n in range(PLAIN)} | {"parted": parted}
    config = write_queues(directory / "namespace.toml", queues)
    flags = ("--workers", "2", "--stores", "4")
    with ServerProcess(directory, config, *flags) as process:
        yield process


@pytest.mark.rule("TXN-2")
@pytest.mark.parametrize("number", range(PLAIN // 2))
def test_whichever_worker_has_the_queue(workers: ServerProcess, number: int) -> None:
    """Four queues in four stores: some are the other worker's, wherever the client is."""
    queue = f"plain-{number}"
    with Backstage(workers) as client:
        client.send(queue, "in")
        receiver = client.receiver(queue, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        sender = client.sender(queue)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(sender, "out"))
        node = InTransaction(client, queue, transaction)
        reply = node.schedule(keyed("later", due=utc_now() + timedelta(hours=1)))
        assert reply.status == 200
        assert client.shown(queue) == ["in"]
        assert transaction.commit() == "committed"
        assert sorted(map(str, client.shown(queue))) == ["later", "out"]
        transaction = Transaction(client)
        node = InTransaction(client, queue, transaction)
        assert node.cancel_scheduled(12345).status == 200
        assert taken(transaction.send(sender, "lost"))
        assert transaction.commit() == "not committed"
        assert "12345" in transaction.refusal[1]
        assert sorted(map(str, client.shown(queue))) == ["later", "out"]


@pytest.mark.rule("TXN-13")
@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_whichever_worker_has_the_partition(workers: ServerProcess, partition: int) -> None:
    (key,) = keys_in(partition, PARTITIONS, 1)
    with Backstage(workers) as client:
        sender = client.sender("parted")
        for end, count in ((Transaction.roll_back, 0), (Transaction.commit, 2)):
            transaction = Transaction(client)
            for body in ("one", "two"):
                assert taken(transaction.send(sender, keyed(body, key)))
            end(transaction)
            assert len(client.shown("parted")) == count
        assert client.bodies("parted", 2) == ["one", "two"]
