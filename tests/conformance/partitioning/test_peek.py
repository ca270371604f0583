"""Peek over partitions: merged, walked by repeated calls, started anywhere, within its limits."""

import datetime

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver
from azure.servicebus.aio import ServiceBusClient
from proton import Delivery, Message

from conformance.partitioning.namespace import Queues
from conformance.partitioning.partitions import counter_of, key_of_each, keys_in, partition_of
from conformance.partitioning.wire import Wire, keyed
from conformance.settlement.backstage import ACTIVE, DEFERRED, SCHEDULED
from conformance.settlement.bus import Bus
from conformance.settlement.steps import utc_now
from support.javascript import scenario
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

SCRIPT = "../partitioning/js/partitioning.mjs"
PEEK_BYTES_MAX = 256 * 1024
PEEK_MESSAGES_MAX = 250


def walk(
    receiver: ServiceBusReceiver, count: int, **first: int
) -> list[list[ServiceBusReceivedMessage]]:
    """The answers to repeated peeks, until nothing is left."""
    answers = []
    answer = receiver.peek_messages(max_message_count=count, **first)
    while answer:
        answers.append(answer)
        answer = receiver.peek_messages(max_message_count=count)
    return answers


def place(message: ServiceBusReceivedMessage) -> tuple[datetime.datetime, int]:
    """Where the merged order puts a message: by time, then by number."""
    assert message.enqueued_time_utc is not None
    assert message.sequence_number is not None
    return message.enqueued_time_utc, message.sequence_number


@pytest.mark.rule("PEK-4", "PEK-9", "CON-6", "SEED-73", "SEED-76")
def test_repeated_peeks_walk_all_partitions_in_the_order_of_time(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    # Accepted one by one, so that the times grow.
    wire.send(queue, *(str(number) for number in range(60)))
    answers = walk(bus.receiver(queue), 7)
    messages = [message for answer in answers for message in answer]
    assert sorted(int(str(message)) for message in messages) == list(range(60)), "each once"
    assert messages == sorted(messages, key=place)
    assert [len(answer) for answer in answers] == [7] * 8 + [4], "no answer stops short"
    assert {message.sequence_number for message in messages} == {
        item.number for item in wire.peek(queue)
    }


@pytest.mark.rule("PEK-9", "SEED-14", "PEK-4")
def test_the_walk_goes_on_with_what_comes_later(bus: Bus, wire: Wire, queue: str) -> None:
    wire.fill(queue, (keyed(str(number)) for number in range(10)))
    receiver = bus.receiver(queue)
    assert len(receiver.peek_messages(max_message_count=100)) == 10
    assert receiver.peek_messages(max_message_count=100) == []
    wire.fill(queue, (keyed(f"late {number}") for number in range(10)))
    late = receiver.peek_messages(max_message_count=100)
    assert sorted(map(str, late)) == [f"late {number}" for number in range(10)]


@pytest.mark.rule("PEK-4")
def test_every_receiver_walks_for_itself(bus: Bus, wire: Wire, queue: str) -> None:
    wire.fill(queue, (keyed(str(number)) for number in range(12)))
    first, second = bus.receiver(queue), bus.receiver(queue)
    seen: dict[ServiceBusReceiver, list[int]] = {first: [], second: []}
    for receiver, count in ((first, 5), (second, 2), (first, 7), (second, 6), (second, 4)):
        peeked = receiver.peek_messages(max_message_count=count)
        seen[receiver] += [message.sequence_number or 0 for message in peeked]
    assert seen[first] == seen[second]
    assert len(set(seen[first])) == 12


@pytest.mark.rule("PEK-4", "PEK-9", "PAV-6", "SEED-14")
def test_a_peek_from_a_number_starts_in_its_partition_and_goes_on_to_the_higher_ones(
    bus: Bus, wire: Wire, queue: str
) -> None:
    for key in key_of_each(4):
        wire.fill(queue, (keyed("text", key) for _ in range(6)))
    every = sorted(item.number for item in wire.peek(queue))
    receiver = bus.receiver(queue)
    start = every[6 + 2]  # the third message of the second partition
    assert (partition_of(start), counter_of(start)) == (1, counter_of(every[6]) + 2)
    answers = walk(receiver, 5, sequence_number=start)
    assert [m.sequence_number for answer in answers for m in answer] == every[8:]
    # An explicit number starts again, wherever the walk had come to.
    again = receiver.peek_messages(max_message_count=3, sequence_number=every[6])
    assert [message.sequence_number for message in again] == every[6:9]
    assert len(receiver.peek_messages(max_message_count=100, sequence_number=1)) == 24


@pytest.mark.rule("PEK-4", "PAV-6")
def test_a_peek_from_behind_the_last_message_shows_nothing(
    bus: Bus, wire: Wire, queue: str
) -> None:
    wire.fill(queue, (keyed("text", keys_in(1, 4, 1)[0]) for _ in range(3)))
    last = max(item.number for item in wire.peek(queue))
    receiver = bus.receiver(queue)
    assert receiver.peek_messages(sequence_number=last + 1) == []
    assert receiver.peek_messages(sequence_number=2 << 48) == []
    assert receiver.peek_messages(sequence_number=900 << 48) == []


@pytest.mark.rule("PEK-5", "SEED-71", "QTA-16")
def test_no_answer_has_more_than_the_most(bus: Bus, wire: Wire, queue: str) -> None:
    wire.fill(queue, (keyed(str(number)) for number in range(600)))
    answers = walk(bus.receiver(queue), 1000)
    assert [len(answer) for answer in answers] == [PEEK_MESSAGES_MAX, PEEK_MESSAGES_MAX, 100]
    assert {int(str(m)) for answer in answers for m in answer} == set(range(600))


@pytest.mark.rule("PEK-7", "SEED-71", "SEED-72", "SEED-73", "PEK-5")
def test_an_answer_ends_before_it_grows_too_large(bus: Bus, wire: Wire, queue: str) -> None:
    large = 60_000
    wire.fill(queue, (keyed(f"{number:0{large}}") for number in range(12)))
    answers = walk(bus.receiver(queue), 12)
    assert all(len(answer) * large <= PEEK_BYTES_MAX for answer in answers)
    assert len(answers[0]) == PEEK_BYTES_MAX // large
    messages = [message for answer in answers for message in answer]
    assert sorted(int(str(message)[-9:]) for message in messages) == list(range(12))


@pytest.mark.rule("PEK-7", "SEED-73")
def test_a_message_larger_than_an_answer_is_shown_alone(bus: Bus, wire: Wire, queue: str) -> None:
    wire.fill(queue, (Message(body=b"x" * 400_000, inferred=True) for _ in range(4)))
    answers = walk(bus.receiver(queue), 10)
    assert [len(answer) for answer in answers] == [1, 1, 1, 1]


@pytest.mark.rule("SEED-12", "SEED-14", "PEK-4")
def test_without_partitions_the_oldest_comes_first(bus: Bus, wire: Wire, queues: Queues) -> None:
    queue = queues.fresh("whole")
    wire.fill(queue, (keyed(str(number)) for number in range(20)))
    receiver = wire.receiver(queue, credit=5)
    for _, delivery in receiver.wait_for(5):
        receiver.settle(delivery, Delivery.ACCEPTED)
    peeked = [message for answer in walk(bus.receiver(queue), 4) for message in answer]
    assert [str(message) for message in peeked] == [str(number) for number in range(5, 20)]


@pytest.mark.rule("SEED-13", "SEED-14")
def test_within_a_partition_the_order_is_that_of_the_numbers(
    bus: Bus, wire: Wire, queue: str
) -> None:
    wire.fill(queue, (keyed(str(number)) for number in range(200)))
    by_partition: dict[int, list[int]] = {}
    for answer in walk(bus.receiver(queue), 9):
        for message in answer:
            number = message.sequence_number or 0
            by_partition.setdefault(partition_of(number), []).append(number)
    assert len(by_partition) == 4
    assert all(numbers == sorted(numbers) for numbers in by_partition.values())


@pytest.mark.rule("PEK-1", "PEK-2")
def test_locked_deferred_and_scheduled_messages_of_all_partitions_are_shown(
    wire: Wire, bus: Bus, queue: str
) -> None:
    wire.fill(queue, (keyed("deferred", key) for key in key_of_each(4)))
    receiver = wire.receiver(queue, credit=4)
    node = wire.management(queue)
    for message, _ in receiver.wait_for(4):
        (token,) = message.instructions.values()
        assert node.settle("defered", token).status == 200
    wire.fill(queue, (keyed("locked", key) for key in key_of_each(4)))
    receiver.link.flow(4)
    receiver.wait_for(4)
    later = utc_now() + datetime.timedelta(hours=1)
    wire.fill(queue, (keyed("scheduled", key, due=later) for key in key_of_each(4)))
    shown = {(item.body, item.state, partition_of(item.number)) for item in wire.peek(queue)}
    states = (("deferred", DEFERRED), ("locked", ACTIVE), ("scheduled", SCHEDULED))
    assert shown == {(body, state, p) for body, state in states for p in range(4)}


@pytest.mark.rule("PEK-1", "PEK-3")
def test_peek_locks_nothing_in_any_partition(wire: Wire, queue: str) -> None:
    wire.fill(queue, (keyed(str(number)) for number in range(20)))
    assert len(wire.peek(queue)) == 20
    messages = wire.take(queue, 20)
    assert {message.delivery_count for message in messages} == {0}


@pytest.mark.rule("PEK-4", "PEK-9")
async def test_the_asynchronous_client_walks_too(
    async_client: ServiceBusClient, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("spread")
    wire.fill(queue, (keyed(str(number)) for number in range(40)))
    seen = []
    async with async_client.get_queue_receiver(queue) as receiver:
        while peeked := await receiver.peek_messages(max_message_count=6):
            seen += peeked
    assert sorted(int(str(message)) for message in seen) == list(range(40))
    assert seen == sorted(seen, key=place)


@pytest.mark.group("javascript")
@pytest.mark.rule("PEK-4", "PEK-8", "PEK-9")
def test_the_javascript_client_walks_too(server: ServerProcess, wire: Wire, queue: str) -> None:
    wire.fill(queue, (Message(body=number) for number in range(40)))
    seen = scenario(SCRIPT, "peek", connection=server.connection_string, queue=queue, count=6)
    assert sorted(message["body"] for message in seen) == list(range(40))
    assert len({message["sequenceNumber"] for message in seen}) == 40
