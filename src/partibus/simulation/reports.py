"""Runs of many seeds, and their reports.

Owns the order of seeds, the limits on a series of runs, and its output: a line for each seed on
request, a table at the end, and for a failure the seed, the broken promise and how to reproduce it.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from partibus.simulation.plan import draw_for
from partibus.simulation.run import Verdict, run_plan


@dataclass(slots=True)
class Series:
    """The results of many runs."""

    runs: int = 0
    steps: int = 0
    seconds: float = 0.0
    faults: int = 0
    accepted: int = 0
    completed: int = 0
    failures: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        """Count a run."""
        self.runs += 1
        self.steps += verdict.steps
        self.faults += len(verdict.faults)
        self.accepted += verdict.totals.accepted
        self.completed += verdict.totals.completed
        if verdict.violation is not None:
            self.failures.append(verdict)

    def summary(self) -> str:
        """In a line."""
        pace = self.steps / self.seconds if self.seconds else 0.0
        return (
            f"{self.runs} seeds, {self.steps} steps, {pace:.0f} steps/s: {self.faults} faults, "
            f"{self.accepted} messages accepted, {self.completed} settled, "
            f"{len(self.failures)} violations"
        )


def run_series(
    seeds: Iterable[int],
    steps: int,
    say: Callable[[str], None],
    *,
    nodes: int | None = None,
    seconds_max: float | None = None,
    failures_max: int = 5,
) -> Series:
    """Run seeds until one of the limits is reached."""
    series = Series()
    began = time.monotonic()
    for seed in seeds:
        verdict = run_plan(draw_for(seed, steps, nodes))
        series.add(verdict)
        series.seconds = time.monotonic() - began
        if verdict.violation is not None:
            say(failure(verdict))
            if len(series.failures) >= failures_max:
                break
        elif not series.runs % 100:
            say(series.summary())
        if seconds_max is not None and series.seconds > seconds_max:
            break
    return series


def failure(verdict: Verdict) -> str:
    """The report of a run that broke a promise."""
    plan = verdict.plan
    nodes = f" --nodes {plan.nodes}" if plan.nodes else ""
    return (
        f"seed {plan.seed}: {verdict.violation}\n"
        f"  after {verdict.steps} steps, trace {verdict.trace_hash}; {plan.describe()}\n"
        f"  see it again: partibus sim{nodes} --seed {plan.seed} --steps {plan.steps}"
    )
