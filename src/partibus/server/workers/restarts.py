"""When a worker that died is restarted, and when the server gives up.

Owns the policy: at once the first time, then with growing pauses, and not at all after too many
deaths in a short time, since a worker that cannot run would only waste CPU and bury the reason in
the log. Pure: the time is an argument. One for each worker, called by the supervisor.
"""

from collections import deque
from typing import Final

DEATHS_MAX: Final = 6
"""This many crashes within DEATHS_WINDOW_S stop the server."""
DEATHS_WINDOW_S: Final = 60.0
PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 5.0


class RestartPolicy:
    """The deaths of one worker."""

    __slots__ = ("_deaths",)

    def __init__(self) -> None:
        self._deaths: deque[float] = deque()

    def pause_s(self, now_s: float) -> float | None:
        """It died now: how long to wait before the restart; None to give up."""
        deaths = self._deaths
        while deaths and deaths[0] <= now_s - DEATHS_WINDOW_S:
            deaths.popleft()
        deaths.append(now_s)
        if len(deaths) >= DEATHS_MAX:
            return None
        if len(deaths) == 1:
            return 0.0
        return min(PAUSE_S_MIN * 2.0 ** (len(deaths) - 2), PAUSE_S_MAX)
