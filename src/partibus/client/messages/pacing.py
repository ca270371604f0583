"""The pace of a stream of messages.

Owns the wait before each message; must never send anything. Used by `send`, `bench` and
resubmission.
"""

import asyncio


class Pacer:
    """Allows this many per second; without a rate it never waits."""

    def __init__(self, rate_per_s: float | None) -> None:
        self._rate_per_s = rate_per_s
        self._passed = 0
        self._start = 0.0

    async def next(self) -> None:
        if self._rate_per_s is None:
            return
        now = asyncio.get_running_loop().time()
        self._start = self._start or now
        due = self._start + self._passed / self._rate_per_s
        self._passed += 1
        if due > now:
            await asyncio.sleep(due - now)
