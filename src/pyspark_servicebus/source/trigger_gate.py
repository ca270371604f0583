"""Whether a batch is worth its while yet.

Owns `minMessagesPerTrigger` and `maxTriggerDelay`: a batch waits until enough messages are there or
until the oldest wait is long enough. Every batch costs Spark some tenths of a second, however
little is in it. Pure but for the clock, which is handed in.
"""

import time
from collections.abc import Callable


class TriggerGate:
    """Lets batches through one by one."""

    def __init__(
        self, messages_min: int, delay_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._messages_min = messages_min
        self._delay_s = delay_ms / 1000
        self._clock = clock
        self._waiting_since: float | None = None

    def lets_through(self, waiting: int) -> bool:
        """Whether a batch of what waits is to begin now; asked at every trigger."""
        if not waiting:
            self._waiting_since = None
            return True  # nothing waits: there is no batch either
        now = self._clock()
        if self._waiting_since is None:
            self._waiting_since = now
        if waiting < self._messages_min and now - self._waiting_since < self._delay_s:
            return False
        self._waiting_since = None
        return True
