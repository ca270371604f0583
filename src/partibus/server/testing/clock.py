"""The clock of a test server, as its users see and advance it.

Owns the form of these requests and their answers, and the refusal on a server that uses the
machine's clock. `fake_time` advances the time. Called by the HTTP side (`ops.admin.testing`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from partibus.cluster.control_hub import Payload
from partibus.domain.errors import ArgumentError, InvalidOperation
from partibus.domain.quantities import any_duration_ms, moment_text
from partibus.server.idle import IdleWatch
from partibus.server.testing.fake_time import FakeTime

ADVANCE_MS_MAX: Final = 10 * 365 * 24 * 3600 * 1000
"""Ten years in one call; more is a mistake in the unit."""
TOTAL_MS_MAX: Final = 100 * 365 * 24 * 3600 * 1000
"""Beyond this, expiry times could no longer be expressed to clients."""
SWITCHED_OFF: Final = (
    "The clock of this server cannot be moved: it was started without --fake-time. Start it with "
    "'partibus serve --testing', or with '--memory --fake-time', where that is wanted."
)


class FixedClockService:
    """Used where time is the machine's."""

    def show(self) -> Payload:
        raise InvalidOperation(SWITCHED_OFF)

    async def advance(self, body: Payload) -> Payload:
        raise InvalidOperation(SWITCHED_OFF)


@dataclass(eq=False)
class ClockService(FixedClockService):
    """Advances the time of one namespace."""

    time: FakeTime
    is_at_rest: Callable[[], bool]
    idle: IdleWatch
    look: Callable[[], None]

    def show(self) -> Payload:
        """The current time, and how much of it was advanced."""
        clock = self.time.clock
        now_ms = clock.now_ms()
        return {"now": moment_text(now_ms), "now_ms": now_ms, "advanced_ms": clock.advanced_ms}

    async def advance(self, body: Payload) -> Payload:
        """Let time pass; everything that falls due has happened when this returns."""
        delta_ms = _delta_ms(body)
        if self.time.clock.advanced_ms + delta_ms > TOTAL_MS_MAX:
            raise ArgumentError(
                "The clock can be advanced by at most 100 years in total; restart the server."
            )
        await self.time.advance_ms(delta_ms, self.is_at_rest, self.idle.sweep, self.look)
        return self.show()


def _delta_ms(body: Payload) -> int:
    by = body.get("by")
    if set(body) != {"by"} or not isinstance(by, str):
        raise ArgumentError("An advance needs 'by', a duration such as 30s, 1h30m, 7d or P7D.")
    delta_ms = any_duration_ms(by)
    if not 0 < delta_ms <= ADVANCE_MS_MAX:
        raise ArgumentError(f"'by' is {by}; it must be above 0 and at most 3650d.")
    return delta_ms
