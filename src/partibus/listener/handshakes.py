"""A bound on TLS handshakes in progress, and on those that begin in one turn of the loop: each
costs tens of kilobytes and a millisecond before the peer has proved anything.

Owns which sockets may begin a handshake and which wait. A waiting socket stays unread and costs
next to nothing. The newest goes first: after a storm of reconnects its client is the most likely to
be still there, and in a flood of half handshakes it is the one that is not part of it. Used by the
listener.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from partibus.domain.clock import Clock
from partibus.listener.sniff import FirstBytes

# About 40 KiB each with uvloop, 300 KiB with asyncio: 20 MiB to 150 MiB at most.
HANDSHAKES_MAX: Final = 512
# A normal handshake takes a few round trips; while others wait, none gets longer.
PATIENCE_MS: Final = 1_000
# A key exchange and a signature each, which block the loop: a storm of reconnects must leave time
# for connected clients in between.
STARTS_PER_TURN: Final = 4

Soon = Callable[[Callable[[], None]], object]
"""Runs something in the next turn of the loop."""


@dataclass(eq=False, slots=True)
class Handshakes:
    """Limits concurrent handshakes."""

    clock: Clock
    begin: Callable[[FirstBytes, socket.socket], None]
    soon: Soon
    most: int = HANDSHAKES_MAX
    _shaking: dict[FirstBytes, int] = field(init=False, default_factory=dict)
    """By start time, oldest first."""
    _waiting: dict[FirstBytes, socket.socket] = field(init=False, default_factory=dict)
    _started: int = field(init=False, default=0)  # in this turn of the loop

    def ask(self, first: FirstBytes, sock: socket.socket) -> None:
        """Begin at once, or when another one has ended; a slow one is aborted."""
        self._waiting[first] = sock
        if len(self._shaking) >= self.most:
            self._end_slowest()
        self._give_turns()

    def end(self, first: FirstBytes) -> None:
        """The handshake is over, whatever its outcome."""
        self._shaking.pop(first, None)
        self._give_turns()

    def withdraw(self, first: FirstBytes) -> socket.socket | None:
        """Stop waiting; returns the socket, or None when its handshake has begun already."""
        return self._waiting.pop(first, None)

    def _give_turns(self) -> None:
        while self._waiting and len(self._shaking) < self.most and self._started < STARTS_PER_TURN:
            if not self._started:
                self.soon(self._turned)
            self._started += 1
            first, sock = self._waiting.popitem()
            self._shaking[first] = self.clock.monotonic_ms()
            self.begin(first, sock)

    def _turned(self) -> None:
        """A new turn of the loop: as many as before may begin."""
        self._started = 0
        self._give_turns()

    def _end_slowest(self) -> None:
        slowest, since_ms = next(iter(self._shaking.items()))
        if self.clock.monotonic_ms() - since_ms >= PATIENCE_MS:
            del self._shaking[slowest]
            slowest.expire()
