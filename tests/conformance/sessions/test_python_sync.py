"""The stock synchronous Python client with sessions, on whole and on partitioned queues."""

import datetime
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiver,
)
from azure.servicebus.exceptions import (
    MessageNotFoundError,
    MessageSizeExceededError,
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from conformance.sessions.bus import SessionBus
from conformance.sessions.namespace import Queues
from conformance.settlement.bus import RECEIVE_AND_DELETE
from conformance.settlement.steps import seconds, until, utc_now
from support.receiving import bodies, collect


def lose(receiver: ServiceBusReceiver) -> None:
    """Wait until the server has taken the session away: then somebody else may have it."""
    pace = threading.Event()
    while utc_now() < receiver.session.locked_until_utc + seconds(0.2):
        pace.wait(0.1)


# --- accepting -----------------------------------------------------------------------------------


@pytest.mark.rule("SES-1")
def test_messages_and_receivers_without_a_session_are_refused(
    bus: SessionBus, queues: Queues, queue: str
) -> None:
    with pytest.raises(ServiceBusError, match="SessionId"):
        bus.sender(queue).send_messages(ServiceBusMessage("lost"))
    with pytest.raises(ServiceBusError, match="requires sessions"):
        bus.receiver(queue).__enter__()
    with pytest.raises(ServiceBusError, match="does not require sessions"):
        bus.accept(queues.fresh("sessionless"), "a")


@pytest.mark.rule("SES-3", "SES-5", "SES-6", "SES-7", "ERR-6")
def test_a_certain_session_is_held_by_one(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("a", "1"), ("b", "2"))
    holder = bus.accept(queue, "a")
    assert holder.session.session_id == "a"
    lock = holder.session.locked_until_utc - utc_now()
    assert seconds(50) < lock <= seconds(60)
    with pytest.raises(SessionCannotBeLockedError):
        bus.accept(queue, "a")
    assert bodies(collect(holder, 1)) == ["1"]
    holder.close()
    again = bus.accept(queue, "a")
    (message,) = collect(again, 1)
    assert (str(message), message.session_id, message.delivery_count) == ("1", "a", 0)


@pytest.mark.rule("SES-3")
def test_a_session_without_messages_is_accepted(bus: SessionBus, queue: str) -> None:
    receiver = bus.accept(queue, "new")
    assert receiver.session.session_id == "new"
    bus.send(queue, ("new", "first"))
    assert bodies(collect(receiver, 1)) == ["first"]


@pytest.mark.rule("SES-4", "SES-20", "SES-25", "SEED-30", "SEED-31")
def test_the_next_session_is_the_one_whose_head_waits_longest(bus: SessionBus, queue: str) -> None:
    names = [f"s{number}" for number in range(6)]
    bus.send(queue, *[(name, "1") for name in names], *[(name, "2") for name in reversed(names)])
    receivers = [bus.accept(queue) for _ in names]
    assert [receiver.session.session_id for receiver in receivers] == names
    assert [bodies(collect(receiver, 2)) for receiver in receivers] == [["1", "2"]] * 6


@pytest.mark.rule("SES-4")
def test_nobody_waits_for_ever_for_a_session(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("a", "1"))
    bus.accept(queue, "a")
    with pytest.raises(OperationTimeoutError):
        bus.accept(queue, wait=1)


@pytest.mark.rule("SES-4")
def test_who_waits_gets_the_session_that_comes(bus: SessionBus, queue: str) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(bus.accept, queue, None, 30)
        bus.send(queue, ("late", "1"))
        receiver = waiting.result()
    assert receiver.session.session_id == "late"
    assert bodies(collect(receiver, 1)) == ["1"]


# --- receiving and settling ----------------------------------------------------------------------


@pytest.mark.rule("SES-8", "SES-9", "SES-10", "SES-11")
def test_settling_in_a_session(bus: SessionBus, queue: str) -> None:
    bus.send(queue, *[("a", str(number)) for number in range(6)], ("b", "other"))
    receiver = bus.accept(queue, "a")
    messages = collect(receiver, 3)
    assert bodies(messages) == ["0", "1", "2"]
    receiver.complete_message(messages[0])
    receiver.abandon_message(messages[1])
    again = collect(receiver, 1)
    assert [(str(m), m.delivery_count) for m in again] == [("1", 1)]
    receiver.dead_letter_message(again[0], reason="tired", error_description="of it")
    receiver.complete_message(messages[2])
    rest = collect(receiver, 3)
    assert bodies(rest) == ["3", "4", "5"]
    for message in rest:
        receiver.complete_message(message)
    (letter,) = collect(bus.dead_letters(queue), 1)
    assert (str(letter), letter.session_id, letter.dead_letter_reason) == ("1", "a", "tired")


@pytest.mark.rule("DLQ-10")
def test_dead_letters_are_received_without_a_session(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("a", "bad"))
    receiver = bus.accept(queue, "a")
    receiver.dead_letter_message(collect(receiver, 1)[0])
    letters = bus.dead_letters(queue)
    (letter,) = collect(letters, 1)
    letters.defer_message(letter)
    (again,) = letters.receive_deferred_messages(letter.sequence_number)
    assert again.session_id == "a"
    letters.complete_message(again)
    assert letters.peek_messages() == []


def test_receive_and_delete_in_a_session(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("a", "1"), ("a", "2"))
    receiver = bus.accept(queue, "a", receive_mode=RECEIVE_AND_DELETE)
    assert bodies(collect(receiver, 2)) == ["1", "2"]
    assert receiver.peek_messages() == []


@pytest.mark.rule("SES-7", "SES-12", "SES-13", "ERR-5")
def test_a_lost_session_is_lost_for_every_operation_and_counted(
    bus: SessionBus, brief: str
) -> None:
    bus.send(brief, ("a", "1"), ("a", "2"))
    receiver = bus.accept(brief, "a")
    messages = collect(receiver, 2)
    receiver.complete_message(messages[0])
    lose(receiver)
    for operation in (
        lambda: receiver.complete_message(messages[1]),
        receiver.session.renew_lock,
        receiver.session.get_state,
        lambda: receiver.session.set_state(b"x"),
        lambda: receiver.receive_messages(max_wait_time=1),
    ):
        with pytest.raises(SessionLockLostError):
            operation()
    again = bus.accept(brief, "a")
    assert [(str(m), m.delivery_count) for m in collect(again, 1)] == [("2", 1)]


@pytest.mark.rule("SES-7")
def test_a_renewed_session_stays(bus: SessionBus, brief: str) -> None:
    bus.send(brief, ("a", "1"))
    receiver = bus.accept(brief, "a")
    (message,) = collect(receiver, 1)
    before = receiver.session.locked_until_utc
    pace = threading.Event()
    while utc_now() < before + seconds(1):
        pace.wait(0.5)
        assert receiver.session.renew_lock() == receiver.session.locked_until_utc
    assert receiver.session.locked_until_utc > before
    receiver.complete_message(message)


@pytest.mark.rule("SES-7")
def test_a_session_is_renewed_by_the_client_s_renewer(bus: SessionBus, brief: str) -> None:
    bus.send(brief, ("a", "1"))
    with AutoLockRenewer() as renewer:
        receiver = bus.accept(brief, "a", auto_lock_renewer=renewer)
        (message,) = collect(receiver, 1)
        before = receiver.session.locked_until_utc
        until("a time beyond the first lock", lambda: utc_now() > before + seconds(0.5))
        receiver.complete_message(message)


@pytest.mark.rule("SES-13", "DLV-2")
def test_a_message_that_is_given_up_too_often_becomes_a_dead_letter(
    bus: SessionBus, queues: Queues
) -> None:
    queue = queues.fresh("fragile")
    bus.send(queue, ("a", "poison"), ("a", "good"))
    receiver = bus.accept(queue, "a")
    for _ in range(2):
        (message,) = collect(receiver, 1)
        assert str(message) == "poison"
        receiver.abandon_message(message)
    assert bodies(collect(receiver, 1)) == ["good"]
    assert bodies(collect(bus.dead_letters(queue), 1)) == ["poison"]


# --- state, list, peek, deferral -----------------------------------------------------------------


@pytest.mark.rule("SES-15", "SES-16", "SES-17")
def test_state_outlives_messages_and_holders(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("a", "1"))
    receiver = bus.accept(queue, "a")
    assert receiver.session.get_state() is None
    receiver.session.set_state(b"half way")
    receiver.complete_message(collect(receiver, 1)[0])
    receiver.close()
    again = bus.accept(queue, "a")
    assert again.session.get_state() == b"half way"
    with pytest.raises(MessageSizeExceededError):
        again.session.set_state(bytes(1_500_000))
    again.session.set_state(None)
    assert again.session.get_state() is None


@pytest.mark.rule("SES-2", "SES-18", "SES-20")
def test_sessions_are_listed(bus: SessionBus, queue: str) -> None:
    names = sorted(f"s{number:03}" for number in range(5))
    assert list(bus.client.list_queue_sessions(queue)) == []
    bus.send(queue, *[(name, "1") for name in names])
    began = utc_now()
    receiver = bus.accept(queue, "with-state")
    receiver.session.set_state(b"x")
    listed = sorted(bus.client.list_queue_sessions(queue))
    assert listed == [*names, "with-state"]
    changed = bus.client.list_queue_sessions(queue, state_updated_after=began - seconds(1))
    assert list(changed) == ["with-state"]
    later = bus.client.list_queue_sessions(queue, state_updated_after=began + seconds(3600))
    assert list(later) == []


@pytest.mark.rule("SES-18", "SES-20")
def test_many_sessions_are_listed_page_by_page(bus: SessionBus, queue: str) -> None:
    names = [f"s{number:03}" for number in range(230)]
    with bus.sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("1", session_id=name) for name in names])
    assert sorted(bus.client.list_queue_sessions(queue)) == names


@pytest.mark.rule("PEK-3", "PEK-10")
def test_peek_in_a_session_and_without_one(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("a", "1"), ("b", "2"), ("a", "3"))
    receiver = bus.accept(queue, "a")
    collect(receiver, 1)
    assert bodies(receiver.peek_messages(10, sequence_number=1)) == ["1", "3"]


@pytest.mark.rule("DEF-7", "SES-21")
def test_deferral_needs_the_session(bus: SessionBus, queue: str) -> None:
    bus.send(queue, ("a", "1"), ("a", "2"))
    receiver = bus.accept(queue, "a")
    for message in collect(receiver, 2):
        receiver.defer_message(message)
    number = message.sequence_number
    assert number is not None
    receiver.close()
    with pytest.raises(OperationTimeoutError):
        bus.accept(queue, wait=1)
    other = bus.accept(queue, "b")
    with pytest.raises((MessageNotFoundError, ServiceBusError)):
        other.receive_deferred_messages(number)
    again = bus.accept(queue, "a")
    (deferred,) = again.receive_deferred_messages(number)
    assert str(deferred) == "2"
    again.complete_message(deferred)
    assert [m.state for m in again.peek_messages(10, sequence_number=1)] == [
        ServiceBusMessageState.DEFERRED
    ]


@pytest.mark.rule("SES-21", "SCH-4")
def test_a_scheduled_message_enters_the_order_when_it_is_due(bus: SessionBus, queue: str) -> None:
    due = utc_now() + datetime.timedelta(seconds=1)
    with bus.sender(queue) as sender:
        sender.schedule_messages(ServiceBusMessage("due", session_id="a"), due)
        sender.send_messages(ServiceBusMessage("now", session_id="a"))
    receiver = bus.accept(queue, "a")
    assert bodies(collect(receiver, 2)) == ["now", "due"]
