"""Waiting for a condition with a deadline, instead of for a time.

A passing test never sits a deadline out; it is a limit against hanging, far above what the
slowest machine needs.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Final

DEADLINE_SECONDS: Final = 120.0
_LOOK_AGAIN_SECONDS: Final = 0.02


def wait_until(
    condition: Callable[[], bool], what: str, *, seconds: float = DEADLINE_SECONDS
) -> None:
    """Look at the condition until it holds."""
    pause = threading.Event()
    for _ in range(int(seconds / _LOOK_AGAIN_SECONDS)):
        if condition():
            return
        pause.wait(_LOOK_AGAIN_SECONDS)
    raise AssertionError(f"{what}: not so within {seconds} s")


async def wait_until_async(
    condition: Callable[[], bool], what: str, *, seconds: float = DEADLINE_SECONDS
) -> None:
    """The same without holding up the event loop."""
    never = asyncio.Event()
    for _ in range(int(seconds / _LOOK_AGAIN_SECONDS)):
        if condition():
            return
        try:
            await asyncio.wait_for(never.wait(), _LOOK_AGAIN_SECONDS)
        except TimeoutError:
            continue
    raise AssertionError(f"{what}: not so within {seconds} s")
