"""A run as text: who did what, in order, up to the broken promise.

Owns the choice of what belongs in the story: the faults, the lives of processes, and everything
about the messages that the violation names.
"""

import re

from partibus.simulation.run import Verdict

LINES_MAX = 60


def story(verdict: Verdict) -> str:
    """The last part of a run, and its result."""
    plan = verdict.plan
    head = f"seed {plan.seed}, {verdict.steps} steps, trace {verdict.trace_hash}: {plan.describe()}"
    if verdict.violation is None:
        return f"{head}\nNo promise was broken: {verdict.totals}"
    numbers = set(re.findall(r"message (\d+)", verdict.violation))
    lines = [
        f"  step {step:6} {time_us / 1000:10.3f} ms  {who}: {what}"
        for step, time_us, who, what in verdict.events
        if who != "ledger" or numbers.intersection(re.findall(r"\d+", what))
    ]
    left_out = len(lines) - LINES_MAX
    if left_out > 0:
        lines = [f"  ({left_out} earlier lines left out)", *lines[-LINES_MAX:]]
    return "\n".join([head, *lines, f"Broken: {verdict.violation}"])
