"""Reducing a failing run to what it takes to fail.

Owns the search: fewer steps, fewer faults, fewer clients, as long as some promise is still broken.
A plan lists what is left out by number, so the rest is unchanged.
"""

from collections.abc import Callable
from dataclasses import replace

from partibus.simulation.plan import Plan
from partibus.simulation.run import Verdict, run_plan

RUNS_MAX = 200
"""A slightly longer story is better than a search that takes an hour."""


def shrink_plan(plan: Plan, say: Callable[[str], None]) -> Plan:
    """A smaller plan that also fails; the plan itself when it does not fail."""
    verdict = run_plan(plan)
    if verdict.violation is None:
        say(f"seed {plan.seed} does not fail; there is nothing to shrink")
        return plan
    search = _Search(plan, verdict)
    search.fewer_steps()
    search.without_faults()
    search.without_clients()
    search.fewer_steps()
    small = search.plan
    say(
        f"shrunk in {search.runs} runs: {small.steps} of {plan.steps} steps, without "
        f"{len(small.without_faults)} faults and {len(small.without_clients)} of "
        f"{len(plan.clients)} clients"
    )
    return small


class _Search:
    def __init__(self, plan: Plan, verdict: Verdict) -> None:
        self.plan = plan
        self.runs = 1
        self._verdict = verdict

    def _try(self, plan: Plan) -> bool:
        if self.runs >= RUNS_MAX:
            return False
        self.runs += 1
        verdict = run_plan(plan)
        if verdict.violation is None:
            return False
        self.plan, self._verdict = plan, verdict
        return True

    def fewer_steps(self) -> None:
        """End the faults as early as it still fails."""
        for share in (8, 4, 2):
            while self._try(replace(self.plan, steps=self.plan.steps - self.plan.steps // share)):
                if self.plan.steps < 50:
                    return

    def without_faults(self) -> None:
        """Leave out halves of the faults, then single ones."""
        happened = [number for number, _, _ in self._verdict.faults]
        size = max(1, len(happened) // 2)
        while size:
            for at in range(0, len(happened), size):
                some = set(happened[at : at + size]) - self.plan.without_faults
                if some:
                    self._try(replace(self.plan, without_faults=self.plan.without_faults | some))
            size //= 2

    def without_clients(self) -> None:
        """Leave out one client after the other."""
        for number in range(len(self.plan.clients)):
            if number not in self.plan.without_clients:
                self._try(replace(self.plan, without_clients=self.plan.without_clients | {number}))
