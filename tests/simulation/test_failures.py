"""A bus that lies is found out, the same way every time, and the failure can be read."""

import pytest

from partibus.simulation.disk import SimulatedDisk
from partibus.simulation.plan import Plan, draw
from partibus.simulation.run import Verdict, run_plan
from partibus.simulation.shrinking import shrink_plan
from partibus.simulation.story import story
from partibus.simulation.timeline import timeline

STEPS = 1500
SEEDS = 60


@pytest.fixture
def _disks_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sync returns at once and keeps nothing."""
    monkeypatch.setattr(SimulatedDisk, "sync", lambda self, fd: None)


def first_failure() -> Verdict:
    for seed in range(1, SEEDS):
        verdict = run_plan(draw(seed, STEPS))
        if verdict.violation is not None:
            return verdict
    raise AssertionError(f"{SEEDS} seeds passed on disks that keep nothing")


@pytest.mark.usefixtures("_disks_lie")
def test_a_failing_seed_fails_the_same_way_twice() -> None:
    first = first_failure()
    again = run_plan(draw(first.plan.seed, STEPS))
    assert again.violation == first.violation
    assert (again.steps, again.trace_hash) == (first.steps, first.trace_hash)


@pytest.mark.usefixtures("_disks_lie")
def test_a_failure_shrinks_to_a_story() -> None:
    plan = first_failure().plan
    said: list[str] = []
    small = shrink_plan(plan, said.append)
    assert small.steps < plan.steps
    verdict = run_plan(small, keeps_events=True)
    assert verdict.violation is not None
    told = story(verdict)
    assert told.endswith(f"Broken: {verdict.violation}")
    assert "loses power" in told or "dies at a disk call" in told
    page = timeline(verdict)
    assert page.startswith("<!doctype html>") and "worker-" in page
    assert said and said[0].startswith("shrunk in ")


def test_what_is_left_out_changes_nothing_else() -> None:
    """A fault keeps its number, its moment and what it hits when another is left out."""
    plan = Plan(7, STEPS, clients=["sender", "receiver"], faults=["slow disk"], fault_gap=100)
    whole = run_plan(plan)
    plan.without_faults.add(whole.faults[-1][0])
    cut = run_plan(plan)
    assert cut.faults == whole.faults[:-1]


def test_a_run_that_does_not_fail_is_not_shrunk() -> None:
    plan = Plan(7, 300, clients=["sender", "receiver"])
    said: list[str] = []
    assert shrink_plan(plan, said.append) is plan
    assert said == ["seed 7 does not fail; there is nothing to shrink"]
