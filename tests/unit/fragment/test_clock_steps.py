"""A clock that is set: intervals last as long as they would have, promises are kept at once."""

import pytest

from partibus.domain.errors import ClaimLost
from partibus.fragment.commands import Enqueue
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.stages.state import STAGE_LIFE_MS
from partibus.fragment.upkeep.usage import idle_ms
from partibus.testing.fragment import FragmentBench
from support.fragment.bulk_bench import BulkBench
from support.fragment.stages_bench import StageBench

HOUR_MS = 3_600_000
LOCK_MS = 30_000
SPEC = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=10)
IN_SESSIONS = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=10, requires_session=True)
steps = pytest.mark.parametrize("step_ms", [2 * HOUR_MS, -2 * HOUR_MS])


@steps
def test_a_lock_lapses_after_its_duration_no_earlier_and_no_later(step_ms: int) -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a")
    (held,) = bench.receive(1)
    bench.scheduler.advance_ms(LOCK_MS // 2)
    bench.step_clock_ms(step_ms)
    bench.scheduler.advance_ms(LOCK_MS // 2 - 1)
    assert bench.receive(1) == []
    bench.scheduler.advance_ms(21)
    (again,) = bench.receive(1)
    assert (again.delivery_count, bench.settle([held.token])) == (1, ([held.token], None))


@steps
def test_a_lock_is_settled_and_renewed_after_a_step(step_ms: int) -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a", b"b")
    first, second = bench.receive(2)
    bench.step_clock_ms(step_ms)
    assert bench.renew([first.token]) == [bench.clock.now_ms() + LOCK_MS]
    assert bench.settle([first.token, second.token]) == ([], None)


@steps
def test_locks_of_different_lengths_lapse_in_their_time(step_ms: int) -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a", b"b")
    bench.receive(1)
    short = FragmentSpec(lock_duration_ms=5_000, max_delivery_count=10)
    bench.broker.change(1, short)
    bench.receive(1)
    bench.step_clock_ms(step_ms)
    bench.scheduler.advance_ms(4_999)
    assert bench.state.counts().locked == 2
    bench.scheduler.advance_ms(1_100)
    assert bench.state.counts().locked == 1, "the shorter lock stands behind the longer one"


@steps
def test_a_session_is_held_for_the_lock_duration(step_ms: int) -> None:
    bench = FragmentBench(IN_SESSIONS)
    bench.send(b"a", session_id="s")
    inbox, consumer = bench.accept("s")
    bench.demand(consumer, 1)
    bench.step_clock_ms(step_ms)
    bench.scheduler.advance_ms(LOCK_MS - 1)
    assert inbox.is_holding
    bench.scheduler.advance_ms(21)
    assert not inbox.is_holding


def test_a_step_forward_serves_what_is_scheduled_and_ends_what_has_expired() -> None:
    bench = FragmentBench(SPEC)
    now_ms = bench.clock.now_ms()
    bench.send(b"due", scheduled_ms=now_ms + HOUR_MS)
    bench.send(b"not yet", scheduled_ms=now_ms + 3 * HOUR_MS)
    bench.send(b"expired", ttl_ms=HOUR_MS)
    bench.send(b"alive", ttl_ms=3 * HOUR_MS)
    bench.step_clock_ms(2 * HOUR_MS)
    assert [message.body for message in bench.receive(9)] == [b"alive", b"due"]
    assert bench.state.counts().scheduled == 1
    bench.scheduler.advance_ms(HOUR_MS + 20)
    assert b"not yet" in [message.body for message in bench.receive(9)]


def test_after_a_step_back_scheduled_messages_wait_for_their_time_of_day() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"later", scheduled_ms=bench.clock.now_ms() + 60_000)
    bench.step_clock_ms(-2 * HOUR_MS)
    bench.scheduler.advance_ms(2 * HOUR_MS + 59_999)
    assert bench.receive(1) == []
    bench.scheduler.advance_ms(21)
    assert [message.body for message in bench.receive(1)] == [b"later"]


@steps
def test_a_claim_lasts_as_long_as_it_was_asked_for(step_ms: int) -> None:
    bench = BulkBench(SPEC)
    bench.send(b"a", b"b")
    bench.claim("job", "0", 2, duration_ms=5_000)
    bench.step_clock_ms(step_ms)
    bench.scheduler.advance_ms(4_999)
    assert bench.state.counts().claimed == 2
    bench.scheduler.advance_ms(21)
    assert bench.state.counts().claimed == 0
    with pytest.raises(ClaimLost):
        bench.read_claim("job", "0")


@steps
def test_a_stage_is_abandoned_after_a_day_of_silence(step_ms: int) -> None:
    bench = StageBench(SPEC)
    bench.stage("task", b"a")
    bench.step_clock_ms(step_ms)
    bench.scheduler.advance_ms(STAGE_LIFE_MS - 1)
    assert bench.state.counts().staged == 1
    bench.scheduler.advance_ms(21)
    assert bench.state.counts().staged == 0


@steps
@pytest.mark.rule("DUP-5")
def test_the_window_for_duplicates_lasts_as_long_as_it_would_have(step_ms: int) -> None:
    spec = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=10, duplicate_window_ms=20_000)
    bench = FragmentBench(spec)

    def send() -> bool:
        """Whether a message of the same id is stored."""
        before = bench.state.next_sequence
        message = NewMessage(b"a", -1, 0, None, None, "id")
        bench.submit(Enqueue(bench.ports, [message], [1], 1))
        return bench.state.next_sequence > before

    assert send()
    bench.step_clock_ms(step_ms)
    bench.scheduler.advance_ms(19_990)
    assert not send()
    bench.scheduler.advance_ms(30)
    assert send()


@steps
def test_the_window_holds_for_what_was_on_its_way_to_the_store(step_ms: int) -> None:
    spec = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=10, duplicate_window_ms=20_000)
    bench = FragmentBench(spec)
    message = NewMessage(b"a", -1, 0, None, None, "id")
    bench.broker.submit(bench.machine, Enqueue(bench.ports, [message], [1], 1))
    bench.broker._turn()
    bench.step_clock_ms(step_ms)
    assert bench.ports.confirmations == [1]
    bench.scheduler.advance_ms(19_990)
    bench.submit(Enqueue(bench.ports, [message], [2], 1))
    assert bench.state.counts().duplicates_dropped == 1
    bench.scheduler.advance_ms(30)
    bench.submit(Enqueue(bench.ports, [message], [3], 1))
    assert bench.state.counts().duplicates_dropped == 1


@steps
@pytest.mark.rule("IDL-2")
def test_a_step_is_not_idle_time(step_ms: int) -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a")
    bench.scheduler.advance_ms(10_000)
    bench.step_clock_ms(step_ms)
    assert idle_ms(bench.machine, bench.clock.now_ms()) == 10_000
    bench.scheduler.advance_ms(5_000)
    assert idle_ms(bench.machine, bench.clock.now_ms()) == 15_000


@steps
def test_alarms_follow_a_step_also_while_the_store_is_down(step_ms: int) -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a")
    bench.receive(1)
    bench.store.fail()  # type: ignore[attr-defined]
    bench.run()
    bench.step_clock_ms(step_ms)
    bench.store.heal()  # type: ignore[attr-defined]
    bench.run()
    bench.scheduler.advance_ms(LOCK_MS - 1)
    assert bench.receive(1) == []
    bench.scheduler.advance_ms(21)
    assert len(bench.receive(1)) == 1
