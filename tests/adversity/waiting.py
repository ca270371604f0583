"""Waiting for a condition with a deadline, instead of for a time.

A passing test never sits a deadline out; it is a limit against hanging, far above what the
slowest machine needs.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

DEADLINE_SECONDS: Final = 120.0
_LOOK_AGAIN_SECONDS: Final = 0.02
_LOOK_AGAIN_SECONDS_MAX: Final = 0.5
_PAUSE_PER_LOOK: Final = 3
"""A look that asks a server or starts a program would otherwise take the processor from what is
waited for."""


def _pause_after(began_s: float) -> float:
    """The seconds until the next look, when the last one began at this time."""
    look_s = time.monotonic() - began_s
    return min(max(_LOOK_AGAIN_SECONDS, _PAUSE_PER_LOOK * look_s), _LOOK_AGAIN_SECONDS_MAX)


def looks(seconds: float) -> Iterator[None]:
    """One item for each look, with a pause after it, until the time is up."""
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while (began_s := time.monotonic()) < deadline:
        yield
        pause.wait(_pause_after(began_s))


def wait_until(
    condition: Callable[[], bool], what: str, *, seconds: float = DEADLINE_SECONDS
) -> None:
    """Look at the condition until it holds."""
    for _ in looks(seconds):
        if condition():
            return
    raise AssertionError(f"{what}: not so within {seconds} s")


async def wait_until_async(
    condition: Callable[[], bool], what: str, *, seconds: float = DEADLINE_SECONDS
) -> None:
    """The same without holding up the event loop."""
    never = asyncio.Event()
    deadline = time.monotonic() + seconds
    while (began_s := time.monotonic()) < deadline:
        if condition():
            return
        try:
            await asyncio.wait_for(never.wait(), _pause_after(began_s))
        except TimeoutError:
            continue
    raise AssertionError(f"{what}: not so within {seconds} s")
