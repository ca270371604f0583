"""Faults on demand for clients: a slow network, a busy entity.

Owns the faults that a server with `--faults` can inject at the gateway, and their settings. A
gateway without faults neither wraps a wire nor watches a link, so they cost nothing there. The
settings are changed by the server's faults.
"""

from dataclasses import dataclass, field
from typing import Final

from partibus.domain.address import path_key
from partibus.domain.errors import ServerBusy


class Throttle:
    """A rate above which sends to one entity are refused; what was refused is counted.

    One second's worth may come at once, then the rate applies (QTA-17).
    """

    __slots__ = ("_allowance", "_last_ms", "_rate", "refused_count")

    def __init__(self, rate_per_s: float, now_ms: int) -> None:
        self._rate = rate_per_s
        self._allowance = max(1.0, rate_per_s)
        self._last_ms = now_ms
        self.refused_count = 0

    def admits(self, now_ms: int) -> bool:
        """Whether one more send is within the rate; a refused one is counted."""
        grown = self._allowance + (now_ms - self._last_ms) * self._rate / 1000
        self._allowance = min(max(1.0, self._rate), grown)
        self._last_ms = now_ms
        if self._allowance >= 1.0:
            self._allowance -= 1.0
            return True
        self.refused_count += 1
        return False


@dataclass(eq=False, slots=True)
class ClientFaults:
    """The settings; all off in the beginning."""

    rtt_ms: int = field(init=False, default=0)
    """The delay of everything written to a client."""
    _throttles: dict[str, Throttle] = field(init=False, default_factory=dict)

    def set_throttle(self, path: str, throttle: Throttle | None) -> None:
        """Throttle sends to an entity, or stop throttling."""
        if throttle is None:
            self._throttles.pop(path_key(path), None)
        else:
            self._throttles[path_key(path)] = throttle

    def refuses(self, path: str, now_ms: int) -> bool:
        """Whether one more send to an entity exceeds the rate; a batch is one send."""
        throttle = self._throttles.get(path_key(path)) if self._throttles else None
        return throttle is not None and not throttle.admits(now_ms)


THROTTLED_TEXT: Final = (
    "The request was terminated because the entity is being throttled. Error code: 50009. "
    "Please wait 2 seconds and try again."
)


def throttled() -> ServerBusy:
    """The error for a sender above the rate, in the vendor's words (ERR-10, THR-1)."""
    return ServerBusy(THROTTLED_TEXT)
