"""The watch notices within a second that the clock was set, and says so."""

import pytest

from partibus.server.clock_watch import LOOK_MS, ClockWatch
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler


@pytest.mark.parametrize(("step_ms", "words"), [(7_200_000, "forward"), (-7_200_000, "back")])
def test_a_step_is_told_once_and_logged(
    step_ms: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    told: list[int] = []
    watch = ClockWatch(clock, scheduler, told.append)
    watch.start()
    scheduler.advance_ms(10 * LOOK_MS)
    assert told == [] and caplog.text == ""
    clock.step_wall_ms(step_ms)
    scheduler.advance_ms(LOOK_MS)
    assert told == [step_ms]
    assert f"the system clock was set {words} by 7200.0 s" in caplog.text
    scheduler.advance_ms(10 * LOOK_MS)
    assert told == [step_ms]
    watch.stop()
    clock.step_wall_ms(step_ms)
    scheduler.advance_ms(10 * LOOK_MS)
    assert told == [step_ms]
