"""The system clock follows the machine's and is not turned back by small corrections."""

import time

import pytest

from partibus.domain.clock import STEP_BACK_MS_MAX, SystemClock


def test_the_clock_follows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = 1_000_000
    monkeypatch.setattr(time, "time_ns", lambda: wall * 1_000_000)
    clock = SystemClock()
    assert clock.now_ms() == 1_000_000
    wall += 3_600_000
    assert clock.now_ms() == 4_600_000, "after a sleep the clients' clocks have moved on too"
    wall -= 500
    assert clock.now_ms() == 4_600_000, "a small step back stands still"
    wall += 600
    assert clock.now_ms() == 4_600_100
    wall -= STEP_BACK_MS_MAX + 1
    assert clock.now_ms() == wall, "a large step back is followed"
