"""Everything that is done by number or by token, on messages that lie in several partitions."""

import datetime
import uuid

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.exceptions import MessageLockLostError, MessageNotFoundError, ServiceBusError
from proton import Message

from conformance.partitioning.namespace import Queues
from conformance.partitioning.partitions import key_of_each, keys_in, partition_of
from conformance.partitioning.wire import Wire, keyed, number_of
from conformance.settlement.backstage import dead
from conformance.settlement.bus import RECEIVE_AND_DELETE, Bus
from conformance.settlement.steps import text_properties, until, utc_now
from support.javascript import scenario
from support.proton.client import LOCK_TOKEN, Receiver
from support.receiving import bodies, collect
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

SCRIPT = "../partitioning/js/partitioning.mjs"
HOUR = datetime.timedelta(hours=1)


def numbers(messages: list[ServiceBusReceivedMessage]) -> list[int]:
    return [message.sequence_number or 0 for message in messages]


def one_in_each(wire: Wire, queue: str) -> None:
    """A message in each of four partitions, with its partition as its text."""
    wire.fill(queue, (keyed(str(place), key) for place, key in enumerate(key_of_each(4))))


def locked_tokens(receiver: Receiver, count: int) -> list[uuid.UUID]:
    """The tokens of so many messages, in the order of their partitions."""
    messages = [message for message, _ in receiver.wait_for(count)]
    messages.sort(key=number_of)
    return [message.instructions[LOCK_TOKEN] for message in messages]


# --- deferral -------------------------------------------------------------------------------


@pytest.mark.rule("SEED-10", "SEED-76", "PAV-6", "DEF-2")
def test_deferred_messages_of_all_partitions_come_by_number_in_one_request(
    bus: Bus, wire: Wire, queue: str
) -> None:
    one_in_each(wire, queue)
    receiver = bus.receiver(queue)
    messages = collect(receiver, 4)
    for message in messages:
        receiver.defer_message(message)
    asked = numbers(messages)
    deferred = receiver.receive_deferred_messages(asked)
    assert sorted(numbers(deferred)) == sorted(asked)
    assert {partition_of(number) for number in asked} == {0, 1, 2, 3}
    complete, abandon, defer, kill = sorted(deferred, key=str)
    receiver.complete_message(complete)
    receiver.abandon_message(abandon)
    receiver.defer_message(defer)
    receiver.dead_letter_message(kill, reason="Unwanted")
    assert sorted(item.body for item in wire.peek(queue)) == ["1", "2"]
    assert [item.body for item in wire.peek(dead(queue))] == ["3"]


@pytest.mark.rule("PAV-6", "DEF-2", "ERR-7")
def test_one_missing_number_refuses_the_request_and_locks_nothing(
    bus: Bus, wire: Wire, queue: str
) -> None:
    one_in_each(wire, queue)
    receiver = bus.receiver(queue)
    messages = collect(receiver, 4)
    for message in messages:
        receiver.defer_message(message)
    asked = numbers(messages)
    for absent in (max(asked) + 1, min(asked) + 1, 4 << 48 | 1, 900 << 48 | 1):
        with pytest.raises(MessageNotFoundError):
            receiver.receive_deferred_messages([*asked, absent])
    assert len(receiver.receive_deferred_messages(asked)) == 4, "they were free all the time"


@pytest.mark.rule("SEED-76", "DEF-2")
def test_deferred_messages_of_one_partition_are_received_and_deleted(
    bus: Bus, wire: Wire, queue: str
) -> None:
    key = keys_in(3, 4, 1)[0]
    wire.fill(queue, (keyed(str(number), key) for number in range(3)))
    receiver = bus.receiver(queue)
    messages = collect(receiver, 3)
    for message in messages:
        receiver.defer_message(message)
    taker = bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE)
    assert bodies(taker.receive_deferred_messages(numbers(messages))) == ["0", "1", "2"]
    assert wire.peek(queue) == []


@pytest.mark.rule("ERR-13")
def test_deleting_deferred_messages_of_several_partitions_at_once_is_refused_not_half_done(
    bus: Bus, wire: Wire, queue: str
) -> None:
    one_in_each(wire, queue)
    receiver = bus.receiver(queue)
    messages = collect(receiver, 4)
    for message in messages:
        receiver.defer_message(message)
    taker = bus.receiver(queue, receive_mode=RECEIVE_AND_DELETE)
    with pytest.raises(ServiceBusError, match="one fragment at a time"):
        taker.receive_deferred_messages(numbers(messages))
    assert len(wire.peek(queue)) == 4
    for number in numbers(messages):
        assert len(taker.receive_deferred_messages(number)) == 1
    assert wire.peek(queue) == []


@pytest.mark.group("javascript")
@pytest.mark.rule("SEED-10", "SEED-76")
def test_the_javascript_client_defers_in_all_partitions(
    server: ServerProcess, wire: Wire, queue: str
) -> None:
    wire.fill(queue, (Message(body=number) for number in range(8)))
    deferred = scenario(SCRIPT, "defer", connection=server.connection_string, queue=queue, count=8)
    assert sorted(message["body"] for message in deferred) == list(range(8))
    assert wire.peek(queue) == []


# --- scheduling -----------------------------------------------------------------------------


@pytest.mark.rule("SEED-76", "PAV-6", "SCH-1", "SCH-3")
def test_scheduled_messages_of_all_partitions_are_cancelled_in_one_request(
    bus: Bus, wire: Wire, queue: str
) -> None:
    sender = bus.sender(queue)
    later = utc_now() + HOUR
    messages = [ServiceBusMessage(key, partition_key=key) for key in key_of_each(4) * 2]
    scheduled = sender.schedule_messages(messages, later)
    assert [partition_of(number) for number in scheduled] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert {item.number for item in wire.peek(queue)} == set(scheduled)
    sender.cancel_scheduled_messages(scheduled[:5])
    assert {item.number for item in wire.peek(queue)} == set(scheduled[5:])


@pytest.mark.rule("SEED-39", "SEED-76", "SCH-1")
def test_scheduled_messages_without_a_key_are_spread(bus: Bus, wire: Wire, queues: Queues) -> None:
    queue = queues.fresh("spread")
    sender = bus.sender(queue)
    later = utc_now() + HOUR
    scheduled = [sender.schedule_messages(ServiceBusMessage("x"), later)[0] for _ in range(12)]
    assert len(set(scheduled)) == 12
    # That 12 random starts all meet in two of 16 partitions happens once in 8^10 times.
    assert len({partition_of(number) for number in scheduled}) > 2


@pytest.mark.rule("SEED-76", "SCH-5", "SEQ-8")
def test_scheduled_messages_of_all_partitions_arrive_when_due(
    bus: Bus, wire: Wire, queue: str
) -> None:
    sender = bus.sender(queue)
    messages = [ServiceBusMessage(key, partition_key=key) for key in key_of_each(4)]
    sender.schedule_messages(messages, utc_now() + datetime.timedelta(seconds=1))
    received = collect(bus.receiver(queue), 4)
    assert sorted(bodies(received)) == sorted(key_of_each(4))
    assert {partition_of(number) for number in numbers(received)} == {0, 1, 2, 3}


@pytest.mark.group("javascript")
@pytest.mark.rule("SEED-76", "SCH-3")
def test_the_javascript_client_schedules_and_cancels(server: ServerProcess, queue: str) -> None:
    result = scenario(SCRIPT, "schedule", connection=server.connection_string, queue=queue, count=4)
    assert len(set(result["numbers"])) == 4
    assert result["left"] == []


# --- locks ----------------------------------------------------------------------------------


@pytest.mark.rule("SEED-76", "LCK-3", "SEED-95")
def test_locks_in_all_partitions_are_renewed(bus: Bus, wire: Wire, queues: Queues) -> None:
    queue = queues.fresh("renewed")  # a lock of two seconds
    one_in_each(wire, queue)
    receiver = bus.receiver(queue)
    messages = collect(receiver, 4)
    before = [message.locked_until_utc for message in messages]
    # Over the time that the first locks would have lasted, by asking again and again.
    until(
        "the end of the first locks",
        lambda: [receiver.renew_message_lock(m) for m in messages] and utc_now() > max(before),
    )
    for message in messages:
        receiver.complete_message(message)
    assert wire.peek(queue) == []


@pytest.mark.rule("LCK-3", "BAT-4")
def test_a_request_renews_locks_of_several_partitions_and_answers_in_order(
    wire: Wire, queue: str
) -> None:
    one_in_each(wire, queue)
    tokens = locked_tokens(wire.receiver(queue, credit=4), 4)
    node = wire.management(queue)
    reply = node.renew(tokens[2], tokens[0], tokens[3])
    assert reply.status == 200
    assert len(list(reply.body["expirations"])) == 3
    assert node.renew(*tokens, uuid.uuid4()).condition == "com.microsoft:message-lock-lost"


@pytest.mark.rule("BAT-4", "LCK-6")
@pytest.mark.parametrize(
    ("status", "left", "letters"),
    [("completed", 0, 0), ("abandoned", 4, 0), ("suspended", 0, 4), ("defered", 4, 0)],
)
def test_a_request_settles_messages_of_several_partitions(
    wire: Wire, queue: str, status: str, left: int, letters: int
) -> None:
    one_in_each(wire, queue)
    tokens = locked_tokens(wire.receiver(queue, credit=4), 4)
    with Wire(wire.server) as other:  # a token is good on any connection
        assert other.management(queue).settle(status, *tokens).status == 200
    assert len(wire.peek(queue)) == left
    assert len(wire.peek(dead(queue))) == letters


@pytest.mark.rule("BAT-4", "LCK-5", "ERR-4")
def test_a_lost_lock_among_those_of_other_partitions_is_told(wire: Wire, queue: str) -> None:
    one_in_each(wire, queue)
    tokens = locked_tokens(wire.receiver(queue, credit=4), 4)
    node = wire.management(queue)
    assert node.settle("completed", tokens[0]).status == 200
    reply = node.settle("completed", *tokens)
    assert (reply.status, reply.condition) == (410, "com.microsoft:message-lock-lost")
    # Atomic in one partition only: those of the others were settled.
    assert wire.peek(queue) == []


@pytest.mark.rule("LCK-5", "ERR-4", "SEED-103", "CON-14")
def test_a_lock_that_ran_out_is_lost_in_every_partition(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("brief")  # a lock of a second
    one_in_each(wire, queue)
    receiver = bus.receiver(queue)
    messages = collect(receiver, 4)
    again = wire.receiver(queue, credit=4)
    assert len(again.wait_for(4)) == 4
    for message in messages:
        with pytest.raises(MessageLockLostError) as lost:
            receiver.complete_message(message)
        assert not lost.value._retryable, "the client must not try it again"


# --- dead letters ---------------------------------------------------------------------------


@pytest.mark.rule("SEED-10", "SEED-101", "DLQ-1", "DLQ-5", "SEQ-8")
def test_dead_letters_of_all_partitions_are_in_one_dead_letter_queue(
    bus: Bus, wire: Wire, queue: str
) -> None:
    one_in_each(wire, queue)
    receiver = bus.receiver(queue)
    messages = collect(receiver, 4)
    for message in messages:
        receiver.dead_letter_message(message, reason="Unreadable", error_description="not JSON")
    assert wire.peek(queue) == []
    peeked = bus.dead_letters(queue).peek_messages(max_message_count=10)
    assert sorted(numbers(peeked)) == sorted(numbers(messages))
    letters = bus.dead_letters(queue)
    received = collect(letters, 4)
    assert sorted(numbers(received)) == sorted(numbers(messages))
    assert {text_properties(letter)["DeadLetterReason"] for letter in received} == {"Unreadable"}
    for letter in received:
        letters.complete_message(letter)
    assert wire.peek(dead(queue)) == []


@pytest.mark.rule("SEED-98", "DLV-2")
def test_too_many_deliveries_make_a_dead_letter_in_every_partition(
    bus: Bus, wire: Wire, queues: Queues
) -> None:
    queue = queues.fresh("fragile")  # two deliveries
    one_in_each(wire, queue)
    receiver = bus.receiver(queue)
    for _ in range(2):
        for message in collect(receiver, 4):
            receiver.abandon_message(message)
    letters = wire.take_dead(queue, 4)
    assert {partition_of(number_of(letter)) for letter in letters} == {0, 1, 2, 3}


# --- batch delete ---------------------------------------------------------------------------


def now_ms() -> int:
    return int(utc_now().timestamp() * 1000) + 60_000


@pytest.mark.rule("BAT-6")
def test_a_batch_delete_goes_over_the_partitions_and_passes_over_what_is_locked(
    wire: Wire, queue: str
) -> None:
    wire.fill(queue, (keyed(str(number)) for number in range(40)))
    held = wire.receiver(queue, credit=4)
    held.wait_for(4)
    node = wire.management(queue)
    assert node.delete_batch(30, now_ms()).body["message-count"] == 30
    assert node.delete_batch(30, now_ms()).body["message-count"] == 6
    assert node.delete_batch(30, now_ms()).status == 204
    assert len(wire.peek(queue)) == 4, "the locked ones"


@pytest.mark.rule("BAT-6")
def test_a_batch_delete_spares_what_came_later(wire: Wire, queue: str) -> None:
    one_in_each(wire, queue)
    first = max(wire.enqueued_ms(queue))
    until("the clock to move on", lambda: utc_now().timestamp() * 1000 > first + 1)
    one_in_each(wire, queue)
    assert wire.management(queue).delete_batch(100, first + 1).body["message-count"] == 4
    assert len(wire.peek(queue)) == 4


# --- the same as without partitions ---------------------------------------------------------


@pytest.mark.rule("SEED-10", "SEED-99", "SEED-100", "SEED-101")
@pytest.mark.parametrize("kind", ["whole", "spread"])
def test_a_client_cannot_tell_a_partitioned_queue_from_another(
    bus: Bus, wire: Wire, queues: Queues, kind: str
) -> None:
    """One story, told twice: what the client sees is the same."""
    queue = queues.fresh(kind)
    sender = bus.sender(queue)
    sender.send_messages(
        [ServiceBusMessage(str(n), message_id=str(n), session_id="one") for n in range(5)]
    )
    receiver = bus.receiver(queue, prefetch_count=3)
    messages = collect(receiver, 5)
    assert bodies(messages) == ["0", "1", "2", "3", "4"]
    assert [message.delivery_count for message in messages] == [0] * 5
    complete, abandon, defer, kill, _ = messages
    receiver.complete_message(complete)
    receiver.defer_message(defer)
    receiver.dead_letter_message(kill, reason="Unwanted")
    receiver.abandon_message(abandon)
    (again,) = collect(receiver, 1)
    assert (str(again), again.delivery_count) == ("1", 1)
    assert again.sequence_number == abandon.sequence_number
    (deferred,) = receiver.receive_deferred_messages(defer.sequence_number)
    receiver.complete_message(deferred)
    (letter,) = collect(bus.dead_letters(queue), 1)
    assert (letter.message_id, letter.dead_letter_reason) == ("3", "Unwanted")
    assert sorted(item.body for item in wire.peek(queue)) == ["1", "4"]
