"""What is due all at once is done a slice at a time: all of it, in order, and never too late."""

from dataclasses import replace

import pytest

from partibus.fragment.commands import DropLocks, Outcome, SubQueueType, Tick
from partibus.fragment.effects import Effects
from partibus.fragment.message import MessageState, NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.upkeep.slices import SLICE, Allowance
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench
from support.fragment.topic_bench import TopicBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q")
MANY = 10
PART = 3
LIFE_MS = 5_000


def bodies(count: int = MANY) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


def slices(bench: FragmentBench) -> list[list[int]]:
    """Tick in small slices until nothing is due; the numbers that each tick dealt with."""
    done: list[list[int]] = []
    while True:
        out = Effects()
        now_ms = bench.clock.now_ms()
        bench.machine.apply(Tick(Allowance(PART)), now_ms, out)
        numbers = [held.sequence for change in out.changes for held in messages_of(change)]
        assert len(numbers) <= PART
        done.append(numbers)
        if not bench.state.is_behind:
            return done
        assert bench.machine.deadline_ms() == 0, "it wants the next tick at once"


def messages_of(change: object) -> list[object]:
    return getattr(change, "messages", [])


def in_parts(numbers: list[int]) -> list[list[int]]:
    return [numbers[at : at + PART] for at in range(0, len(numbers), PART)]


def test_locks_lapse_a_slice_at_a_time_and_in_order() -> None:
    bench = FragmentBench(SPEC)
    bench.send(*bodies())
    held = bench.receive(MANY)
    bench.clock.advance_ms(SPEC.lock_duration_ms)
    # Whose slice has not come yet is lost all the same (LCK-5).
    assert bench.settle([held[-1].token]) == ([held[-1].token], None)
    assert bench.renew([held[-1].token]) == [0]
    assert slices(bench) == in_parts([m.sequence for m in held])


@pytest.mark.parametrize("is_kept", [False, True])
def test_messages_expire_a_slice_at_a_time_and_in_order(is_kept: bool) -> None:
    bench = FragmentBench(replace(SPEC, dead_letter_on_expiry=is_kept))
    bench.send(*bodies(), ttl_ms=LIFE_MS)
    bench.clock.advance_ms(LIFE_MS)
    assert slices(bench) == in_parts(list(range(1, MANY + 1)))


def test_scheduled_messages_become_active_in_the_order_of_their_times() -> None:
    bench = FragmentBench(SPEC)
    now_ms = bench.clock.now_ms()
    delays = [700, 100, 900, 300, 300, 800, 200, 600, 500, 400]
    for delay_ms, body in zip(delays, bodies(), strict=True):
        bench.send(body, scheduled_ms=now_ms + delay_ms)
    bench.clock.advance_ms(1_000)
    in_order = sorted(range(MANY), key=lambda place: (delays[place], place))
    assert slices(bench) == in_parts([place + 1 for place in in_order])


def test_a_message_that_is_cancelled_between_two_slices_is_passed_over() -> None:
    bench = FragmentBench(SPEC, slice_messages=PART)
    bench.send(*bodies(), scheduled_ms=bench.clock.now_ms() + 1_000)
    bench.clock.advance_ms(1_000)
    bench.machine.apply(Tick(Allowance(PART)), bench.clock.now_ms(), Effects())
    assert bench.cancel(5) == 1
    assert not bench.state.is_behind
    # The effects of the first slice went nowhere.
    assert [m.body for m in bench.receive(MANY)] == [bodies()[3], *bodies()[5:]]


def test_sessions_are_lost_at_once_and_their_messages_counted_in_slices() -> None:
    bench = FragmentBench(replace(SPEC, requires_session=True))
    bench.send(*bodies(), session_id="s")
    inbox, consumer = bench.accept("s")
    bench.demand(consumer, MANY)
    held = inbox.take()
    bench.clock.advance_ms(SPEC.lock_duration_ms)
    assert bench.settle([held[-1].token]) == ([held[-1].token], None)
    # The loss of the session itself is one step.
    assert slices(bench) == [[1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]


def test_a_session_whose_lock_lapsed_is_free_when_all_is_counted() -> None:
    bench = FragmentBench(replace(SPEC, requires_session=True), slice_messages=PART)
    bench.send(*bodies(), session_id="s")
    inbox, consumer = bench.accept("s")
    bench.demand(consumer, MANY)
    bench.scheduler.advance_ms(SPEC.lock_duration_ms + 1_000)
    assert [type(error).__name__ for error in inbox.errors] == ["SessionLockLost"]
    again, consumer = bench.accept("s")
    bench.demand(consumer, MANY)
    assert [(m.body, m.delivery_count) for m in again.take()] == [(b, 1) for b in bodies()]


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("slice_messages", [1, PART, SLICE])
def test_everything_is_done_in_the_end(slice_messages: int, is_kept: bool) -> None:
    spec = replace(SPEC, dead_letter_on_expiry=is_kept)
    bench = FragmentBench(spec, slice_messages=slice_messages)
    bench.send(*bodies(), ttl_ms=LIFE_MS)
    bench.send(*bodies())
    held = bench.receive(2 * MANY)[MANY:]
    bench.send(*bodies(), scheduled_ms=bench.clock.now_ms() + SPEC.lock_duration_ms)
    bench.scheduler.advance_ms(SPEC.lock_duration_ms + 2_000)
    again = bench.receive(3 * MANY)
    assert [m.sequence for m in again[:MANY]] == [m.sequence for m in held]
    assert [(m.body, m.state) for m in again[MANY:]] == [
        (body, MessageState.SCHEDULED) for body in bodies()
    ]
    letters = bench.receive(MANY + 1, SubQueueType.DEAD_LETTER)
    assert [m.body for m in letters] == (bodies() if is_kept else [])


def test_dropped_locks_beyond_a_slice_are_lost_at_once() -> None:
    bench = FragmentBench(SPEC)
    bench.send(*bodies(SLICE + 5))
    held = bench.receive(SLICE + 5)
    out = Effects()
    bench.machine.apply(DropLocks(), bench.clock.now_ms(), out)
    assert [len(messages_of(change)) for change in out.changes] == [SLICE]
    assert bench.state.is_behind
    assert bench.settle([held[-1].token]) == ([held[-1].token], None)


@pytest.mark.rule("TTL-4")
@pytest.mark.parametrize("session_id", [None, "s"])
@pytest.mark.parametrize("drain", [False, True])
def test_what_lies_behind_many_expired_messages_is_delivered(
    session_id: str | None, drain: bool
) -> None:
    bench = FragmentBench(replace(SPEC, requires_session=session_id is not None))
    bench.send(*bodies(3 * SLICE), ttl_ms=LIFE_MS, session_id=session_id)
    bench.send(b"alive", session_id=session_id)
    bench.clock.advance_ms(LIFE_MS)
    if session_id is None:
        inbox, consumer = bench.receiver()
    else:
        inbox, consumer = bench.accept(session_id)
    bench.demand(consumer, 5, drain and session_id is None)
    assert [m.body for m in inbox.take()] == [b"alive"]
    assert inbox.drained_count == (drain and session_id is None)
    assert not bench.state.is_behind


def test_a_receiver_is_drained_when_the_store_fails_before_all_is_cleared_away() -> None:
    bench = FragmentBench(SPEC)
    bench.send(*bodies(2 * SLICE), ttl_ms=LIFE_MS)
    bench.clock.advance_ms(LIFE_MS)
    inbox, consumer = bench.receiver()
    store = bench.store
    assert isinstance(store, MemoryStore)
    bench.state.is_behind = True
    store.fail()
    bench.demand(consumer, 5, drain=True)
    assert (inbox.take(), inbox.drained_count) == ([], 1)
    store.heal()
    bench.scheduler.advance_ms(2_000)
    assert bench.state.counts().active == 0


def test_the_fragments_of_a_broker_share_a_turn() -> None:
    bench = FragmentBench(SPEC, slice_messages=PART)
    other = bench.broker.add(2, SPEC)
    bench.send(*bodies(), ttl_ms=LIFE_MS)
    first, bench.machine = bench.machine, other
    bench.send(*bodies(), ttl_ms=LIFE_MS)
    bench.clock.advance_ms(LIFE_MS + 1_000)
    order: list[int] = []
    allowance = Allowance(PART)
    for machine in (first, other):
        out = Effects()
        machine.apply(Tick(allowance), bench.clock.now_ms(), out)
        order += [len(messages_of(change)) for change in out.changes]
        assert machine.state.is_behind
    assert order == [PART], "the other has its turn next"


def test_scheduled_messages_of_a_topic_are_due_in_order() -> None:
    bench = TopicBench()
    now_ms = bench.clock.now_ms()
    count = 2 * SLICE + 7
    bench.send(
        *[NewMessage(body, -1, now_ms + 2_000 - at) for at, body in enumerate(bodies(count))]
    )
    bench.scheduler.advance_ms(3_000)
    assert not bench.state.is_behind
    assert [m.body for m in bench.receive(2, count)] == bodies(count)[::-1]


def test_a_tick_of_a_topic_takes_a_slice() -> None:
    bench = TopicBench()
    due_ms = bench.clock.now_ms() + 1_000
    bench.send(*[NewMessage(body, -1, due_ms) for body in bodies()])
    bench.clock.advance_ms(1_000)
    for count in (PART, 2 * PART, 3 * PART, MANY):
        bench.machine.apply(Tick(Allowance(PART)), bench.clock.now_ms(), Effects())
        assert len(bench.state.departing) == count
        assert bench.state.is_behind == (count < MANY)
    assert [held.sequence for held in bench.state.departing.values()] == list(range(1, MANY + 1))


@pytest.mark.parametrize("outcome", [Outcome.COMPLETE, Outcome.ABANDON])
def test_a_settlement_in_time_holds_while_others_lapse(outcome: Outcome) -> None:
    bench = FragmentBench(SPEC, slice_messages=PART)
    bench.send(*bodies())
    bench.receive(MANY - 1)
    bench.clock.advance_ms(SPEC.lock_duration_ms - 1)
    (last,) = bench.receive(1)
    bench.clock.advance_ms(1)
    bench.machine.apply(Tick(Allowance(PART)), bench.clock.now_ms(), Effects())
    assert bench.settle([last.token], outcome) == ([], None)
