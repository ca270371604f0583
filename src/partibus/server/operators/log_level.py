"""The level of the log, of all workers at once, while they run.

Owns the question `log-level`. It changes only what is logged; a restart returns to the level of the
settings.
"""

from typing import Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain.errors import ArgumentError
from partibus.ops.logging import LOG_LEVELS, level_now, set_level

LOG_LEVEL: Final = "log-level"


def answer_log_level(payload: Payload) -> Payload:
    """Set the level of this process if one is given; returns the current level."""
    if payload.get("level") is not None:
        set_level(payload["level"])
    return {"level": level_now()}


class LogService:
    """The log of the whole server."""

    def __init__(self, control: ControlHub) -> None:
        self._control = control

    async def show(self) -> Payload:
        """The level of every worker."""
        return _together(await self._control.ask_all(LOG_LEVEL, {}))

    async def set_level(self, level: object) -> Payload:
        """Have every worker log from this level on."""
        if level not in LOG_LEVELS:
            raise ArgumentError(f"'level' must be one of {', '.join(LOG_LEVELS)}.")
        return _together(await self._control.ask_all(LOG_LEVEL, {"level": level}))


def _together(answers: dict[int, Payload]) -> Payload:
    levels = {worker: answer["level"] for worker, answer in sorted(answers.items())}
    return {
        "level": next(iter(levels.values()), None),
        "workers": [{"worker": worker, "level": level} for worker, level in levels.items()],
    }
