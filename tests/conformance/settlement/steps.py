"""Small things the tests of settlement do again and again: times, waits, texts.

A wait asks the server until the answer is right; its limit keeps a failing test from
hanging, a passing one never sits it out.
"""

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from azure.servicebus import ServiceBusReceivedMessage

from adversity.waiting import looks
from support.receiving import WAIT_SECONDS_MAX

# Times travel in milliseconds.
TICK: Final = datetime.timedelta(milliseconds=1)

_T = TypeVar("_T")


def until(what: str, probe: Callable[[], _T]) -> _T:
    """Ask again until the answer is true, and return it."""
    for _ in looks(WAIT_SECONDS_MAX):
        if answer := probe():
            return answer
    raise AssertionError(f"waited in vain for {what}")


def utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def seconds(number: float) -> datetime.timedelta:
    return datetime.timedelta(seconds=number)


def text_properties(message: ServiceBusReceivedMessage) -> dict[str, object]:
    """Application properties with keys and texts as str; the client gives them as bytes."""
    properties = message.application_properties or {}
    return {str(_text(key)): _text(value) for key, value in properties.items()}


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value


@asynccontextmanager
async def opened(*handlers: Any) -> AsyncIterator[Any]:
    """Open senders and receivers side by side, and close them so."""
    await asyncio.gather(*(handler.__aenter__() for handler in handlers))
    try:
        yield handlers
    finally:
        await asyncio.gather(*(handler.__aexit__() for handler in handlers))
