"""Receiving, and what the operator sees, while one store of four is down and after it."""

import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError
from proton import Delivery
from proton.reactor import AtMostOnce

from conformance.partitioning.namespace import STORES
from conformance.partitioning.operator import Operator, command
from conformance.partitioning.outages import (
    BUSY,
    DOWN,
    fresh,
    lost_and_kept,
    outage,
    serve_with_faults,
)
from conformance.partitioning.partitions import key_of_each, partition_of
from conformance.partitioning.wire import Wire, keyed, number_of, text
from conformance.settlement.bus import Bus
from conformance.settlement.steps import seconds, until, utc_now
from support.proton.client import LOCK_TOKEN
from support.receiving import collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    yield from serve_with_faults(tmp_path_factory)


@pytest.fixture
def operator(server: ServerProcess) -> Operator:
    return Operator(server)


@pytest.fixture
def queue() -> str:
    return fresh("four")


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
