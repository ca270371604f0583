"""The clock of a namespace, controlled by a test.

Owns the methods by which a test advances time. The server does it: when `advance` returns, expired
locks are free, due scheduled messages are active, and expired messages are gone.
"""

import datetime

from partibus.domain.moments import calendar_moment
from partibus.testing.kit.control import Answer, Control
from partibus.testing.kit.durations import Duration, spoken


class FakeClock:
    """Runs as the machine's clock does, and can be advanced."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def advance(self, by: Duration) -> datetime.datetime:
        """Let time pass; returns the new time. Everything that falls due has happened."""
        return _moment(self._control.ask("POST", "/clock/advance", {"by": spoken(by)}))

    def now(self) -> datetime.datetime:
        """The time of the namespace, in UTC: use it as the base for scheduling."""
        return _moment(self._control.ask("GET", "/clock"))

    @property
    def advanced(self) -> datetime.timedelta:
        """How far it is ahead of the machine's."""
        answer = self._control.ask("GET", "/clock")
        return datetime.timedelta(milliseconds=int(answer["advanced_ms"]))


def _moment(answer: Answer) -> datetime.datetime:
    return calendar_moment(int(answer["now_ms"]))
