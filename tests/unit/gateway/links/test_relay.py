"""A sending link without a target: each message names its own entity."""

import pytest

from partibus.amqp.codec.properties import MessageProperties
from partibus.amqp.codec.sections import encode_properties
from partibus.amqp.delivery import Accepted, Rejected
from partibus.amqp.link import Link
from partibus.amqp.terminus import encode_source, encode_target
from partibus.domain.entity import QueueSpec
from partibus.testing.bus import BusBench, ClientBench
from support.gateway.session_clients import bodies, outcomes, receive
from support.gateway.transaction_bench import TransactionClient

pytestmark = pytest.mark.rule("AMQ-6")


@pytest.fixture
def bus() -> BusBench:
    bus = BusBench()
    bus.queue("q")
    bus.queue("parted", QueueSpec(enable_partitioning=True, fragments=4))
    bus.queue("sessions", QueueSpec(requires_session=True))
    bus.topic("t")
    bus.subscription("t", "s")
    return bus


def relay(client: ClientBench) -> Link:
    link = client.session.attach(
        "relay", is_sender=True, source=encode_source("here"), target=encode_target(None)
    )
    client.run()
    assert link.target is not None and link.credit > 0
    return link


def message(number: int, to: str | None) -> bytes:
    properties = MessageProperties(message_id=f"m-{number}", to=to)
    return encode_properties(properties) + b"\x00\x53\x75\xa0\x02" + b"%02d" % number


def waiting(client: ClientBench, path: str) -> list[int]:
    link = client.attach(path, sends=False, name=f"receiver-{path}")
    return bodies(receive(client, link, 50))


def test_messages_go_where_they_say(bus: BusBench) -> None:
    client = bus.client()
    link = relay(client)
    client.send(link, [message(1, "q"), message(2, "t"), message(3, "parted"), message(4, "/q")])
    assert [type(outcome) for outcome in outcomes(client)] == [Accepted] * 4
    assert waiting(client, "q") == [1, 4]
    assert waiting(client, "t/Subscriptions/s") == [2]
    assert waiting(client, "parted") == [3]


@pytest.mark.parametrize("to", [None, "", "nobody", "sessions", "q/$DeadLetterQueue"])
def test_what_cannot_go_there_is_rejected_alone(bus: BusBench, to: str | None) -> None:
    client = bus.client()
    link = relay(client)
    client.send(link, [message(1, to)])
    (refused,) = outcomes(client)
    assert isinstance(refused, Rejected)
    client.send(link, [message(2, "q")])
    assert [type(outcome) for outcome in outcomes(client)] == [Accepted]
    assert waiting(client, "q") == [2]


def test_credit_lasts_for_more_than_it_was_given_at_first(bus: BusBench) -> None:
    client = bus.client()
    link = relay(client)
    for number in range(300):
        assert link.sendable() > 0
        client.send(link, [message(number % 100, "q" if number % 3 else "nobody")])
    assert len(outcomes(client)) == 300
    assert client.connection.unconfirmed_bytes == 0


def test_a_message_that_is_sent_settled_has_no_outcome(bus: BusBench) -> None:
    client = bus.client()
    client.send(relay(client), [message(1, "q"), message(2, "nobody")], settled=True)
    assert outcomes(client) == []
    assert waiting(client, "q") == [1]


@pytest.mark.rule("TXN-2")
@pytest.mark.parametrize("fails", [False, True])
def test_sends_in_a_transaction(bus: BusBench, fails: bool) -> None:
    transactions = TransactionClient(bus)
    link = relay(transactions.client)
    txn_id = transactions.declare()
    transactions.send(link, message(1, "q"), txn_id)
    transactions.discharge(txn_id, fail=fails)
    assert waiting(transactions.client, "q") == ([] if fails else [1])
