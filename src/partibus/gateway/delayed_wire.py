"""A wire whose bytes arrive later: simulates a distant client.

Owns the bytes that wait to be sent. Order is kept, and each connection has one timer. Wrapped
around the listener's wire when the server runs with faults, and only then; it passes everything
through while no delay is set.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from partibus.domain.scheduler import Scheduler, Timer
from partibus.gateway.fault_injection import ClientFaults

if TYPE_CHECKING:
    from partibus.gateway.wire import Wire

WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of one connection that may wait; beyond that the oldest are sent early."""


@dataclass(eq=False, slots=True)
class DelayedWire:
    """Writes after a delay, closes after what was written."""

    wire: "Wire"
    faults: ClientFaults
    scheduler: Scheduler
    now_ms: Callable[[], int]
    peer: str = field(init=False)
    secure: bool = field(init=False)
    is_websocket: bool = field(init=False)
    _waiting: deque[tuple[int, bytes]] = field(init=False, default_factory=deque)
    _waiting_bytes: int = field(init=False, default=0)
    _is_closing: bool = field(init=False, default=False)
    _lingers: bool = field(init=False, default=False)
    _timer: Timer | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.peer = self.wire.peer
        self.secure = self.wire.secure
        self.is_websocket = self.wire.is_websocket

    def write(self, data: bytes) -> None:
        """Send when the delay has passed, and never before earlier writes."""
        delay_ms = self.faults.rtt_ms
        if not delay_ms and not self._waiting:
            self.wire.write(data)
            return
        # The clock counts whole milliseconds: add one, so that nothing is sent too early.
        self._waiting.append((self.now_ms() + delay_ms + 1, data))
        self._waiting_bytes += len(data)
        while self._waiting_bytes > WAITING_BYTES_MAX:
            self._let_go()
        if self._timer is None:
            self._set_timer()

    def close(self) -> None:
        """Close after everything written is sent, however late that is."""
        self._is_closing = True
        if not self._waiting:
            self._end()

    def linger(self) -> None:
        """The same, though the peer may still be sending."""
        self._lingers = True
        self.close()

    def _end(self) -> None:
        if self._lingers:
            self.wire.linger()
        else:
            self.wire.close()

    def abort(self) -> None:
        """Close at once, dropping what was not sent."""
        self._waiting.clear()
        self._waiting_bytes = 0
        self._is_closing = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wire.abort()

    def pause_reading(self) -> None:
        """Stop reading from the peer."""
        self.wire.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading from the peer."""
        self.wire.resume_reading()

    def _set_timer(self) -> None:
        if self._waiting:
            left_ms = self._waiting[0][0] - self.now_ms()
            delay_ms = max(0, min(left_ms, self.faults.rtt_ms + 1))
            self._timer = self.scheduler.call_later_ms(delay_ms, self._release)

    def _release(self) -> None:
        """Send what is due; close when that was the last and a close was requested."""
        self._timer = None
        now_ms = self.now_ms()
        # Anything due later than the delay was written before the delay was reduced.
        while self._waiting and not 0 < self._waiting[0][0] - now_ms <= self.faults.rtt_ms + 1:
            self._let_go()
        if self._waiting:
            self._set_timer()
        elif self._is_closing:
            self._is_closing = False
            self._end()

    def _let_go(self) -> None:
        _, data = self._waiting.popleft()
        self._waiting_bytes -= len(data)
        self.wire.write(data)
