"""Transactions with topics and subscriptions, and with rules."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Delivery

from conformance.partitioning.wire import keyed
from conformance.settlement.backstage import Backstage
from support.proton.transactions import Transaction, refusal, taken
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

NAMESPACE = """
[[queue]]
name = "in"

[[topic]]
name = "news"

[[topic.subscription]]
name = "all"

[[topic.subscription]]
name = "none"

[[topic.subscription.rule]]
name = "never"
sql_filter = "1 = 0"

[[topic]]
name = "unheard"

[[topic]]
name = "parted"
enable_partitioning = true
partition_count = 4

[[topic.subscription]]
name = "all"
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    config = tmp_path / "namespace.toml"
    config.write_text(NAMESPACE, encoding="utf-8")
    with ServerProcess(tmp_path, config) as process:
        yield process


@pytest.mark.rule("TXN-2", "TXN-3", "TXN-5")
def test_a_message_is_completed_at_a_subscription_and_another_published(
    server: ServerProcess,
) -> None:
    source = "news/Subscriptions/all"
    with Backstage(server) as client:
        client.send("news", "first")
        ((_, delivery),) = client.receiver(source, credit=1).wait_for(1)
        rolled_back = Transaction(client)
        assert taken(rolled_back.send(client.sender("news"), "never"))
        assert rolled_back.roll_back() == "aborted"
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(client.sender("news"), "second"))
        assert client.shown(source) == ["first"]
        assert transaction.commit() == "committed"
        assert client.shown(source) == ["second"]
        assert client.shown("news/Subscriptions/none") == []


@pytest.mark.rule("TXN-4", "ENT-4")
def test_from_a_queue_to_topics_that_somebody_or_nobody_hears(server: ServerProcess) -> None:
    with Backstage(server) as client:
        client.send("in", "order")
        ((_, delivery),) = client.receiver("in", credit=1).wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(client.sender("news"), "heard"))
        assert taken(transaction.send(client.sender("unheard"), "not heard"))
        assert transaction.commit() == "committed"
        client.assert_committed({"in": [], "news/Subscriptions/all": ["heard"]})
        alone = Transaction(client)
        assert taken(alone.send(client.sender("unheard"), "again not heard"))
        assert alone.commit() == "committed"


@pytest.mark.rule("SEED-47", "SEED-48", "TXN-13")
def test_a_partitioned_topic_wants_one_key(server: ServerProcess) -> None:
    with Backstage(server) as client:
        keyless = Transaction(client)
        condition, _ = refusal(keyless.send(client.sender("parted"), "without"))
        assert condition == "amqp:not-allowed"
        keyless.roll_back()
        transaction = Transaction(client)
        sender = client.sender("parted")
        assert taken(transaction.send(sender, keyed("one", "k")))
        assert taken(transaction.send(sender, keyed("two", "k")))
        assert transaction.commit() == "committed"
        assert client.shown("parted/Subscriptions/all") == ["one", "two"]
