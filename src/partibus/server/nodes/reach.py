"""Which lanes this node cannot reach, because their database does not answer here.

Owns which lanes are out of reach: those of a database as long as none of its connections answers.
It is reported with the leases, so that another node takes them if it can, and withdrawn when the
database answers again, which is tried every second. Must never open or close a lane. Called by
`lane_keeping`; made by the node.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from partibus.control.ownership import Ownership

ASK_S: Final = 1.0

_log: Final = logging.getLogger(__name__)


class Reach:
    """The lanes that are currently out of reach."""

    def __init__(
        self, ownership: Ownership, places: Sequence[str], answers: Callable[[str], bool]
    ) -> None:
        self._ownership = ownership
        self._places = places
        """By lane."""
        self._answers = answers
        """Whether a database answers; blocks."""
        self._lost: set[str] = set()
        self._asking: asyncio.Task[None] | None = None

    def is_lost(self, lane: int) -> bool:
        """Whether the database of a lane does not answer."""
        return self._places[lane] in self._lost

    def lose(self, lane: int) -> None:
        """The database of a lane did not answer."""
        if not self.is_lost(lane):
            _log.warning("the database of lane %d is out of reach", lane)
            self._lost.add(self._places[lane])
            if self._asking is None:
                self._asking = asyncio.ensure_future(self._ask())

    def stop(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self) -> None:
        """Ask until every database answers."""
        loop = asyncio.get_running_loop()
        while self._lost:
            await self._report()
            await asyncio.sleep(ASK_S)
            for place in sorted(self._lost):
                if await loop.run_in_executor(None, self._answers, place):
                    self._lost.discard(place)
        self._asking = None
        await self._report()

    async def _report(self) -> None:
        lost = frozenset(lane for lane, place in enumerate(self._places) if place in self._lost)
        await self._ownership.report_unreachable(lost)
