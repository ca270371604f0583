"""Sessions that another receiver may take over by showing their lock."""

import pytest

from partibus.domain.errors import SessionCannotBeLocked, SessionLockLost
from partibus.fragment.commands import Detach, Outcome
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import Delivered, FragmentBench, SessionInbox

LOCK_MS = 30_000
SPEC = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=3, requires_session=True, path="q")


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


@pytest.mark.rule("SES-26")
def test_it_is_held_by_one_like_any_other(bench: FragmentBench) -> None:
    bench.send(b"1", session_id="a")
    first, _ = bench.accept("a", is_exclusive=False)
    second, _ = bench.accept("a", is_exclusive=False)
    third, _ = bench.accept("a")
    assert first.is_holding
    assert kinds(second) == kinds(third) == [SessionCannotBeLocked]


@pytest.mark.rule("SES-27")
@pytest.mark.parametrize("named", ["a", None])
def test_who_shows_the_lock_takes_the_place_and_settles_what_is_in_flight(
    bench: FragmentBench, named: str | None
) -> None:
    bench.send(b"1", b"2", b"3", session_id="a")
    first, consumer = bench.accept("a", is_exclusive=False)
    bench.demand(consumer, 2)
    one, two = first.take()
    later(bench, LOCK_MS - 1000)
    second, taker = bench.accept(named, is_exclusive=False, takes_over=first.lock)
    assert kinds(first) == [SessionLockLost]
    assert second.session_id == "a" and second.lock != first.lock
    assert second.locked_until_ms == bench.clock.now_ms() + LOCK_MS
    # The previous holder leaves, and its session is not released by that.
    bench.submit(Detach(consumer))
    bench.demand(taker, 10)
    assert bodies(second.take()) == [b"3"]
    assert bench.settle([one.token]) == ([], None)
    assert bench.settle([two.token], Outcome.ABANDON) == ([], None)
    (again,) = second.take()
    assert (again.body, again.delivery_count) == (b"2", 1)
    assert bench.renew_session(first) == 0
    assert bench.renew_session(second) > 0


@pytest.mark.rule("SES-27")
def test_a_lock_is_taken_over_once_and_its_successor_may_be_taken_over_again(
    bench: FragmentBench,
) -> None:
    first, _ = bench.accept("a", is_exclusive=False)
    second, _ = bench.accept("a", is_exclusive=False, takes_over=first.lock)
    late, _ = bench.accept("a", is_exclusive=False, takes_over=first.lock)
    assert kinds(late) == [SessionLockLost]
    third, _ = bench.accept("a", is_exclusive=False, takes_over=second.lock)
    assert third.is_holding and not second.is_holding


@pytest.mark.rule("SES-27")
def test_what_cannot_be_taken_over(bench: FragmentBench) -> None:
    alone, _ = bench.accept("alone")
    refused, _ = bench.accept("alone", is_exclusive=False, takes_over=alone.lock)
    assert kinds(refused) == [SessionCannotBeLocked] and alone.is_holding
    held, consumer = bench.accept("a", is_exclusive=False)
    other, _ = bench.accept("b", is_exclusive=False, takes_over=held.lock)
    assert kinds(other) == [SessionLockLost] and held.is_holding
    bench.submit(Detach(consumer))
    gone, _ = bench.accept("a", is_exclusive=False, takes_over=held.lock)
    assert kinds(gone) == [SessionLockLost]
    lapsed, _ = bench.accept("c", is_exclusive=False)
    later(bench, LOCK_MS)
    late, _ = bench.accept("c", is_exclusive=False, takes_over=lapsed.lock)
    assert kinds(late) == [SessionLockLost]


@pytest.mark.rule("SES-26")
def test_who_takes_any_session_may_be_taken_over_too(bench: FragmentBench) -> None:
    waiting, _ = bench.accept(None, waits=True, is_exclusive=False)
    bench.send(b"1", session_id="a")
    assert waiting.session_id == "a"
    taker, _ = bench.accept(None, is_exclusive=False, takes_over=waiting.lock)
    assert taker.session_id == "a"
