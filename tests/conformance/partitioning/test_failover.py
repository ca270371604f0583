"""One store of four goes down and comes back, while the server runs and clients are at work."""

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusServerBusyError
from proton import Delivery
from proton.reactor import AtMostOnce

from conformance.partitioning.namespace import STORES
from conformance.partitioning.operator import Operator, command
from conformance.partitioning.partitions import (
    key_of_each,
    partition_of,
    partition_of_key,
    spread,
)
from conformance.partitioning.traffic import Traffic
from conformance.partitioning.wire import Wire, keyed, number_of
from conformance.settlement.bus import Bus
from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import seconds, until, utc_now
from support.proton_client import LOCK_TOKEN
from support.receiving import collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

DOWN = 1  # the store that fails in every test
BUSY = "com.microsoft:server-busy"
# What a client must allow for a send that has to find another partition (SEED-42).
FAILOVER_SECONDS_MAX = 15

_PARTITIONED = {"enable_partitioning": "true"}
_FOUR = _PARTITIONED | {"partition_count": "4"}
QUEUES = {
    **{f"four-{number}": _FOUR for number in range(40)},
    **{f"spread-{number}": _PARTITIONED for number in range(5)},
    **{f"brief-{number}": _FOUR | {"lock_duration": '"PT1S"'} for number in range(3)},
    **{f"busy-{number}": _FOUR | {"lock_duration": '"PT2S"'} for number in range(3)},
    **{f"whole-{number}": {} for number in range(8)},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("failover")
    config = write_queues(directory / "namespace.toml", QUEUES)
    with ServerProcess(directory, config, "--stores", str(STORES), "--faults") as process:
        yield process


@pytest.fixture
def operator(server: ServerProcess) -> Operator:
    return Operator(server)


_numbers = {kind: itertools.count() for kind in ("four", "spread", "brief", "busy", "whole")}


def fresh(kind: str) -> str:
    """A queue that no other test uses."""
    name = f"{kind}-{next(_numbers[kind])}"
    assert name in QUEUES, f"declare more queues of the kind {kind!r}"
    return name


@pytest.fixture
def queue() -> str:
    return fresh("four")


@contextmanager
def outage(operator: Operator, mode: str = "down") -> Iterator[None]:
    """Within it the store is down, and the server knows."""
    operator.break_store(DOWN, mode)
    try:
        yield
    finally:
        operator.mend_store(DOWN)


def lost_and_kept(operator: Operator, queue: str) -> tuple[set[int], set[int]]:
    """The partitions in the store that fails, and the others."""
    lost = operator.partitions_in(queue, DOWN)
    every = set(range(len(operator.placement(queue))))
    assert lost
    assert every - lost
    return lost, every - lost


def text(message: object) -> str:
    return bytes(message.body).decode()  # type: ignore[attr-defined]


# --- sending --------------------------------------------------------------------------------


@pytest.mark.rule("SEED-4", "SEED-40", "SEED-43", "SEED-44", "PAV-1", "CON-5")
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


@pytest.mark.rule("SEED-29", "SEED-43", "SEED-57", "SEED-58", "SEED-59", "PAV-1", "ERR-16")
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
    (partition,), _ = lost_and_kept(operator, queue)
    batch = [ServiceBusMessage(key, partition_key=key) for key in key_of_each(4)]
    with outage(operator):
        with pytest.raises(ServiceBusServerBusyError, match=f"Fragment {partition} "):
            bus.sender(queue).send_messages(batch)
        assert wire.peek(queue) == []


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


# --- receiving ------------------------------------------------------------------------------


@pytest.mark.rule("SEED-4", "PAV-2", "SEED-8")
def test_receives_go_on_with_the_others_and_the_rest_comes_after_the_outage(
    operator: Operator, wire: Wire
) -> None:
    queue = fresh("spread")
    lost, kept = lost_and_kept(operator, queue)
    wire.fill(queue, (keyed(str(number)) for number in range(160)))
    with outage(operator):
        receiver = wire.receiver(queue, credit=200)
        healthy = 10 * len(kept)
        first = receiver.wait_for(healthy)
        assert {partition_of(number_of(message)) for message, _ in first} == kept
        wire.round_trip(queue)
        assert receiver.arrived == 0
        for _, delivery in first:
            delivery.update(Delivery.ACCEPTED)
        wire.await_answers([delivery for _, delivery in first])
    # The same link, without a word from the client.
    rest = receiver.wait_for(160 - healthy)
    assert {partition_of(number_of(message)) for message, _ in rest} == lost
    every = [text(message) for message, _ in first + rest]
    assert sorted(map(int, every)) == list(range(160))
    assert {message.delivery_count for message, _ in first + rest} == {0}


@pytest.mark.rule("PAV-2", "CON-16")
def test_a_receiver_that_waited_through_the_outage_gets_what_comes_after_it(
    operator: Operator, wire: Wire, queue: str
) -> None:
    receiver = wire.receiver(queue, credit=20)
    wire.round_trip(queue)
    with outage(operator):
        wire.round_trip(queue)
    wire.fill(queue, (keyed(key, key) for key in key_of_each(4)))
    got = receiver.wait_for(4)
    assert {partition_of(number_of(message)) for message, _ in got} == {0, 1, 2, 3}


@pytest.mark.rule("PAV-2", "SEED-93")
def test_receive_and_delete_leaves_what_it_cannot_delete(
    operator: Operator, wire: Wire, queue: str
) -> None:
    lost, kept = lost_and_kept(operator, queue)
    wire.fill(queue, (keyed(str(number)) for number in range(40)))
    with outage(operator):
        receiver = wire.receiver(queue, credit=100, option=AtMostOnce())
        first = [message for message, _ in receiver.wait_for(10 * len(kept))]
        wire.round_trip(queue)
        assert receiver.arrived == 0
    rest = [message for message, _ in receiver.wait_for(10 * len(lost))]
    assert sorted(int(text(message)) for message in first + rest) == list(range(40))
    assert wire.peek(queue) == []


@pytest.mark.rule("PAV-4", "SEED-58")
def test_what_lies_there_is_settled_when_the_store_is_back(
    operator: Operator, wire: Wire, queue: str
) -> None:
    lost, _ = lost_and_kept(operator, queue)
    wire.fill(queue, (keyed(key, key) for key in key_of_each(4)))
    tokens: dict[int, uuid.UUID] = {}
    for message, _ in wire.receiver(queue, credit=4).wait_for(4):
        tokens[partition_of(number_of(message))] = message.instructions[LOCK_TOKEN]
    node = wire.management(queue)
    with outage(operator):
        for partition, token in tokens.items():
            reply = node.settle("completed", token)
            if partition in lost:
                assert (reply.status, reply.condition) == (503, BUSY)
            else:
                assert reply.status == 200
        assert {partition_of(item.number) for item in wire.peek(queue)} == set()
    for partition in lost:
        assert node.settle("completed", tokens[partition]).status == 200
    assert wire.peek(queue) == []


@pytest.mark.rule("PAV-4", "PAV-2", "SEED-97")
def test_a_lock_may_lapse_during_the_outage(operator: Operator, bus: Bus, wire: Wire) -> None:
    queue = fresh("brief")  # a lock of a second
    wire.fill(queue, (keyed(key, key) for key in key_of_each(4)))
    wire.receiver(queue, credit=4).wait_for(4)
    with outage(operator):
        _, kept = lost_and_kept(operator, queue)
        others = collect(bus.receiver(queue), len(kept))
        assert {partition_of(message.sequence_number or 0) for message in others} == kept
    everything = wire.receiver(queue, credit=10)
    lost_keys = {key for place, key in enumerate(key_of_each(4)) if place not in kept}
    seen: set[str] = set()
    while not lost_keys <= seen:
        ((message, _),) = everything.wait_for(1)
        seen.add(text(message))


@pytest.mark.rule("PAV-6", "SEED-58", "SEED-59")
def test_operations_by_number_fail_only_in_the_store_that_is_down(
    operator: Operator, bus: Bus, wire: Wire, queue: str
) -> None:
    lost, kept = lost_and_kept(operator, queue)
    wire.fill(queue, (keyed(key, key) for key in key_of_each(4)))
    receiver = bus.receiver(queue)
    numbers = {}
    for message in collect(receiver, 4):
        receiver.defer_message(message)
        number = message.sequence_number or 0
        numbers[partition_of(number)] = number
    later = utc_now() + seconds(3600)
    sender = bus.sender(queue)
    messages = [ServiceBusMessage("later", partition_key=key) for key in key_of_each(4)]
    scheduled = dict(enumerate(sender.schedule_messages(messages, later)))
    with outage(operator):
        shown = {partition_of(item.number) for item in wire.peek(queue)}
        assert shown == kept, "peek shows what it can reach"
        for partition in sorted(kept):
            (message,) = receiver.receive_deferred_messages(numbers[partition])
            receiver.complete_message(message)
            sender.cancel_scheduled_messages(scheduled[partition])
        for partition in lost:
            with pytest.raises(ServiceBusServerBusyError):
                receiver.receive_deferred_messages(numbers[partition])
            with pytest.raises(ServiceBusServerBusyError):
                sender.cancel_scheduled_messages(scheduled[partition])
    for partition in lost:
        (message,) = receiver.receive_deferred_messages(numbers[partition])
        receiver.complete_message(message)
        sender.cancel_scheduled_messages(scheduled[partition])
    assert wire.peek(queue) == []


# --- what the operator sees -----------------------------------------------------------------


@pytest.mark.rule("SEED-61", "SEED-62", "PAV-5", "CNT-4")
def test_the_availability_is_limited_as_long_as_a_partition_is_down(
    operator: Operator, wire: Wire, queue: str
) -> None:
    lost, _ = lost_and_kept(operator, queue)
    wire.fill(queue, (keyed(str(number)) for number in range(40)))
    assert operator.entity(queue)["availability"] == "Available"
    with outage(operator):
        shown = operator.entity(queue)
        assert shown["availability"] == "Limited"
        down = {f["index"] for f in shown["fragments"] if f["state"] == "down"}
        assert down == lost
        healthy = [f["active"] for f in shown["fragments"] if f["index"] not in lost]
        assert healthy == [10, 10, 10]
    shown = operator.entity(queue)
    assert shown["availability"] == "Available"
    assert shown["totals"]["active"] == 40


@pytest.mark.rule("SEED-62", "SEED-58")
def test_when_all_stores_are_down_a_send_without_a_key_fails_with_an_error_to_retry(
    operator: Operator, bus: Bus, wire: Wire, queue: str
) -> None:
    sender = bus.sender(queue)
    sender.send_messages(ServiceBusMessage("before"))
    for store in range(STORES):
        operator.break_store(store)
    try:
        with pytest.raises(ServiceBusServerBusyError):
            sender.send_messages(ServiceBusMessage("during"))
        assert operator.entity(queue)["availability"] == "Unavailable"
    finally:
        operator.mend_all()
    sender.send_messages(ServiceBusMessage("after"))
    assert sorted(text(message) for message in wire.take(queue, 2)) == ["after", "before"]


def test_the_command_breaks_and_mends_a_store(server: ServerProcess, operator: Operator) -> None:
    place = ("--url", f"http://127.0.0.1:{server.ready.http_port}")
    done = command("fault", "store", str(DOWN), "down", *place)
    assert done.returncode == 0, done.stderr
    until("the store to be down", lambda: operator.store(DOWN)["state"] == "down")
    assert command("fault", "store", str(DOWN), "up", *place).returncode == 0
    until("the store to be up", lambda: operator.store(DOWN)["state"] == "up")


# --- all together ---------------------------------------------------------------------------


@pytest.mark.rule("SEED-4", "SEED-28", "SEED-29", "SEED-40", "SEED-59", "PAV-1", "PAV-2", "SEQ-10")
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
