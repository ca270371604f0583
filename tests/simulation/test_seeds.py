"""Short runs of the simulator: the same seed is the same run, and every run keeps every promise.

A failure names its seed; `partibus sim --seed N --steps M --shrink` tells what happened.
"""

import secrets
import subprocess
import sys
from collections.abc import Callable

import pytest

from partibus.simulation.plan import draw
from partibus.simulation.reports import failure
from partibus.simulation.run import run_plan

STEPS = 2000
SEEDS = 20
FRESH = 5
AGAIN = """
from partibus.simulation.plan import draw
from partibus.simulation.run import run_plan
print(*(run_plan(draw(seed, 1500)).trace_hash for seed in (3, 4, 5, 14)))
"""


def test_a_seed_is_the_same_run_in_every_process() -> None:
    """Whatever the hashes of strings are: nothing may depend on the order of a set."""
    said = [
        subprocess.run(
            [sys.executable, "-c", AGAIN],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert len(set(said[0].split())) == 4


@pytest.mark.parametrize("first", [1, 1 + SEEDS])
def test_every_promise_is_kept(first: int) -> None:
    """The same seeds at every run."""
    for seed in range(first, first + SEEDS):
        verdict = run_plan(draw(seed, STEPS))
        assert verdict.violation is None, failure(verdict)


def test_every_promise_is_kept_with_other_seeds_each_time(
    record_property: Callable[[str, object], None],
) -> None:
    """A failure here is a finding: keep its seed, whatever else was changed."""
    first = secrets.randbelow(1 << 40)
    record_property("seeds", f"{first} to {first + FRESH - 1}, {STEPS} steps each")
    for seed in range(first, first + FRESH):
        verdict = run_plan(draw(seed, STEPS))
        assert verdict.violation is None, failure(verdict)


def test_much_happens_in_a_run() -> None:
    """A simulator in which nothing happens finds nothing."""
    verdicts = [run_plan(draw(seed, 3000)) for seed in range(200, 212)]
    assert sum(verdict.totals.accepted for verdict in verdicts) > 500
    assert sum(verdict.totals.completed for verdict in verdicts) > 500
    assert sum(len(verdict.faults) for verdict in verdicts) > 50
