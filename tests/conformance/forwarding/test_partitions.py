"""Forwarding from, to and between partitioned queues: the key decides at every hop."""

from collections import Counter

import pytest
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage

from conformance.partitioning.operator import Operator
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from conformance.settlement.steps import until
from partibus.domain.partition_key import fragment_index
from support.receiving import bodies, collect

KEYS = [f"key-{n}" for n in range(12)]


def fragment_of(message: ServiceBusReceivedMessage) -> int:
    assert message.sequence_number is not None
    return message.sequence_number >> 48


def send_keyed(bus: Bus, queue: str, rounds: int) -> None:
    with bus.sender(queue) as sender:
        for number in range(rounds):
            for key in KEYS:
                body = f"{key}/{number:02d}"
                sender.send_messages(ServiceBusMessage(body, partition_key=key))


def in_order(messages: list[ServiceBusReceivedMessage], rounds: int) -> None:
    """Every key has all its messages, in the order they were sent."""
    for key in KEYS:
        texts = [str(m) for m in messages if m.partition_key == key]
        assert texts == [f"{key}/{number:02d}" for number in range(rounds)]


@pytest.mark.rule("SEED-54", "SEED-56", "FWD-11")
def test_the_key_selects_the_partition_at_every_hop(bus: Bus) -> None:
    send_keyed(bus, "spread-in", 3)
    with bus.receiver("spread-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = collect(receiver, 3 * len(KEYS))
    for message in got:
        assert message.partition_key is not None
        assert fragment_of(message) == fragment_index(message.partition_key, 4)
        # The first number names the partition of the first queue, which the same key selected.
        assert (message.enqueued_sequence_number or 0) >> 48 == fragment_of(message)
    in_order(sorted(got, key=lambda m: m.sequence_number or 0), 3)


@pytest.mark.rule("SEED-54", "SEED-56")
def test_from_a_partitioned_queue_to_a_plain_one(bus: Bus) -> None:
    send_keyed(bus, "gather-in", 3)
    with bus.receiver("gather-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = collect(receiver, 3 * len(KEYS))
    assert {fragment_of(message) for message in got} == {0}
    in_order(got, 3)


@pytest.mark.rule("SEED-54", "SEED-56")
def test_from_a_plain_queue_to_a_partitioned_one(bus: Bus) -> None:
    send_keyed(bus, "scatter-in", 3)
    with bus.receiver("scatter-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = collect(receiver, 3 * len(KEYS))
    for message in got:
        assert fragment_of(message) == fragment_index(message.partition_key or "", 4)
    in_order(sorted(got, key=lambda m: m.sequence_number or 0), 3)


@pytest.mark.rule("SEED-54")
def test_messages_without_a_key_are_spread(bus: Bus) -> None:
    with bus.sender("keyless-in") as sender:
        sender.send_messages([ServiceBusMessage(f"m{n}") for n in range(80)])
    with bus.receiver("keyless-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = collect(receiver, 80)
    assert sorted(bodies(got)) == sorted(f"m{n}" for n in range(80))
    used = Counter(map(fragment_of, got))
    assert len(used) == 4
    assert max(used.values()) < 60


@pytest.mark.rule("SEED-56", "DUP-7")
def test_the_message_id_is_the_key_where_duplicates_are_detected(bus: Bus) -> None:
    with bus.sender("parted-twins-in") as sender:
        for n in range(16):
            sender.send_messages(ServiceBusMessage(f"m{n}", message_id=f"id-{n}"))
            sender.send_messages(ServiceBusMessage(f"twin-{n}", message_id=f"id-{n}"))
    with bus.receiver("parted-twins-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = collect(receiver, 16)
        assert receiver.receive_messages(max_wait_time=1) == []
    assert len({message.message_id for message in got}) == 16
    for message in got:
        assert fragment_of(message) == fragment_index(message.message_id or "", 4)


@pytest.mark.rule("FWD-7", "TXN-17")
def test_a_fragment_whose_store_is_down_holds_up_its_own_messages_alone(
    bus: Bus, operator: Operator
) -> None:
    home = operator.placement("outage-in")[0]
    places = operator.placement("outage-out")
    down = next(store for store in places if store != home)
    (dead,) = operator.partitions_in("outage-out", down)
    operator.break_store(down)
    try:
        send_keyed(bus, "outage-in", 2)
        kept_back = 2 * sum(fragment_index(key, 4) == dead for key in KEYS)
        assert 0 < kept_back < 2 * len(KEYS)
        until(
            "the others to have gone",
            lambda: operator.entity("outage-in")["totals"]["transfer"] == kept_back,
        )
        totals = operator.entity("outage-out")["totals"]
        assert totals["active"] == 2 * len(KEYS) - kept_back
    finally:
        operator.mend_store(down)
    with bus.receiver("outage-out", receive_mode=RECEIVE_AND_DELETE) as receiver:
        got = collect(receiver, 2 * len(KEYS))
        assert receiver.receive_messages(max_wait_time=1) == []
    in_order(sorted(got, key=lambda m: m.sequence_number or 0), 2)
    assert operator.entity("outage-in")["totals"]["dead_letter"] == 0
