"""What brokers, gateways and couriers need of an event loop.

Owns the interface only, and must never import asyncio: `server.scheduler` implements it with an
event loop, `testing.scheduler` by hand.
"""

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The part of an event loop that brokers and gateways need; tests advance it by hand."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run after the current call."""
        ...

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run after this many milliseconds."""
        ...
