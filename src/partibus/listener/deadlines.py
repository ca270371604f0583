"""Deadlines for many connections under one timer.

Owns the only timer of the listener: ten thousand silent connections cost ten thousand small entries
and one wake-up a second, never a timer or a task each. Every member has the same time limit, so the
order of arrival is the order of expiry and a sweep checks only the front. Used by the listener for
silent and closing connections and for incomplete requests.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Protocol

from partibus.domain.clock import Clock

# Time limits here are seconds to minutes; being up to one second late is harmless.
SWEEP_PERIOD_S: Final = 1.0


class Expiring(Protocol):
    """Something that is notified when its time is up."""

    def expire(self) -> None:
        """End now. Called once, after the member was removed."""
        ...


@dataclass(eq=False, slots=True)
class Deadlines:
    """Members in order of arrival, each to be expired `limit_ms` later."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    limit_ms: int
    _members: OrderedDict[Expiring, int] = field(init=False, default_factory=OrderedDict)
    _timer: asyncio.TimerHandle | None = field(init=False, default=None)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: Expiring) -> bool:
        return member in self._members

    def watch(self, member: Expiring) -> None:
        """Start the member's time limit, or restart it."""
        self._members[member] = self.clock.monotonic_ms() + self.limit_ms
        self._members.move_to_end(member)
        if self._timer is None:
            self._timer = self.loop.call_later(SWEEP_PERIOD_S, self._on_timer)

    def forget(self, member: Expiring) -> None:
        """The member is done or gone; forgetting twice is harmless."""
        self._members.pop(member, None)

    def sweep(self) -> int:
        """Expire every member whose time is up; returns how many."""
        now_ms = self.clock.monotonic_ms()
        expired = 0
        while self._members:
            member, deadline_ms = next(iter(self._members.items()))
            if deadline_ms > now_ms:
                break
            self._expire_first(member)
            expired += 1
        return expired

    def expire_oldest(self) -> bool:
        """Make room: expire the oldest member; False when there is none."""
        if not self._members:
            return False
        self._expire_first(next(iter(self._members)))
        return True

    def close(self) -> None:
        """Expire all members and stop the timer."""
        while self.expire_oldest():
            pass
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire_first(self, member: Expiring) -> None:
        del self._members[member]
        member.expire()

    def _on_timer(self) -> None:
        self._timer = None
        self.sweep()
        if self._members:
            self._timer = self.loop.call_later(SWEEP_PERIOD_S, self._on_timer)
