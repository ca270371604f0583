"""The stock Python client without its fixed sleeps, for the duration of a test.

Owns one thing: the fixed sleeps between the steps of a handshake (50 and 100 ms) and of the thread
that keeps a connection alive (1 s) become short ones, only in the modules of `azure.servicebus`.
They add up to a second for each sender and receiver that is opened and closed, which is most of the
time of a suite. The behaviour of the client does not change, nor do its retries and their waits.
The fixture `quick_sdk` does the same for a test.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

NAPS_S: Final = (0.05, 0.1, 1)
"""What the client sleeps for in its loops; its retries wait for other times."""
SHORT_S: Final = 0.001
KEEP_ALIVE_S: Final = 0.02
_PACKAGE: Final = "azure.servicebus"


class _QuickTime:
    """The module `time`, with shorter sleeps."""

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)

    @staticmethod
    def sleep(seconds: float) -> None:
        time.sleep(_shortened(seconds))


class _QuickAsyncio:
    """The module `asyncio`, with shorter sleeps."""

    def __getattr__(self, name: str) -> object:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float, *result: object) -> None:
        await asyncio.sleep(_shortened(seconds), *result)


def _shortened(seconds: float) -> float:
    if seconds not in NAPS_S:
        return seconds
    return KEEP_ALIVE_S if seconds == 1 else SHORT_S


@contextmanager
def quick_sdk() -> Iterator[None]:
    """Shorten the sleeps of the client within the block; without the client this does nothing."""
    try:
        import azure.servicebus
        import azure.servicebus.aio  # noqa: F401
    except ImportError:
        yield
        return
    changed = [
        (module, name, real)
        for module in _modules()
        for name, real in (("time", time), ("asyncio", asyncio))
        if vars(module).get(name) is real
    ]
    quick: dict[ModuleType, object] = {time: _QuickTime(), asyncio: _QuickAsyncio()}
    for module, name, real in changed:
        setattr(module, name, quick[real])
    try:
        yield
    finally:
        for module, name, real in changed:
            setattr(module, name, real)


def _modules() -> list[ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(_PACKAGE) and isinstance(module, ModuleType)
    ]
