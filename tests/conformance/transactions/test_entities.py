"""Transactions that send to other entities: cross-entity mode, send-via, and what is refused."""

from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from proton import Delivery, LinkException, Message, symbol

from conformance.partitioning.partitions import keys_in
from conformance.partitioning.wire import keyed
from conformance.settlement.backstage import Backstage, text_message
from conformance.transactions.namespace import PARTITIONS, Queues
from support.proton.client import Client
from support.proton.transactions import (
    Transaction,
    refusal,
    sender_in_new_session,
    sender_via,
    taken,
)
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

INVALID_OPERATION = "amqp:not-allowed"
VIA_PARTITION_KEY = symbol("x-opt-via-partition-key")


def via_keyed(body: str, via_key: str, key: str | None = None) -> Message:
    """A message with a ViaPartitionKey."""
    message = keyed(body, key)
    message.annotations = {**(message.annotations or {}), VIA_PARTITION_KEY: via_key}
    return message


@pytest.mark.rule("TXN-4", "TXN-19")
def test_receive_from_one_queue_and_send_to_others(server: ServerProcess, queues: Queues) -> None:
    source, first, second = [queues.fresh() for _ in range(3)]
    with Backstage(server) as client:
        client.send(source, "in")
        receiver = client.receiver(source, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(client.sender(first), "to first"))
        assert taken(transaction.send(client.sender(second), "to second"))
        assert [client.shown(queue) for queue in (source, first, second)] == [["in"], [], []]
        assert transaction.commit() == "committed"
        client.assert_committed({source: [], first: ["to first"], second: ["to second"]})


@pytest.mark.rule("TXN-4")
def test_a_rollback_over_several_queues(server: ServerProcess, queues: Queues) -> None:
    first, second = queues.fresh(), queues.fresh()
    with Backstage(server) as client:
        transaction = Transaction(client)
        assert taken(transaction.send(client.sender(first), "one"))
        assert taken(transaction.send(client.sender(second), "two"))
        assert transaction.roll_back() == "aborted"
        assert (client.shown(first), client.shown(second)) == ([], [])


@pytest.mark.rule("TXN-3")
def test_links_of_different_sessions_do_not_span_entities(
    server: ServerProcess, queues: Queues
) -> None:
    first, second = queues.fresh(), queues.fresh()
    with Backstage(server) as client:
        transaction = Transaction(client)
        assert taken(transaction.send(client.sender(first), "one"))
        answer = transaction.send(sender_in_new_session(client, second), "two")
        condition, text = refusal(answer)
        assert condition == INVALID_OPERATION
        assert "cannot span multiple top-level entities" in text
        assert transaction.commit() == "not committed"
        assert (client.shown(first), client.shown(second)) == ([], [])


@pytest.mark.rule("TXN-3", "TXN-19")
def test_messages_of_one_entity_are_settled(server: ServerProcess, queues: Queues) -> None:
    first, second = queues.fresh(), queues.fresh()
    with Backstage(server) as client:
        deliveries = []
        for queue in (first, second):
            client.send(queue, "in")
            ((_, delivery),) = client.receiver(queue, credit=1).wait_for(1)
            deliveries.append(delivery)
        transaction = Transaction(client)
        assert taken(transaction.settle(deliveries[0], Delivery.ACCEPTED))
        condition, text = refusal(transaction.settle(deliveries[1], Delivery.ACCEPTED))
        assert condition == INVALID_OPERATION
        assert "cannot span multiple top-level entities" in text


@pytest.mark.rule("TXN-19")
def test_a_connection_is_not_pinned_only_a_transaction_is(
    server: ServerProcess, queues: Queues
) -> None:
    first, second = queues.fresh(), queues.fresh()
    with Backstage(server) as client:
        transaction = Transaction(client)
        assert taken(transaction.send(client.sender(first), "one"))
        # A receiver on another entity, and a peek there, while the transaction is open.
        client.send(second, "in")
        assert client.shown(second) == ["in"]
        receiver = client.receiver(second, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        assert transaction.commit() == "committed"
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert transaction.commit() == "committed"
        assert client.shown(second) == []


@pytest.mark.rule("TXN-4", "TXN-6")
def test_send_via(server: ServerProcess, queues: Queues) -> None:
    source, target = queues.fresh(), queues.fresh()
    with Backstage(server) as client:
        client.send(source, "in")
        receiver = client.receiver(source, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        sender = sender_via(client, source, target)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(sender, text_message("out")))
        assert client.shown(source) == ["in"], "never visible in the transfer entity"
        assert transaction.commit() == "committed"
        client.assert_committed({source: [], target: ["out"]})


@pytest.mark.rule("TXN-6")
@pytest.mark.parametrize("missing", ["source", "target"])
def test_send_via_needs_rights_for_both(
    tmp_path_factory: pytest.TempPathFactory, missing: str
) -> None:
    directory: Path = tmp_path_factory.mktemp("rights")
    config = directory / "namespace.toml"
    policy = '[[queue.policy]]\nname = "Sender"\nkey = "sender-key"\nrights = ["Send"]\n'
    blocks = [
        f'[[queue]]\nname = "{name}"\n' + ("" if name == missing else policy)
        for name in ("source", "target")
    ]
    config.write_text("\n".join(blocks), encoding="utf-8")
    with (
        ServerProcess(directory, config) as process,
        Client(process, user="Sender", password="sender-key") as client,
        pytest.raises(LinkException, match="amqp:unauthorized-access"),
    ):
        sender_via(client, "source", "target")


@pytest.mark.rule("TXN-13")
def test_a_via_partition_key_selects_the_partition_of_the_transaction(
    server: ServerProcess, queues: Queues
) -> None:
    source, target = queues.fresh("parted"), queues.fresh("parted")
    here, there = keys_in(0, PARTITIONS, 1)[0], keys_in(1, PARTITIONS, 1)[0]
    with Backstage(server) as client:
        client.send(source, keyed("in", here))
        receiver = client.receiver(source, credit=1)
        ((_, delivery),) = receiver.wait_for(1)
        sender = sender_via(client, source, target)
        transaction = Transaction(client)
        assert taken(transaction.settle(delivery, Delivery.ACCEPTED))
        assert taken(transaction.send(sender, via_keyed("out", here, key=there)))
        assert transaction.commit() == "committed"
        client.assert_committed({source: [], target: ["out"]})
        transaction = Transaction(client)
        assert taken(transaction.send(sender, via_keyed("one", here)))
        condition, text = refusal(transaction.send(sender, via_keyed("two", there)))
        assert condition == INVALID_OPERATION and "ViaPartitionKey" in text
        transaction = Transaction(client)
        condition, text = refusal(transaction.send(sender, keyed("three", here)))
        assert condition == INVALID_OPERATION and "ViaPartitionKey" in text
