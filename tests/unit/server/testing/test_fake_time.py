"""Fake time on a real loop: timers at their own moments, in their order, before the answer."""

import asyncio

import pytest

from partibus.server.testing.fake_time import FakeTime, settle
from partibus.testing.clock import ManualClock

HOUR_MS = 3_600_000


class Bench:
    """Fake time on a clock that stands still but for what a test advances."""

    def __init__(self) -> None:
        self.machine = ManualClock()
        self.time = FakeTime(self.machine, asyncio.get_running_loop())
        self.start_ms = self.time.clock.now_ms()
        self.log: list[tuple[str, int]] = []
        self.looks = 0

    def note(self, name: str) -> None:
        self.log.append((name, self.time.clock.now_ms() - self.start_ms))

    def later(self, name: str, delay_ms: int) -> None:
        self.time.call_later_ms(delay_ms, lambda: self.note(name))

    async def advance(self, delta_ms: int) -> None:
        async def at_each() -> None:
            self.note("each")

        def look() -> None:
            self.looks += 1

        await self.time.advance_ms(delta_ms, lambda: True, at_each, look)

    @property
    def ran(self) -> list[tuple[str, int]]:
        return [entry for entry in self.log if entry[0] != "each"]


async def test_timers_run_at_their_moments_and_in_their_order() -> None:
    bench = Bench()
    for name, delay_ms in (("c", 3 * HOUR_MS), ("a", HOUR_MS), ("b", HOUR_MS), ("d", 9 * HOUR_MS)):
        bench.later(name, delay_ms)
    await bench.advance(4 * HOUR_MS)
    assert bench.ran == [("a", HOUR_MS), ("b", HOUR_MS), ("c", 3 * HOUR_MS)]
    assert bench.time.clock.now_ms() - bench.start_ms == 4 * HOUR_MS
    assert bench.looks == 1
    await bench.advance(5 * HOUR_MS)
    assert bench.ran[-1] == ("d", 9 * HOUR_MS)


async def test_what_a_timer_sets_runs_too_when_it_is_due() -> None:
    bench = Bench()

    def again() -> None:
        bench.note("tick")
        bench.time.call_later_ms(1000, again)

    bench.time.call_later_ms(1000, again)
    await bench.advance(3500)
    assert bench.ran == [("tick", 1000), ("tick", 2000), ("tick", 3000)]


async def test_others_are_asked_before_each_moment_and_at_the_end() -> None:
    bench = Bench()
    bench.later("a", 1000)
    await bench.advance(5000)
    assert bench.log == [("each", 1000), ("a", 1000), ("each", 5000)]


async def test_a_cancelled_timer_does_not_run() -> None:
    bench = Bench()
    bench.time.call_later_ms(1000, lambda: bench.note("never")).cancel()
    await bench.advance(5000)
    assert bench.ran == []


async def test_the_machines_time_counts_as_well() -> None:
    bench = Bench()
    bench.later("a", 1000)
    bench.machine.advance_ms(600)
    await bench.advance(400)
    assert bench.ran == [("a", 1000)]
    assert bench.time.clock.monotonic_ms() == bench.machine.monotonic_ms() + 400


async def test_a_timer_that_is_due_runs_by_itself() -> None:
    bench = Bench()
    done = asyncio.Event()
    bench.time.call_later_ms(0, done.set)
    await asyncio.wait_for(done.wait(), 30)


async def test_a_step_of_the_wall_is_followed() -> None:
    bench = Bench()
    before_ms = bench.time.clock.monotonic_ms()
    bench.machine.step_wall_ms(5000)
    assert bench.time.clock.follow() == 5000
    assert bench.time.clock.now_ms() - bench.start_ms == 5000
    assert bench.time.clock.monotonic_ms() == before_ms


async def test_two_advances_come_one_after_the_other() -> None:
    bench = Bench()
    bench.later("a", 1500)
    await asyncio.gather(bench.advance(1000), bench.advance(1000))
    assert bench.ran == [("a", 1500)]
    assert bench.time.clock.advanced_ms == 2000


async def test_after_a_stop_nothing_runs() -> None:
    bench = Bench()
    bench.later("a", 0)
    bench.time.stop()
    await asyncio.sleep(0)
    await bench.advance(1000)
    assert bench.ran == []


@pytest.mark.parametrize("busy_turns", [0, 1, 50])
async def test_settling_waits_for_rest(busy_turns: int) -> None:
    left = busy_turns

    def is_at_rest() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    await settle(is_at_rest)
    assert left <= -4
