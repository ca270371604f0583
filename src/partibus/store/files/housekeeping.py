"""Checkpoints, and the files that are no longer needed after them.

Owns the thread that writes a checkpoint and its new pages while commits go on, and the rule of
deletion: a segment is deleted when it is wholly before a durable checkpoint and had no live body
when the checkpoint was taken; a page file is deleted when a durable checkpoint refers to nothing in
it. Called by the store on the loop thread, and reports to it there.
"""

import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.store.callbacks import call_back
from partibus.store.files.checkpoint import (
    Checkpoint,
    checkpoint_names,
    checkpoint_path,
    name_checkpoint,
    prepare_checkpoint,
)
from partibus.store.files.disk import Disk
from partibus.store.files.room import Room, is_full
from partibus.store.interface import Done, Increment, Notify
from partibus.store.pages import PageIndex
from partibus.store.table import SegmentTable
from partibus.store.worker import Worker

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class Housekeeper:
    """Writes checkpoints one after the other; `position` is the latest durable one's."""

    disk: Disk
    directory: Path
    table: SegmentTable
    notify: Notify
    _: KW_ONLY
    room: Room
    forget: Callable[[list[str]], None]
    changed: Callable[[], None]

    def __post_init__(self) -> None:
        self._worker = Worker(f"store-keep-{self.directory.name}")
        self._page_index = PageIndex(self.disk, self.directory)
        """Used by the thread, once it has work."""
        self.position = 0
        self.file_bytes = 0
        self.written_bytes = 0
        """The bytes that the last checkpoint wrote."""
        self.failing = False

    def checkpoint(self, checkpoint: Checkpoint, increment: Increment | None, done: Done) -> None:
        """Write it, delete what is no longer needed, then call `done`."""
        empty = self.table.empty_before(checkpoint.position)
        self._worker.submit(partial(self._write, checkpoint, increment, empty, done))

    def adopt(self, checkpoint: Checkpoint) -> None:
        """Set the latest durable checkpoint, as recovery found it."""
        self._page_index.adopt(checkpoint.places)
        self._count(checkpoint, self._page_index.file_bytes)

    def drop_older(self) -> None:
        """Delete what a crash left besides the latest checkpoint: older ones, and unused pages."""
        self._drop_older_checkpoints()
        for path in self._page_index.strays():
            self.disk.remove(path)

    def _count(self, checkpoint: Checkpoint, page_bytes: int) -> None:
        self.position = checkpoint.position
        self.file_bytes = checkpoint.file_bytes + page_bytes

    def _drop_older_checkpoints(self) -> None:
        latest = checkpoint_path(self.directory, self.position).name
        for name in checkpoint_names(self.disk.names(self.directory)):
            if name < latest:
                self.disk.remove(self.directory / name)

    def close(self) -> None:
        """Finish pending work."""
        self._worker.close()

    def _write(
        self, checkpoint: Checkpoint, increment: Increment | None, empty: list[int], done: Done
    ) -> None:
        try:
            written = self._write_somehow(checkpoint, increment)
        except Exception as error:
            _log.error("%s: a checkpoint could not be written: %r", self.directory, error)
            text = f"The store {self.directory} could not write a checkpoint: {error}."
            self.notify(partial(self._failed, StoreUnavailable(text), done))
        else:
            self.notify(partial(self._written, checkpoint, written, empty, done))

    def _write_somehow(self, checkpoint: Checkpoint, increment: Increment | None) -> "_Written":
        """Write; on a full disk use the reserve, because a checkpoint is what frees space."""
        try:
            return self._write_all(checkpoint, increment)
        except OSError as error:
            if not is_full(error) or not self.room.give_up():
                raise
            return self._write_all(checkpoint, increment)

    def _write_all(self, checkpoint: Checkpoint, increment: Increment | None) -> "_Written":
        """The new pages, then the checkpoint that refers to them."""
        pages = {} if increment is None else increment.pages
        needed = () if increment is None else chain.from_iterable(increment.needed)
        index = self._page_index.write(pages, needed, checkpoint.store_id)
        checkpoint.places = index.places
        try:
            prepare_checkpoint(self.disk, self.directory, checkpoint)
        except BaseException:
            index.file.discard()
            raise
        try:
            name_checkpoint(self.disk, self.directory, checkpoint)
        except BaseException:
            self._page_index.set_aside(index)
            raise
        superfluous = self._page_index.turn_over(index)
        return _Written(index.file.size, self._page_index.file_bytes, superfluous)

    def _failed(self, error: BusError, done: Done) -> None:
        self.failing = True
        self.changed()
        call_back(done, error)

    def _written(
        self, checkpoint: Checkpoint, written: "_Written", empty: list[int], done: Done
    ) -> None:
        self._count(checkpoint, written.page_bytes)
        self.written_bytes = checkpoint.file_bytes + written.new_bytes
        self.failing = False
        self.changed()
        # Files that an earlier checkpoint has released meanwhile are already gone from the table.
        going = [base for base in empty if self.table.holds_nothing(base)]
        names = [self.table.remove(base).name for base in going]
        self.forget(names)
        paths = [self.directory / name for name in names] + written.superfluous
        if not self._worker.submit(partial(self._delete, paths, done)):
            call_back(done, None)  # closed meanwhile: the next start removes the files

    def _delete(self, paths: list[Path], done: Done) -> None:
        try:
            for path in paths:
                self.disk.remove(path)
            self._drop_older_checkpoints()
        except OSError as error:
            # The remaining files are not needed; the next start removes them.
            _log.warning("%s: obsolete files remain: %r", self.directory, error)
        self.notify(partial(call_back, done, None))


@dataclass(eq=False, slots=True)
class _Written:
    """What became durable with a checkpoint, and what is no longer needed after it."""

    new_bytes: int
    """Of the pages that it wrote."""
    page_bytes: int
    """Of all page files."""
    superfluous: list[Path]
