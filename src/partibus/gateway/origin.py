"""Where a connection came from, and the rates of its links.

Owns the number of a connection in this process, its transport and the samples that rates are
computed from. Nothing here runs unless an operator asks: a rate is the difference to the previous
reading.
"""

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from partibus.gateway.wire import Wire

SAMPLE_MS_MIN: Final = 1000
"""Readings closer together than this return the same rate, to avoid noise."""

_numbers = count(1)


class Origin:
    """Where one connection came from."""

    __slots__ = ("number", "opened_ms", "peer", "samples", "secure", "transport")

    def __init__(self, wire: "Wire", now_ms: int) -> None:
        self.number = next(_numbers)
        self.opened_ms = now_ms
        self.peer = wire.peer
        self.secure = wire.secure
        if wire.is_websocket:
            self.transport = "websocket"
        else:
            self.transport = "amqps" if wire.secure else "amqp"
        self.samples: dict[object, Sample] = {}
        """The last reading of each link."""

    def facts(self) -> dict[str, object]:
        """The fields that identify the connection in the log and in events."""
        return {"connection": self.number, "peer": self.peer, "transport": self.transport}


@dataclass(eq=False, slots=True)
class Sample:
    """The counter of a link at one time."""

    time_ms: int
    count: int = field(init=False, default=0)
    rate: float = field(init=False, default=0.0)

    def read(self, count: int, now_ms: int) -> float:
        """Messages per second since the last reading; the first one starts at the opening."""
        passed_ms = now_ms - self.time_ms
        if passed_ms >= SAMPLE_MS_MIN:
            self.rate = round((count - self.count) * 1000 / passed_ms, 1)
            self.count, self.time_ms = count, now_ms
        return self.rate
