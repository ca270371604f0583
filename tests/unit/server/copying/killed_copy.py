"""A copy that is killed at one of its steps: run by the tests as a program of its own.

    python killed_copy.py SOURCE TARGET STEP

The process ends at the step as by SIGKILL, without a word and without tidying up.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, Final

from partibus.server.copying import copy
from partibus.server.copying.ends import GivenPlace

STEPS: Final = ("first body", "first lane", "second lane", "catalog", "compared", "complete")
KILLED: Final = 9


def die(*_: Any, **__: Any) -> None:
    os._exit(KILLED)


def then_die(work: Callable[..., Any]) -> Callable[..., Any]:
    def run(*values: Any, **more: Any) -> None:
        work(*values, **more)
        die()

    return run


def second_time(work: Callable[..., Any]) -> Callable[..., Any]:
    calls: list[None] = []

    def run(*values: Any, **more: Any) -> Any:
        calls.append(None)
        return die() if len(calls) == 2 else work(*values, **more)

    return run


def prepare(step: str) -> None:
    work: Any = copy._Work
    module: Any = copy
    if step == "first body":
        module._bodies = die
    elif step == "first lane":
        work.copy_lane = then_die(work.copy_lane)
    elif step == "second lane":
        module.stretches = second_time(module.stretches)
    elif step == "catalog":
        module.copy_catalog = then_die(module.copy_catalog)
    elif step == "compared":
        module.compare_lanes = then_die(module.compare_lanes)
    else:
        work.compare = then_die(work.compare)


if __name__ == "__main__":
    source, target, step = sys.argv[1:]
    prepare(step)
    copy.copy_bus(GivenPlace(place=source), GivenPlace(place=target))
