"""The clock of a namespace, in the hands of a test.

Owns the words in which a test moves time. The server does it: when `advance` returns, locks that
ended are free, scheduled messages have arrived, and what lived for long enough is gone.
"""

import datetime

from partibus.testing.kit.control import Answer, Control
from partibus.testing.kit.durations import Duration, spoken


class FakeClock:
    """Runs as the machine's clock does, and can be advanced."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def advance(self, by: Duration) -> datetime.datetime:
        """Let time pass; answers what time it is then. All that falls due has happened."""
        return _moment(self._control.ask("POST", "/clock/advance", {"by": spoken(by)}))

    def now(self) -> datetime.datetime:
        """The time of the namespace, in UTC: from here reckon what you schedule."""
        return _moment(self._control.ask("GET", "/clock"))

    @property
    def advanced(self) -> datetime.timedelta:
        """By how much it is ahead of the machine's."""
        answer = self._control.ask("GET", "/clock")
        return datetime.timedelta(milliseconds=int(answer["advanced_ms"]))


def _moment(answer: Answer) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(answer["now_ms"]) / 1000, datetime.UTC)
