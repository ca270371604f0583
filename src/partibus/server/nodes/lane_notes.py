"""Notes in the control plane of how far lanes have come; and the refusal of one that went back.

Owns when notes are written (every few seconds, and before the node leaves) and the comparison of a
lane with its note before it is opened. A node that cannot write a note goes on serving: the note
then only detects less. Made by `joining`, used by the member.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from partibus.control.postgres import lane_seen
from partibus.control.postgres.lane_seen import LaneEnd
from partibus.control.postgres.session import ControlSession, stop_task
from partibus.domain.errors import BusError, StoreCorrupt
from partibus.fragment.broker import Broker

NOTE_S: Final = 5.0
_log: Final = logging.getLogger(__name__)


def refuse_older(name: str, lane: int, end: LaneEnd | None, seen: LaneEnd | None) -> None:
    """A lane that lacks records it once had must not be served."""
    if end is None or seen is None or end.log_id != seen.log_id or end.position >= seen.position:
        return
    raise StoreCorrupt(
        f"The {name} went back in time: its log ends at {end.position:#x}, but it had reached "
        f"{seen.position:#x}. What was sent and received since is missing. Restore its database to "
        f"the newest state, or accept the loss with `partibus cluster accept {lane}`; nothing was "
        "changed."
    )


class LaneNotes:
    """The notes of one node."""

    def __init__(
        self, url: str, name: Callable[[int], str], end_of: Callable[[int], LaneEnd | None]
    ) -> None:
        self._session = ControlSession(url, "notes")
        self._name = name
        self._end_of = end_of
        self._brokers: Mapping[int, Broker] = {}
        self._noted: dict[int, LaneEnd] = {}
        self._task: asyncio.Task[None] | None = None

    async def admit(self, lane: int) -> None:
        """Raises when a lane that is about to be opened lacks records it once had."""
        seen = (await self._session.run(lane_seen.noted)).get(lane)
        if seen is not None:
            end = await asyncio.to_thread(self._end_of, lane)
            refuse_older(self._name(lane), lane, end, seen)

    def start(self, brokers: Mapping[int, Broker]) -> None:
        """Follow the lanes that are open here."""
        self._brokers = brokers
        self._task = asyncio.ensure_future(self._follow())

    async def stop(self) -> None:
        """Write the last notes; the lanes are still open."""
        await stop_task(self._task)
        await self._write()
        await self._session.close()

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(NOTE_S)
            await self._write()

    async def _write(self) -> None:
        new: dict[int, LaneEnd] = {}
        for lane, broker in self._brokers.items():
            found = broker.log_end
            if found is not None and self._noted.get(lane) != found:
                new[lane] = LaneEnd(*found)
        if not new:
            return
        try:
            await self._session.run(partial(lane_seen.note, ends=new))
        except BusError as error:
            _log.warning("the positions of the lanes cannot be recorded now: %s", error.text)
        else:
            self._noted |= new
