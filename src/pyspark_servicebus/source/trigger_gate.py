"""Whether a batch is worth starting yet.

Owns `minMessagesPerTrigger` and `maxTriggerDelay`: a batch waits until enough messages are there or
until the oldest has waited long enough. Every batch costs Spark a few tenths of a second, however
small it is. Pure; the clock is passed in.
"""

import time
from collections.abc import Callable


class TriggerGate:
    """Decides for each batch whether it may start."""

    def __init__(
        self, messages_min: int, delay_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._messages_min = messages_min
        self._delay_s = delay_ms / 1000
        self._clock = clock
        self._waiting_since: float | None = None

    def lets_through(self, waiting: int) -> bool:
        """Whether a batch should start now; called at every trigger."""
        if not waiting:
            self._waiting_since = None
            return True  # nothing waits: there is no batch anyway
        now = self._clock()
        if self._waiting_since is None:
            self._waiting_since = now
        if waiting < self._messages_min and now - self._waiting_since < self._delay_s:
            return False
        self._waiting_since = None
        return True
