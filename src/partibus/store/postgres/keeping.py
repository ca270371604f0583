"""Checkpoints of a lane, and the tables that are no longer needed after them.

Owns the thread that writes a checkpoint while appends go on, with a connection of its own, and the
rule of deletion: the table of a segment is dropped when it is wholly before a durable checkpoint
and had no live body when the checkpoint was taken. Called by the store on the loop thread; reports
to it there.
"""

import logging
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Final

import psycopg

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.store.callbacks import call_back
from partibus.store.interface import Done, Increment, Notify
from partibus.store.postgres.lane import Lane
from partibus.store.postgres.lane_connection import LaneConnection
from partibus.store.table import SegmentTable
from partibus.store.worker import Worker

_log: Final = logging.getLogger(__name__)


class DatabaseKeeper:
    """Writes checkpoints one after the other; `position` is that of the latest durable one."""

    def __init__(
        self, lane: Lane, table: SegmentTable, notify: Notify, changed: Callable[[], None]
    ) -> None:
        self._lane = lane
        self._table = table
        self._notify = notify
        self._changed = changed
        self._worker = Worker(f"lane-keep-{lane.number}")
        self._connection = LaneConnection(lane, "checkpoint")
        """Used by the thread."""
        self._pages: dict[int, int] = {}
        """The pages in the database and their lengths."""
        self._state_bytes = 0
        self.position = 0
        self.written_bytes = 0
        self.failing = False

    @property
    def kept_bytes(self) -> int:
        """The bytes of the latest checkpoint."""
        return self._state_bytes + sum(self._pages.values())

    def adopt(self, position: int, pages: dict[int, int], state_bytes: int) -> None:
        """Set the latest checkpoint, as recovery found it."""
        self.position = position
        self._pages = pages
        self._state_bytes = state_bytes

    def checkpoint(
        self, position: int, states: dict[int, bytes], increment: Increment | None, done: Done
    ) -> None:
        """Write it, drop what is no longer needed, then report."""
        empty = self._table.empty_before(position)
        self._worker.submit(partial(self._write, position, states, increment, empty, done))

    def close(self) -> None:
        """Finish pending work."""
        self._worker.submit(self._connection.drop)
        self._worker.close()

    # --- on the thread ----------------------------------------------------------------------

    def _write(
        self,
        position: int,
        states: dict[int, bytes],
        increment: Increment | None,
        empty: list[int],
        done: Done,
    ) -> None:
        try:
            written = self._write_all(position, states, increment)
        except (psycopg.Error, BusError) as error:
            self._connection.drop()
            _log.error("%s: a checkpoint could not be written: %s", self._lane.name, error)
            text = f"The {self._lane.name} could not write a checkpoint: {error}."
            self._notify(partial(self._failed, StoreUnavailable(text), done))
        else:
            self._notify(partial(self._written, position, written, empty, done))

    def _write_all(
        self, position: int, states: dict[int, bytes], increment: Increment | None
    ) -> int:
        """In one transaction: the new pages, the states, and the removal of what is no longer
        needed."""
        new = {} if increment is None else increment.pages
        needed = set(() if increment is None else chain.from_iterable(increment.needed))
        gone = [number for number in self._pages if number not in needed]
        added = [(number, b"".join(new[number]())) for number in sorted(needed & new.keys())]
        with self._lane.checkpoint(self._connection.get(), position) as writer:
            writer.drop_pages(gone)
            writer.add_pages(added)
            writer.put_states(states)
        for number in gone:
            del self._pages[number]
        lengths = {number: len(data) for number, data in added}
        self._pages |= lengths
        self._state_bytes = sum(map(len, states.values()))
        return self._state_bytes + sum(lengths.values())

    def _drop(self, segments: list[tuple[int, int]], done: Done) -> None:
        try:
            self._lane.drop_segments(self._connection.get(), segments)
        except (psycopg.Error, BusError) as error:
            # They hold nothing that is needed; the next start finds them again.
            self._connection.drop()
            _log.warning("%s: obsolete tables remain: %s", self._lane.name, error)
        self._notify(partial(call_back, done, None))

    # --- on the loop ------------------------------------------------------------------------

    def _failed(self, error: BusError, done: Done) -> None:
        self.failing = True
        self._changed()
        call_back(done, error)

    def _written(self, position: int, written: int, empty: list[int], done: Done) -> None:
        self.position = position
        self.written_bytes = written
        self.failing = False
        self._changed()
        # Tables that an earlier checkpoint has released meanwhile are already gone from the
        # table.
        removed = [self._table.remove(base) for base in empty if self._table.holds_nothing(base)]
        going = [(segment.base, segment.revision) for segment in removed]
        if not self._worker.submit(partial(self._drop, going, done)):
            call_back(done, None)  # closed meanwhile: the next start finds the tables again
