"""Sending while one store of four is down: another partition without a key, an error with one."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusServerBusyError
from proton import Delivery

from conformance.partitioning.operator import Operator
from conformance.partitioning.outages import (
    BUSY,
    DOWN,
    QUEUES,
    fresh,
    lost_and_kept,
    outage,
    serve_with_faults,
)
from conformance.partitioning.partitions import key_of_each, partition_of, partition_of_key, spread
from conformance.partitioning.traffic import Traffic
from conformance.partitioning.wire import Wire, keyed, number_of, text
from conformance.settlement.bus import Bus
from conformance.settlement.steps import seconds, utc_now
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

# What a client must allow for a send that has to find another partition (SEED-42).
FAILOVER_SECONDS_MAX = 15


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    yield from serve_with_faults(tmp_path_factory)


@pytest.fixture
def operator(server: ServerProcess) -> Operator:
    return Operator(server)


@pytest.fixture
def queue() -> str:
    return fresh("four")


# --- sending --------------------------------------------------------------------------------


@pytest.mark.rule("SEED-4", "SEED-40", "SEED-43", "PAV-1", "CON-5")
def test_sends_without_a_key_go_to_other_partitions(operator: Operator, wire: Wire) -> None:
    queue = fresh("spread")
    lost, kept = lost_and_kept(operator, queue)
    with outage(operator):
        wire.fill(queue, (keyed(str(number)) for number in range(240)))
        messages = wire.take(queue, 240)
    assert sorted(int(text(message)) for message in messages) == list(range(240))
    shares = spread(map(number_of, messages))
    assert set(shares) == kept, "what is down is passed over"
    assert set(shares.values()) == {240 // len(kept)}, "and the others go on taking turns"
    wire.fill(queue, (keyed(str(number)) for number in range(160)))
    assert set(spread(map(number_of, wire.take(queue, 160)))) == lost | kept, "after it, all"


@pytest.mark.rule("SEED-40", "SEED-42", "SEED-43")
def test_the_stock_client_does_not_notice_the_outage_without_a_key(
    operator: Operator, bus: Bus, wire: Wire, queue: str
) -> None:
    sender = bus.sender(queue)
    with outage(operator):
        for number in range(8):
            message = ServiceBusMessage(str(number))
            sender.send_messages(message, timeout=FAILOVER_SECONDS_MAX)
        sender.send_messages([ServiceBusMessage("batch")] * 5, timeout=FAILOVER_SECONDS_MAX)
        assert len(wire.take(queue, 13)) == 13


@pytest.mark.rule("SEED-40", "SEED-42", "BAT-3")
def test_sends_that_were_on_their_way_when_the_store_failed_find_another_partition(
    operator: Operator, wire: Wire
) -> None:
    queue = fresh("spread")
    link = wire.sender(queue).link
    pending = []
    for step in range(40):
        pending += wire.pipeline(link, (keyed(f"{step}-{n}") for n in range(50)))
        if step == 10:
            # Not waited for: the answer comes while sends are under way.
            operator.begin_outage(DOWN)
    wire.await_answers(pending)
    assert {delivery.remote_state for delivery in pending} == {Delivery.ACCEPTED}
    operator.mend_store(DOWN)
    messages = wire.take(queue, 2000)
    assert len({text(message) for message in messages}) == 2000
    assert wire.peek(queue) == [], "none was stored twice"


@pytest.mark.rule("SEED-29", "SEED-43", "SEED-57", "SEED-58", "SEED-59", "PAV-1")
def test_sends_with_a_key_fail_at_once_and_only_in_the_store_that_is_down(
    operator: Operator, bus: Bus, wire: Wire, queue: str
) -> None:
    lost, kept = lost_and_kept(operator, queue)
    sender = bus.sender(queue)
    with outage(operator):
        for partition, key in enumerate(key_of_each(4)):
            for named in ({"partition_key": key}, {"session_id": key}):
                message = ServiceBusMessage(key, **named)
                if partition in kept:
                    sender.send_messages(message)
                    continue
                with pytest.raises(ServiceBusServerBusyError) as refusal:
                    sender.send_messages(message)
                assert f"Fragment {partition} of '{queue}'" in str(refusal.value)
                assert refusal.value._retryable
    for key in key_of_each(4):
        sender.send_messages(ServiceBusMessage(key, partition_key=key))
    received = Counter(partition_of(number_of(m)) for m in wire.take(queue, 4 + 2 * len(kept)))
    assert received == {p: 3 if p in kept else 1 for p in lost | kept}
    assert wire.peek(queue) == [], "what was refused is not there"


@pytest.mark.rule("SEED-29", "SEED-59", "PAV-1")
def test_in_one_pipeline_some_fail_and_some_are_accepted(
    operator: Operator, wire: Wire, queue: str
) -> None:
    lost, kept = lost_and_kept(operator, queue)
    keys = [f"key-{number}" for number in range(200)]
    with outage(operator):
        deliveries = wire.post(queue, (keyed(key, key) for key in keys))
    for key, delivery in zip(keys, deliveries, strict=True):
        partition = partition_of_key(key, 4)
        if partition in kept:
            assert delivery.remote_state == Delivery.ACCEPTED
        else:
            assert partition in lost
            assert delivery.remote_state == Delivery.REJECTED
            assert delivery.remote.condition.name == BUSY
            assert f"Fragment {partition} " in delivery.remote.condition.description
    accepted = {key for key in keys if partition_of_key(key, 4) in kept}
    assert {text(message) for message in wire.take(queue, len(accepted))} == accepted
    assert wire.peek(queue) == []


@pytest.mark.rule("SEED-2", "SEED-3", "SEED-62")
def test_a_queue_without_partitions_stands_and_falls_with_its_store(
    operator: Operator, bus: Bus
) -> None:
    by_store = {operator.placement(name)[0]: name for name in QUEUES if name.startswith("whole")}
    struck = by_store.pop(DOWN)
    with outage(operator):
        with pytest.raises(ServiceBusServerBusyError):
            bus.sender(struck).send_messages(ServiceBusMessage("in vain"))
        assert operator.entity(struck)["availability"] == "Unavailable"
        for other in by_store.values():
            bus.sender(other).send_messages(ServiceBusMessage("text"))
            assert operator.entity(other)["availability"] == "Available"
    bus.sender(struck).send_messages(ServiceBusMessage("text"))


@pytest.mark.rule("SEED-29", "SEED-40", "SEED-76")
def test_scheduling_follows_the_same_rules(operator: Operator, bus: Bus, queue: str) -> None:
    lost, kept = lost_and_kept(operator, queue)
    sender = bus.sender(queue)
    later = utc_now() + seconds(3600)
    with outage(operator):
        for _ in range(6):
            (number,) = sender.schedule_messages(ServiceBusMessage("keyless"), later)
            assert partition_of(number) in kept
        for partition in lost:
            key = key_of_each(4)[partition]
            with pytest.raises(ServiceBusServerBusyError):
                sender.schedule_messages(ServiceBusMessage("keyed", partition_key=key), later)


@pytest.mark.rule("BAT-2", "BAT-3", "SEED-29")
def test_a_batch_to_split_is_refused_whole_when_a_part_cannot_be_stored(
    operator: Operator, bus: Bus, wire: Wire, queue: str
) -> None:
    """Clients send the whole batch again by themselves: parts that stayed would be doubled."""
    (partition,), kept = lost_and_kept(operator, queue)
    keys = key_of_each(4)
    sender = bus.sender(queue)
    with outage(operator):
        with pytest.raises(ServiceBusServerBusyError, match=f"Fragment {partition} "):
            sender.send_messages([ServiceBusMessage("part", partition_key=key) for key in keys])
        # What is stored behind the parts shows whether there are any.
        wire.fill(queue, (keyed("marker", keys[other]) for other in kept))
        assert {item.body for item in wire.peek(queue)} == {"marker"}


@pytest.mark.rule("SEED-4", "SEED-40", "SEED-29")
def test_a_store_that_is_full_is_passed_over_too(
    operator: Operator, bus: Bus, wire: Wire, queue: str
) -> None:
    (partition,), kept = lost_and_kept(operator, queue)
    with outage(operator, "full"):
        wire.fill(queue, (keyed(str(number)) for number in range(30)))
        key = key_of_each(4)[partition]
        with pytest.raises(ServiceBusServerBusyError):
            bus.sender(queue).send_messages(ServiceBusMessage("keyed", partition_key=key))
    messages = wire.take(queue, 30)
    assert set(spread(map(number_of, messages))) == kept


@pytest.mark.rule("BAT-1", "SEED-59")
def test_a_send_is_acknowledged_when_its_own_store_has_it_and_waits_for_no_other(
    operator: Operator, wire: Wire, queue: str
) -> None:
    (partition,), kept = lost_and_kept(operator, queue)
    keys = key_of_each(4)
    link = wire.sender(queue).link
    operator.slow_store(DOWN, 1500)
    try:
        (slow,) = wire.pipeline(link, [keyed("slow", keys[partition])])
        quick = wire.pipeline(link, [keyed("quick", keys[other]) for other in kept])
        wire.await_answers(quick)
        assert not slow.settled, "acknowledged before it was flushed"
        wire.await_answers([slow])
    finally:
        operator.mend_store(DOWN)
    assert {d.remote_state for d in (slow, *quick)} == {Delivery.ACCEPTED}
    assert len(wire.take(queue, 4)) == 4


# --- all together ---------------------------------------------------------------------------


@pytest.mark.rule("SEED-4", "SEED-28", "SEED-29", "SEED-40", "SEED-44", "SEED-59")
@pytest.mark.rule("PAV-1", "PAV-2", "SEQ-10")
async def test_with_traffic_running_nothing_acknowledged_is_lost_or_settled_twice(
    operator: Operator, async_client: ServiceBusClient, wire: Wire
) -> None:
    queue = fresh("busy")
    lost, _ = lost_and_kept(operator, queue)
    traffic = Traffic(async_client, queue)

    async def watch() -> None:
        """An outage with traffic before it, during it and after it."""
        try:
            await traffic.progress(100)
            await asyncio.to_thread(operator.break_store, DOWN)
            await traffic.progress(300)
            assert operator.entity(queue)["availability"] == "Limited"
            await asyncio.to_thread(operator.mend_store, DOWN)
            await traffic.progress(100)
        finally:
            traffic.stop.set()

    await asyncio.gather(
        watch(),
        traffic.send_keyless(),
        traffic.send_keyless(),
        *map(traffic.send_keyed, key_of_each(4)),
        traffic.receive(),
        traffic.receive(),
    )
    assert traffic.refused == lost, "sends with a key are refused there and nowhere else"
    assert traffic.open == set(), "no send is left without an answer"
    traffic.check()
    assert wire.peek(queue) == []
    assert operator.entity(queue)["totals"]["active"] == 0
