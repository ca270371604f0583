"""Sessions of one fragment: their state, their list, what is shown and what survives."""

import pytest

from partibus.domain.errors import (
    QuotaExceeded,
    SessionLockLost,
    StoreUnavailable,
)
from partibus.fragment.commands import (
    Detach,
    Outcome,
    Settle,
    SubQueueType,
)
from partibus.fragment.message import MessageState
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
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


# --- state ---------------------------------------------------------------------------------------


@pytest.mark.rule("SES-16", "SES-17")
def test_state_is_set_read_and_cleared(bench: FragmentBench) -> None:
    inbox, consumer = bench.accept("a")
    assert bench.get_state(inbox) is None
    assert bench.set_state(inbox, b"half way") == 1
    assert bench.get_state(inbox) == b"half way"
    assert bench.state.counts().size_bytes == len(b"half way")
    assert bench.set_state(inbox, b"") == 1
    assert bench.get_state(inbox) == b""
    bench.set_state(inbox, b"further")
    bench.submit(Detach(consumer))
    again, _ = bench.accept("a")
    assert bench.get_state(again) == b"further"
    assert bench.set_state(again, None) == 1
    assert bench.get_state(again) is None
    assert bench.state.counts().size_bytes == 0
    assert isinstance(bench.store, MemoryStore)
    assert bench.store.live_bytes == 0


@pytest.mark.rule("SES-2", "SES-16")
def test_a_session_is_there_as_long_as_it_has_messages_or_state(bench: FragmentBench) -> None:
    bench.send(b"1", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.set_state(inbox, b"kept")
    bench.demand(consumer, 1)
    bench.settle([inbox.take()[0].token])
    bench.submit(Detach(consumer))
    assert bench.list_sessions() == (["a"], 0)
    inbox, consumer = bench.accept("a")
    bench.set_state(inbox, None)
    assert bench.list_sessions() == ([], 0)
    bench.submit(Detach(consumer))
    assert bench.state.sessions is not None
    assert not bench.state.sessions.by_id


@pytest.mark.rule("SES-17")
def test_state_counts_against_the_entity_s_size() -> None:
    bench = FragmentBench(
        FragmentSpec(
            lock_duration_ms=LOCK_MS, max_delivery_count=3, requires_session=True, size_bytes_max=10
        )
    )
    inbox, _ = bench.accept("a")
    assert bench.set_state(inbox, b"12345678") == 1
    assert isinstance(bench.set_state(inbox, b"1234"), QuotaExceeded)
    bench.send(b"123", session_id="a")
    ((_, error),) = bench.ports.refusals
    assert isinstance(error, QuotaExceeded)


@pytest.mark.rule("SES-18")
def test_sessions_are_listed_page_by_page_and_by_the_time_of_their_state(
    bench: FragmentBench,
) -> None:
    for name in ("a", "b", "c"):
        bench.send(b"x", session_id=name)
    bench.send(b"x", scheduled_ms=bench.clock.now_ms() + 60_000, session_id="scheduled")
    bench.accept("empty")
    assert bench.list_sessions(count=2) == (["a", "b"], 0)
    assert bench.list_sessions(skip=2, count=2) == (["c"], 2)
    assert bench.list_sessions(skip=5) == ([], 3)
    began_ms = bench.clock.now_ms()
    inbox, _ = bench.accept("stateful")
    bench.set_state(inbox, b"1")
    assert bench.list_sessions() == (["a", "b", "c", "stateful"], 0)
    assert bench.list_sessions(began_ms - 1) == (["stateful"], 0)
    assert bench.list_sessions(began_ms) == ([], 0)


# --- peek and purge ------------------------------------------------------------------------------


@pytest.mark.rule("PEK-2", "PEK-3", "PEK-10")
def test_peek_in_a_session_and_without_one(bench: FragmentBench) -> None:
    for number in range(3):
        bench.send(b"a%d" % number, session_id="a")
        bench.send(b"b%d" % number, session_id="b")
    bench.send(b"due", scheduled_ms=bench.clock.now_ms() + 60_000, session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 2)
    first, _ = inbox.take()
    bench.settle([first.token], Outcome.DEFER)
    shown = bench.peek(session_id="a")
    assert bodies(shown) == [b"a0", b"a1", b"a2", b"due"]
    states = [MessageState.DEFERRED, MessageState.ACTIVE, MessageState.ACTIVE]
    assert [m.state for m in shown] == [*states, MessageState.SCHEDULED]
    assert bodies(bench.peek(4, session_id="b")) == [b"b1", b"b2"]
    assert bench.peek(session_id="nobody") == []
    assert len(bench.peek()) == 7


def test_purge_in_a_session(bench: FragmentBench) -> None:
    bench.send(b"a1", b"a2", session_id="a")
    bench.send(b"b1", session_id="b")
    assert bench.purge(10, session_id="a") == 2
    assert bench.purge(10, session_id="nobody") == 0
    assert bench.list_sessions() == (["b"], 0)
    assert bench.purge(10) == 1


# --- what survives -------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.rule("SES-17", "SEED-107")
def test_messages_state_and_order_survive_a_crash_and_locks_do_not(
    bench: FragmentBench, checkpoints: bool
) -> None:
    bench.send(b"due", scheduled_ms=bench.clock.now_ms() + 5_000, session_id="b")
    bench.send(b"1", b"2", b"3", b"4", session_id="a")
    bench.send(b"b", session_id="b")
    bench.send(b"c", session_id="ç")
    inbox, consumer = bench.accept("a")
    bench.set_state(inbox, b"state")
    bench.demand(consumer, 3)
    first, second, _ = inbox.take()
    bench.settle([first.token])
    bench.settle([second.token], Outcome.DEFER)
    held, consumer = bench.accept("ç")
    bench.demand(consumer, 1)
    bench.settle([held.take()[0].token])
    if checkpoints:
        bench.broker._checkpoint()
        bench.run()
    later(bench, 5_000)
    bench.start()
    assert bench.state.sessions is not None
    assert sorted(bench.state.sessions.by_id) == ["a", "b"]
    again, consumer = bench.accept()
    assert again.session_id == "a"
    assert bench.get_state(again) == b"state"
    bench.demand(consumer, 5)
    assert [(m.body, m.delivery_count) for m in again.take()] == [(b"3", 0), (b"4", 0)]
    deferred = bench.receive_deferred(second.sequence, session_id="a", lock=again.lock)
    assert isinstance(deferred, list)
    assert bodies(deferred) == [b"2"]
    other, consumer = bench.accept()
    assert other.session_id == "b"
    bench.demand(consumer, 5)
    assert bodies(other.take()) == [b"b", b"due"]
    assert bench.accept()[0].errors


def test_a_cleared_state_stays_cleared_after_a_crash(bench: FragmentBench) -> None:
    inbox, _ = bench.accept("a")
    bench.set_state(inbox, b"one")
    bench.set_state(inbox, None)
    bench.start()
    assert bench.list_sessions() == ([], 0)
    assert bench.state.counts().size_bytes == 0


# --- when the store fails ------------------------------------------------------------------------


def fail_store(bench: FragmentBench) -> None:
    assert isinstance(bench.store, MemoryStore)
    bench.store.fail()
    bench.run()


def heal_store(bench: FragmentBench) -> None:
    assert isinstance(bench.store, MemoryStore)
    bench.store.heal()
    bench.run()


def test_while_the_store_is_down_nothing_is_given_or_set(bench: FragmentBench) -> None:
    bench.send(b"1", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.set_state(inbox, b"old")
    size = bench.state.counts().size_bytes
    fail_store(bench)
    assert isinstance(bench.set_state(inbox, b"new one"), StoreUnavailable)
    assert bench.state.counts().size_bytes == size
    bench.demand(consumer, 1)
    assert inbox.take() == []
    assert kinds(bench.accept("b")[0]) == [StoreUnavailable]
    waiting, _ = bench.accept(waits=True)
    bench.submit(Detach(consumer))
    assert waiting.session_id is None
    heal_store(bench)
    assert waiting.session_id == "a"
    assert bench.get_state(waiting) == b"old"


def test_a_session_released_while_a_settlement_failed_is_whole_again(
    bench: FragmentBench,
) -> None:
    bench.send(b"1", b"2", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 2)
    tokens = [message.token for message in inbox.take()]
    assert isinstance(bench.store, MemoryStore)
    bench.broker.submit(
        bench.machine, Settle(None, None, SubQueueType.MAIN, tokens, Outcome.ABANDON)
    )
    bench.broker.submit(bench.machine, Detach(consumer))
    bench.store.fail()
    bench.run()
    heal_store(bench)
    again, consumer = bench.accept()
    bench.demand(consumer, 5)
    assert [(m.body, m.delivery_count) for m in again.take()] == [(b"1", 0), (b"2", 0)]


def test_a_session_that_lapses_while_the_store_is_down_is_counted_when_it_is_back(
    bench: FragmentBench,
) -> None:
    bench.send(b"1", session_id="a")
    inbox, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    fail_store(bench)
    later(bench, LOCK_MS)
    heal_store(bench)
    assert kinds(inbox) == [SessionLockLost]
    again, consumer = bench.accept("a")
    bench.demand(consumer, 1)
    assert [m.delivery_count for m in again.take()] == [1]
