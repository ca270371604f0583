"""The system clock runs with the monotonic clock and is set by the wall clock when told so."""

import time

import pytest

from partibus.domain.clock import READING_MS_MAX, STEP_MS_MIN, SystemClock

HOUR_MS = 3_600_000


class Machine:
    """The two clocks of a machine, in milliseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ms = 1_000_000_000
        self.monotonic_ms = 5_000
        self.held_up_ms = 0
        monkeypatch.setattr(time, "time_ns", self.read_wall_ns)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.monotonic_ms * 1_000_000)

    def read_wall_ns(self) -> int:
        self.pass_ms(self.held_up_ms)
        return self.wall_ms * 1_000_000

    def pass_ms(self, by_ms: int) -> None:
        self.wall_ms += by_ms
        self.monotonic_ms += by_ms


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_the_clock_begins_with_the_wall_clock_and_runs_with_the_monotonic(
    machine: Machine,
) -> None:
    clock = SystemClock()
    assert clock.now_ms() == machine.wall_ms
    machine.pass_ms(1_234)
    assert clock.now_ms() == machine.wall_ms
    assert clock.monotonic_ms() == 6_234


def test_parts_of_a_millisecond_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks of a machine do not begin their milliseconds together."""
    passed_ns = 0
    wall_ns, monotonic_ns = 1_000_000_200_000, 5_000_900_000
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns + passed_ns)
    monkeypatch.setattr(time, "monotonic_ns", lambda: monotonic_ns + passed_ns)
    clock = SystemClock()
    for passed_ns in range(0, 2_000_000, 100_000):
        assert clock.now_ms() == (wall_ns + passed_ns) // 1_000_000


@pytest.mark.parametrize("step_ms", [2 * HOUR_MS, -2 * HOUR_MS, STEP_MS_MIN, -STEP_MS_MIN])
def test_a_step_shows_only_when_it_is_followed(machine: Machine, step_ms: int) -> None:
    clock = SystemClock()
    before_ms, monotonic_ms = clock.now_ms(), clock.monotonic_ms()
    machine.wall_ms += step_ms
    assert clock.now_ms() == before_ms
    assert clock.follow() == step_ms
    assert clock.now_ms() == before_ms + step_ms == machine.wall_ms
    assert clock.monotonic_ms() == monotonic_ms
    assert clock.follow() == 0


def test_small_differences_are_left_alone(machine: Machine) -> None:
    clock = SystemClock()
    before_ms = clock.now_ms()
    machine.wall_ms -= STEP_MS_MIN - 1
    assert clock.follow() == 0
    assert clock.now_ms() == before_ms
    machine.wall_ms -= 1
    assert clock.follow() == -STEP_MS_MIN, "differences add up"


def test_a_process_that_was_held_up_does_not_see_a_step(machine: Machine) -> None:
    clock = SystemClock()
    machine.wall_ms += HOUR_MS
    machine.held_up_ms = READING_MS_MAX + 1
    assert clock.follow() == 0
    machine.held_up_ms = 0
    assert clock.follow() == HOUR_MS
