"""Sessions of one fragment: who holds which, and in what order."""

import sys

import pytest

from partibus.domain.errors import (
    InvalidOperation,
    MessageNotFound,
    OperationTimeout,
    SessionCannotBeLocked,
    SessionLockLost,
)
from partibus.fragment.commands import (
    Demand,
    Detach,
    DropLocks,
    Outcome,
    Resume,
    Settle,
    SubQueueType,
    Tick,
    Undelivered,
)
from partibus.fragment.sessions.commands import AcceptSession, FindOldestSession, SessionConsumer
from partibus.fragment.sessions.state import Sessions
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import Delivered, FragmentBench, SessionInbox

LOCK_MS = 10_000
SPEC = FragmentSpec(
    lock_duration_ms=LOCK_MS, max_delivery_count=3, requires_session=True, path="orders"
)


@pytest.fixture
def bench() -> FragmentBench:
    return FragmentBench(SPEC)


def bodies(messages: list[Delivered]) -> list[bytes]:
    return [message.body for message in messages]


def kinds(inbox: SessionInbox) -> list[type]:
    return [type(error) for error in inbox.errors]


def later(bench: FragmentBench, delta_ms: int) -> None:
    bench.scheduler.advance_ms(delta_ms)
    bench.run()


# --- accepting -----------------------------------------------------------------------------------


@pytest.mark.rule("SES-3", "SES-6", "SES-9")
def test_a_certain_session_is_held_by_one_and_refused_to_the_next(bench: FragmentBench) -> None:
    bench.send(b"one", b"two", session_id="a")
    holder, _ = bench.accept("a")
    assert (holder.session_id, holder.locked_until_ms) == ("a", bench.clock.now_ms() + LOCK_MS)
    second, _ = bench.accept("a")
    assert kinds(second) == [SessionCannotBeLocked]
    assert holder.is_holding


@pytest.mark.rule("SES-3")
def test_a_session_without_messages_is_made_by_accepting_it(bench: FragmentBench) -> None:
    inbox, consumer = bench.accept("new")
    assert inbox.is_holding
    bench.demand(consumer, 5)
    bench.send(b"one", session_id="new")
    assert bodies(inbox.take()) == [b"one"]


@pytest.mark.rule("SES-4", "SES-25")
def test_any_session_means_the_one_whose_head_waits_longest(bench: FragmentBench) -> None:
    for session_id in ("c", "a", "b", "a", "c"):
        bench.send(b"x", session_id=session_id)
    given = [bench.accept()[0].session_id for _ in range(3)]
    assert given == ["c", "a", "b"]
    fourth, _ = bench.accept()
    assert kinds(fourth) == [OperationTimeout]


@pytest.mark.rule("SES-25")
def test_the_head_decides_and_not_the_session_s_age(bench: FragmentBench) -> None:
    bench.send(b"a1", session_id="a")
    bench.send(b"b1", session_id="b")
    bench.send(b"a2", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    bench.settle([inbox.take()[0].token])
    bench.submit(Detach(consumer))
    assert bench.accept()[0].session_id == "b"
    assert bench.accept()[0].session_id == "a"


@pytest.mark.rule("SES-4")
def test_receivers_wait_in_line_for_any_session(bench: FragmentBench) -> None:
    first, _ = bench.accept(waits=True)
    second, _ = bench.accept(waits=True)
    bench.send(b"x", session_id="a")
    assert (first.session_id, second.session_id) == ("a", None)
    bench.send(b"y", session_id="a")
    assert second.session_id is None
    bench.send(b"z", session_id="b")
    assert second.session_id == "b"


def test_a_receiver_that_left_the_line_gets_no_session(bench: FragmentBench) -> None:
    first, consumer = bench.accept(waits=True)
    second, _ = bench.accept(waits=True)
    bench.submit(Detach(consumer))
    bench.send(b"x", session_id="a")
    assert (first.session_id, second.session_id) == (None, "a")


def test_a_released_session_goes_to_who_waits(bench: FragmentBench) -> None:
    bench.send(b"x", session_id="a")
    _, holder = bench.accept("a")
    waiting, _ = bench.accept(waits=True)
    assert waiting.session_id is None
    bench.submit(Detach(holder))
    assert waiting.session_id == "a"


def test_a_fragment_without_sessions_gives_none() -> None:
    bench = FragmentBench(FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=3, path="q"))
    inbox, _ = bench.accept("a")
    assert kinds(inbox) == [InvalidOperation]


def test_the_age_of_the_oldest_head_is_told(bench: FragmentBench) -> None:
    bench.submit(FindOldestSession(bench.ports))
    began_ms = bench.clock.now_ms()
    bench.send(b"x", session_id="a")
    later(bench, 500)
    bench.send(b"y", session_id="b")
    bench.submit(FindOldestSession(bench.ports))
    bench.accept("a")
    bench.submit(FindOldestSession(bench.ports))
    assert bench.ports.answers == [0, began_ms, began_ms + 500]


# --- receiving and settling ----------------------------------------------------------------------


@pytest.mark.rule("SES-9", "SES-11", "SES-21")
def test_only_its_own_messages_in_order_and_each_once(bench: FragmentBench) -> None:
    for number in range(6):
        bench.send(b"%d" % number, session_id="ab"[number % 2])
    inbox, consumer = bench.accept("b")
    bench.demand(consumer, 2)
    assert bodies(inbox.take()) == [b"1", b"3"]
    bench.demand(consumer, 10)
    assert bodies(inbox.take()) == [b"5"]


@pytest.mark.rule("SES-8")
def test_messages_are_locked_as_long_as_their_session(bench: FragmentBench) -> None:
    bench.send(b"x", session_id="a")
    inbox, consumer = bench.accept("a")
    later(bench, LOCK_MS - 1000)
    bench.demand(consumer, 1)
    (message,) = inbox.take()
    assert message.locked_until_ms == inbox.locked_until_ms
    assert bench.renew_session(inbox) == bench.clock.now_ms() + LOCK_MS
    later(bench, LOCK_MS - 1000)
    assert bench.settle([message.token]) == ([], None)


@pytest.mark.rule("SES-10")
def test_an_abandoned_message_is_the_next(bench: FragmentBench) -> None:
    bench.send(b"1", b"2", b"3", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    (first,) = inbox.take()
    # The client grants credit before it hears that the abandonment is durable.
    bench.broker.submit(
        bench.machine, Settle(None, None, SubQueueType.MAIN, [first.token], Outcome.ABANDON)
    )
    bench.demand(consumer, 2)
    again = inbox.take()
    assert bodies(again) == [b"1", b"2"]
    assert again[0].delivery_count == 1


@pytest.mark.rule("SES-7", "SES-14")
def test_a_released_session_begins_anew_without_counting(bench: FragmentBench) -> None:
    bench.send(b"1", b"2", b"3", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 3)
    first, second, _ = inbox.take()
    bench.settle([first.token])
    bench.submit(Detach(consumer))
    assert bench.settle([second.token]) == ([second.token], None)
    again, consumer = bench.accept("a")
    bench.demand(consumer, 3)
    assert [(m.body, m.delivery_count) for m in again.take()] == [(b"2", 0), (b"3", 0)]


@pytest.mark.rule("SES-7", "SES-12", "SES-13")
def test_a_lapsed_session_is_lost_and_counted(bench: FragmentBench) -> None:
    bench.send(b"1", b"2", b"3", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 2)
    first, _ = inbox.take()
    later(bench, LOCK_MS)
    assert kinds(inbox) == [SessionLockLost]
    assert bench.settle([first.token]) == ([first.token], None)
    assert bench.renew_session(inbox) == 0
    assert isinstance(bench.get_state(inbox), SessionLockLost)
    assert isinstance(bench.set_state(inbox, b"x"), SessionLockLost)
    again, consumer = bench.accept("a")
    bench.demand(consumer, 3)
    counts = [(m.body, m.delivery_count) for m in again.take()]
    assert counts == [(b"1", 1), (b"2", 1), (b"3", 0)]


@pytest.mark.rule("SES-13")
def test_a_lapse_is_counted_once_however_often_the_time_is_looked_at(bench: FragmentBench) -> None:
    bench.send(b"1", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    bench.clock.advance_ms(LOCK_MS)
    for _ in range(3):
        bench.broker.submit(bench.machine, Tick())
    bench.run()
    assert kinds(inbox) == [SessionLockLost]
    again, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    assert [m.delivery_count for m in again.take()] == [1]


@pytest.mark.rule("SES-13", "DLQ-10", "DLV-2")
def test_too_many_lapses_end_among_the_dead_letters(bench: FragmentBench) -> None:
    bench.send(b"bad", session_id="a")
    for _ in range(3):
        _, consumer = bench.accept("a")
        bench.demand(consumer, 1)
        later(bench, LOCK_MS)
    assert bench.accept()[0].errors
    (letter,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    assert letter.body == b"bad"
    assert bench.settle([letter.token], Outcome.DEFER, SubQueueType.DEAD_LETTER) == ([], None)
    deferred = bench.receive_deferred(letter.sequence, subqueue=SubQueueType.DEAD_LETTER)
    assert isinstance(deferred, list)
    assert bodies(deferred) == [b"bad"]


def test_a_lapse_that_no_timer_has_seen_yet_is_seen_by_who_accepts(bench: FragmentBench) -> None:
    bench.send(b"1", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    bench.clock.advance_ms(LOCK_MS)
    again, consumer = bench.accept("a")
    assert kinds(inbox) == [SessionLockLost]
    assert again.is_holding
    bench.demand(consumer, 1)
    assert [m.delivery_count for m in again.take()] == [1]


def test_who_asks_for_a_session_that_is_closing_gets_it_when_it_is_free(
    bench: FragmentBench,
) -> None:
    bench.send(b"1", b"2", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 2)
    first, _ = inbox.take()
    # All in one turn: nothing is durable when the next receiver asks.
    heirs = [SessionInbox(), SessionInbox()]
    consumers = [SessionConsumer(1, heir, False) for heir in heirs]
    settle = Settle(None, None, SubQueueType.MAIN, [first.token], Outcome.ABANDON)
    bench.broker.submit(bench.machine, settle)
    bench.broker.submit(bench.machine, Detach(consumer))
    for heir in consumers:
        bench.broker.submit(bench.machine, AcceptSession(heir, "a", False))
    bench.run()
    assert heirs[0].session_id == "a"
    assert kinds(heirs[1]) == [SessionCannotBeLocked]
    bench.submit(Demand(consumers[0], 5, False))
    assert [(m.body, m.delivery_count) for m in heirs[0].take()] == [(b"1", 1), (b"2", 0)]


def test_receive_and_delete_in_a_session(bench: FragmentBench) -> None:
    bench.send(b"1", b"2", session_id="a")
    inbox, consumer = bench.accept("a", deletes=True)
    bench.demand(consumer, 5, drain=True)
    assert bodies(inbox.take()) == [b"1", b"2"]
    assert inbox.drained_count == 1
    bench.submit(Detach(consumer))
    assert bench.list_sessions() == ([], 0)


def test_a_drain_is_answered_when_nothing_waits(bench: FragmentBench) -> None:
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 5, drain=True)
    assert inbox.drained_count == 1


def test_messages_that_cannot_be_read_release_the_session(bench: FragmentBench) -> None:
    bench.send(b"1", b"2", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 2)
    held = list(bench.state.main.locks.values())
    bench.submit(Undelivered(consumer, held, False))
    assert kinds(inbox) == [SessionLockLost]
    bench.submit(Resume())
    again, consumer = bench.accept("a")
    bench.demand(consumer, 2)
    assert [(m.body, m.delivery_count) for m in again.take()] == [(b"1", 0), (b"2", 0)]


def test_a_damaged_message_is_kept_aside_and_the_session_goes_on(bench: FragmentBench) -> None:
    bench.send(b"1", b"2", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    inbox.take()
    bench.submit(Undelivered(consumer, list(bench.state.main.locks.values()), True))
    assert inbox.is_holding
    assert bodies(inbox.take()) == [b"2"]


def test_dropped_locks_lose_every_session(bench: FragmentBench) -> None:
    inboxes = [bench.accept(name)[0] for name in ("a", "b")]
    bench.submit(DropLocks())
    assert [kinds(inbox) for inbox in inboxes] == [[SessionLockLost]] * 2
    assert bench.accept("a")[0].is_holding


@pytest.mark.rule("TTL-4")
def test_expired_messages_are_passed_over_in_a_session(bench: FragmentBench) -> None:
    bench.send(b"old", ttl_ms=100, session_id="a")
    bench.send(b"young", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.clock.advance_ms(100)
    bench.demand(consumer, 5)
    assert bodies(inbox.take()) == [b"young"]


@pytest.mark.rule("SES-4")
def test_a_session_whose_messages_expired_is_not_offered(bench: FragmentBench) -> None:
    bench.send(b"x", ttl_ms=100, session_id="a")
    bench.send(b"y", session_id="b")
    later(bench, 5_000)
    assert bench.accept()[0].session_id == "b"
    assert bench.accept()[0].errors


# --- deferred and scheduled ----------------------------------------------------------------------


@pytest.mark.rule("DEF-7", "SES-21")
def test_deferral_needs_the_lock_and_leaves_nothing_to_offer(bench: FragmentBench) -> None:
    bench.send(b"1", session_id="a")
    bench.send(b"2", session_id="b")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    (message,) = inbox.take()
    bench.settle([message.token], Outcome.DEFER)
    bench.submit(Detach(consumer))
    assert bench.accept()[0].session_id == "b"
    assert bench.accept()[0].errors
    number = message.sequence
    without = bench.receive_deferred(number)
    assert isinstance(without, SessionLockLost)
    again, _ = bench.accept("a")
    got = bench.receive_deferred(number, session_id="a", lock=again.lock)
    assert isinstance(got, list)
    assert got[0].locked_until_ms == again.locked_until_ms
    assert bench.settle([got[0].token]) == ([], None)


@pytest.mark.rule("DEF-7")
def test_a_deferred_message_of_another_session_is_not_found(bench: FragmentBench) -> None:
    bench.send(b"1", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    (message,) = inbox.take()
    bench.settle([message.token], Outcome.DEFER)
    other, _ = bench.accept("b")
    got = bench.receive_deferred(message.sequence, session_id="b", lock=other.lock)
    assert isinstance(got, MessageNotFound)
    deleted = bench.receive_deferred(
        message.sequence, session_id="a", lock=inbox.lock, deletes=True
    )
    assert isinstance(deleted, list)
    assert bodies(deleted) == [b"1"]


@pytest.mark.rule("SES-21", "SCH-4")
def test_a_scheduled_message_enters_the_order_when_it_is_due(bench: FragmentBench) -> None:
    bench.send(b"due", scheduled_ms=bench.clock.now_ms() + 5_000, session_id="a")
    assert bench.accept()[0].errors
    bench.send(b"first", session_id="a")
    later(bench, 5_000)
    bench.send(b"last", session_id="a")
    inbox, consumer = bench.accept()
    bench.demand(consumer, 5)
    assert bodies(inbox.take()) == [b"first", b"due", b"last"]


def test_a_cancelled_message_leaves_its_session(bench: FragmentBench) -> None:
    bench.send(b"due", scheduled_ms=bench.clock.now_ms() + 5_000, session_id="a")
    assert bench.cancel(1) == 1
    assert bench.state.sessions is not None
    assert not bench.state.sessions.by_id


# --- the index -----------------------------------------------------------------------------------


def test_overtaken_offers_do_not_pile_up() -> None:
    bench = FragmentBench(SPEC)
    assert bench.state.sessions is not None
    for _ in range(3000):
        bench.send(b"x", session_id="a")
        inbox, consumer = bench.accept("a")
        bench.demand(consumer, 1)
        bench.settle([inbox.take()[0].token])
        bench.submit(Detach(consumer))
    assert len(bench.state.sessions._offers) < 2000
    assert not bench.state.sessions.by_id
    assert len(bench.state.sessions._by_number) == 2


def test_a_session_costs_little_memory() -> None:
    """What docs say of a session with one message, beside the 44 bytes of the message."""
    sessions = Sessions()
    count = 2000
    for sequence in range(1, count + 1):
        sessions.enter(sequence, f"session-{sequence:06d}")
        sessions.added(sequence)
    session = sessions.of(7)
    own = sys.getsizeof(session) + sys.getsizeof(session._ready) + sys.getsizeof("session-000007")
    shared = sys.getsizeof(sessions.by_id) + sys.getsizeof(sessions._offers)
    offer = sys.getsizeof(sessions._offers[0])
    assert own + offer + shared / count < 500
