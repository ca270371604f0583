"""The events of this process that operators want to see: a bounded log in memory.

Owns the ring of the last events with their numbers. A reader asks for the events after a number and
learns how many it missed; the writer never waits. Filled by the gateway, the listener and the
operators' services; `partibus events` reads it through them.
"""

import time
from collections import deque
from typing import Any, Final

EVENTS_MAX: Final = 2000
"""Events kept for readers, which ask about every second."""

LoggedEvent = dict[str, Any]


class EventLog:
    """The last events of one process."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self._events: deque[LoggedEvent] = deque(maxlen=events_max)
        self.last = 0
        """The number of the latest event."""

    def note(self, kind: str, **facts: object) -> None:
        """Record an event."""
        self.last += 1
        now_ms = int(time.time() * 1000)
        self._events.append({"number": self.last, "time_ms": now_ms, "kind": kind, **facts})

    def after(self, number: int, most: int) -> tuple[list[LoggedEvent], int]:
        """Up to `most` events after a number, and how many before them are gone."""
        if number > self.last:
            number = 0  # of an earlier process
        first = self.last - len(self._events) + 1
        missed = max(0, first - number - 1)
        start = max(0, number + 1 - first)
        found = [self._events[at] for at in range(start, min(len(self._events), start + most))]
        return found, missed


EVENT_LOG: Final = EventLog()
