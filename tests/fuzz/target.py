"""What a fuzz target is: bytes in, and only documented errors out.

Owns the verdict over one input: which errors are answers, what is a crash, how many steps are a
hang and how much memory is too much. Knows neither Atheris nor pytest: the fuzzer (`worker`) and
the replay of the corpus (`test_corpus`) both run inputs through `Target.run`.
"""

import sys
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

STEPS_MAX: Final = 1_000_000
"""Lines of Python for one input of a few KB; honest inputs take some thousands."""
MEMORY_BYTES_MAX: Final = 64 << 20
"""What one input may make the product hold at a time. Inputs have INPUT_BYTES_MAX at most."""
INPUT_BYTES_MAX: Final = 4096

Seeds = Callable[[], Sequence[bytes]]


class Hang(BaseException):
    """An input took more than STEPS_MAX steps; no handler of the product may catch it."""


class TooMuchMemory(AssertionError):
    """An input made the product hold more than MEMORY_BYTES_MAX."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One entry of the product for bytes of strangers."""

    name: str
    takes: str
    """What its inputs are, for people."""
    execute: Callable[[bytes], object]
    answers: tuple[type[Exception], ...]
    """The documented errors; any other is a crash."""
    seeds: Seeds
    """Inputs made from the product's own encoders, or as clients send them."""

    def run(self, data: bytes) -> None:
        """Pass one input through; whatever comes out is a finding."""
        try:
            self.execute(data)
        except self.answers:
            return


def run_bounded(target: Target, data: bytes) -> None:
    """The same, with the steps counted and the memory measured."""
    counter = _StepCounter()
    tracemalloc.start()
    before = sys.gettrace()
    sys.settrace(counter.trace)
    try:
        target.run(data)
    finally:
        sys.settrace(before)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if peak > MEMORY_BYTES_MAX:
        raise TooMuchMemory(f"{target.name}: {len(data)} bytes made it hold {peak} bytes")


class _StepCounter:
    """Counts lines, so that a hang is found without a clock."""

    def __init__(self) -> None:
        self.steps = 0

    def trace(self, _frame: FrameType, event: str, _arg: Any) -> Any:
        if event == "line":
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Hang(f"more than {STEPS_MAX} steps")
        return self.trace
