"""Which lanes this node cannot reach, because their database does not answer here.

Owns which lanes are out of reach: those of a database that accepts no connection from here. A lane
that fails alone is not out of reach, and neither are its neighbours: its database is asked before
anything is reported. What is out of reach is reported with the leases, so that another node takes
it if it can, and withdrawn when the database answers again, which is tried every second. Must never
open or close a lane. Called by `lane_keeping`; made by the node.
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
        self._suspected: set[str] = set()
        """Databases to be asked: a lane of each has failed."""
        self._lost: set[str] = set()
        self._asking: asyncio.Task[None] | None = None

    def is_lost(self, lane: int) -> bool:
        """Whether the database of a lane does not answer."""
        return self._places[lane] in self._lost

    def suspect(self, lane: int) -> None:
        """A lane has failed: find out whether its database is out of reach."""
        if not self.is_lost(lane):
            self._suspected.add(self._places[lane])
            if self._asking is None:
                self._asking = asyncio.ensure_future(self._ask())

    def stop(self) -> None:
        """Stop asking."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self) -> None:
        """Ask until every database answers."""
        while self._suspected or self._lost:
            asked = self._suspected | self._lost
            self._suspected = set()
            lost = {place for place in sorted(asked) if not await self._is_answering(place)}
            if lost != self._lost:
                self._lost = lost
                await self._report()
            if lost and not self._suspected:
                await asyncio.sleep(ASK_S)
        self._asking = None

    async def _is_answering(self, place: str) -> bool:
        return await asyncio.get_running_loop().run_in_executor(None, self._answers, place)

    async def _report(self) -> None:
        lost = frozenset(lane for lane, place in enumerate(self._places) if place in self._lost)
        if lost:
            _log.warning("the databases of lanes %s are out of reach", sorted(lost))
        else:
            _log.info("every database is within reach again")
        await self._ownership.report_unreachable(lost)
