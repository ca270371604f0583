"""Locks over a restart: kept by a clean stop, gone with a crash."""

import pytest

from partibus.fragment.commands import Outcome, ReceiveDeferred, Renew, SubQueueType
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import FragmentBench

LOCK_MS = 30_000
SPEC = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=3, path="q")


@pytest.fixture
def bench() -> FragmentBench:
    return FragmentBench(SPEC)


@pytest.mark.rule("LCK-5", "LCK-7")
def test_what_is_in_hand_at_a_clean_stop_is_not_delivered_again(bench: FragmentBench) -> None:
    bench.send(b"a", b"b", b"c")
    first, second = bench.receive(2)
    bench.restart()
    (other,) = bench.receive(5)
    assert other.sequence == 3
    assert other.token not in (first.token, second.token)
    assert bench.settle([first.token]) == ([], None)
    assert bench.state.counts().active == 2
    bench.settle([second.token], Outcome.ABANDON)
    (again,) = bench.receive(5)
    assert (again.sequence, again.delivery_count) == (2, 1)


@pytest.mark.rule("SEED-100")
def test_a_kept_lock_lapses_at_its_own_time_and_counts(bench: FragmentBench) -> None:
    bench.send(b"a")
    (held,) = bench.receive(1)
    bench.scheduler.advance_ms(LOCK_MS // 2)
    bench.restart()
    bench.scheduler.advance_ms(LOCK_MS // 2 - 1)
    assert bench.receive(1) == []
    bench.scheduler.advance_ms(1_001)
    (again,) = bench.receive(1)
    assert again.delivery_count == 1
    assert again.token != held.token


def test_a_kept_lock_is_renewed_by_its_token(bench: FragmentBench) -> None:
    bench.send(b"a")
    (held,) = bench.receive(1)
    bench.restart()
    bench.scheduler.advance_ms(LOCK_MS - 1)
    bench.submit(Renew(bench.ports, SubQueueType.MAIN, [held.token]))
    assert bench.ports.renewals == [[bench.clock.now_ms() + LOCK_MS]]
    bench.restart()
    bench.scheduler.advance_ms(LOCK_MS - 1)
    bench.settle([held.token])
    assert bench.state.counts().active == 0


def test_a_lock_whose_time_ran_out_while_nobody_ran_is_gone_without_counting(
    bench: FragmentBench,
) -> None:
    bench.send(b"a")
    bench.receive(1)
    bench.broker.close()
    bench.run()
    bench.clock.advance_ms(LOCK_MS)
    bench.start()
    (again,) = bench.receive(1)
    assert again.delivery_count == 0


@pytest.mark.rule("SEED-107")
def test_a_crash_after_a_clean_stop_takes_the_locks_once_anything_was_recorded(
    bench: FragmentBench,
) -> None:
    bench.send(b"a", b"b")
    first, second = bench.receive(2)
    bench.restart()
    bench.settle([first.token])
    bench.start()
    (again,) = bench.receive(5)
    assert again.sequence == 2
    bench.settle([second.token])
    assert bench.state.counts().active == 1, "the old token fits no lock any more"


def test_what_the_store_says_of_itself_takes_no_locks(bench: FragmentBench) -> None:
    bench.send(b"a")
    (held,) = bench.receive(1)
    bench.restart()
    bench.broker.marks.identify(b"n" * 16, 0)
    bench.broker.write_marks(lambda error: None)
    bench.run()
    bench.start()
    assert bench.broker.marks.namespace == b"n" * 16
    assert bench.receive(1) == []
    assert bench.settle([held.token]) == ([], None)
    assert bench.state.counts().active == 0


def test_dead_letters_and_deferred_messages_keep_their_locks_too(bench: FragmentBench) -> None:
    bench.send(b"dead", b"later")
    dead, later = bench.receive(2)
    bench.settle([dead.token], Outcome.DEAD_LETTER)
    bench.settle([later.token], Outcome.DEFER)
    (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    bench.submit(ReceiveDeferred(bench.ports, SubQueueType.MAIN, [later.sequence], False))
    lookup = bench.ports.lookups[-1]
    assert isinstance(lookup, list)
    (later,) = lookup
    bench.restart()
    assert bench.receive(1, SubQueueType.DEAD_LETTER) == []
    assert bench.state.counts().deferred == 1
    bench.settle([later.token], Outcome.ABANDON)
    assert bench.state.counts().deferred == 1, "it goes back to the deferred ones"
    bench.settle([dead.token], subqueue=SubQueueType.DEAD_LETTER)
    assert bench.state.counts().dead_letter == 0


def test_shorter_locks_of_now_lapse_before_longer_ones_that_were_kept(
    bench: FragmentBench,
) -> None:
    bench.send(b"long", b"short")
    bench.receive(1)
    bench.spec = FragmentSpec(lock_duration_ms=5_000, max_delivery_count=3, path="q")
    bench.restart()
    bench.receive(1)
    bench.scheduler.advance_ms(7_000)
    (again,) = bench.receive(5)
    assert again.body == b"short"


def test_sessions_are_free_after_a_stop_since_their_links_are_gone() -> None:
    spec = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=3, requires_session=True)
    bench = FragmentBench(spec)
    bench.send(b"a", session_id="s")
    inbox, consumer = bench.accept("s")
    bench.demand(consumer, 1)
    (held,) = inbox.take()
    bench.restart()
    again, consumer = bench.accept("s")
    bench.demand(consumer, 1)
    (message,) = again.take()
    assert (message.body, message.delivery_count) == (b"a", 0)
    assert bench.settle([held.token]) == ([held.token], None)
