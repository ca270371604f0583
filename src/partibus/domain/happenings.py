"""What happens in this process that operators want to see: a bounded memory of events.

Owns the ring of the last events with their numbers. Whoever reads asks for what came after a number
and learns how many it missed; nobody is waited for. Filled by the gateway, the listener and the
operators' services; `partibus events` reads it through them.
"""

import time
from collections import deque
from typing import Any, Final

EVENTS_MAX: Final = 2000
"""Events that wait for readers, which ask every second or so."""

Happening = dict[str, Any]


class Happenings:
    """The last events of one process."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self._events: deque[Happening] = deque(maxlen=events_max)
        self.last = 0
        """The number of the latest event."""

    def note(self, kind: str, **facts: object) -> None:
        """Something happened."""
        self.last += 1
        now_ms = int(time.time() * 1000)
        self._events.append({"number": self.last, "time_ms": now_ms, "kind": kind, **facts})

    def after(self, number: int, most: int) -> tuple[list[Happening], int]:
        """Up to `most` events behind a number, and how many of those before them are gone."""
        if number > self.last:
            number = 0  # of a process before this one
        first = self.last - len(self._events) + 1
        missed = max(0, first - number - 1)
        start = max(0, number + 1 - first)
        found = [self._events[at] for at in range(start, min(len(self._events), start + most))]
        return found, missed


HAPPENINGS: Final = Happenings()
