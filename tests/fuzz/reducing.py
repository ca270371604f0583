"""Fewer inputs with the same reach, and fewer bytes with the same failure.

Owns the choice of what is kept in the corpus: an input stays when it reaches a line, or a step
from one line to another, that no shorter one has reached. Runs in the process of the caller, since
it needs no fuzzer.
"""

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final

from fuzz.interpreted import PRODUCT
from fuzz.target import Target

TRIES_MAX: Final = 3_000
KEPT_MAX: Final = 400
"""Of one target; the test of the corpus runs them all."""

Step = tuple[str, int, int]
"""A module, and two lines of it of which the second came after the first."""


def worth_keeping(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """The inputs that reach something, the shortest first."""
    reached: set[Step] = set()
    kept: list[bytes] = []
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        steps = _steps(target, data)
        if not steps <= reached and len(kept) < KEPT_MAX:
            reached |= steps
            kept.append(data)
    return kept


def _steps(target: Target, data: bytes) -> set[Step]:
    found: set[Step] = set()

    def trace(frame: FrameType, event: str, _arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PRODUCT):
            return None
        last = 0

        def line(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal last
            if event == "line":
                found.add((frame.f_code.co_filename, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        _failure(target, data)
    finally:
        sys.settrace(before)
    return found


def reduced(target: Target, data: bytes) -> bytes:
    """The same failure with fewer bytes; as it is, where it fails in no other process."""
    wanted = _failure(target, data)
    if wanted is None:
        return data
    tries = 0
    size = max(1, len(data) // 2)
    while size and tries < TRIES_MAX:
        at = 0
        while at < len(data) and tries < TRIES_MAX:
            shorter = data[:at] + data[at + size :]
            tries += 1
            if _failure(target, shorter) is wanted:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def _failure(target: Target, data: bytes) -> type[BaseException] | None:
    """The kind of error that comes out, if one does."""
    try:
        target.run(data)
    except Exception as error:
        return type(error)
    return None
