"""Checkpoints, and the files they make superfluous.

Owns the thread that writes a checkpoint while commits go on, and the rule of deletion: a
segment goes when it lay wholly before a durable checkpoint and held no live body when the
checkpoint was taken. Called by the store on the loop thread; tells it there.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.store.callbacks import tell
from partibus.store.checkpoint import (
    Checkpoint,
    checkpoint_names,
    checkpoint_path,
    write_checkpoint,
)
from partibus.store.disk import Disk
from partibus.store.interface import Done, Notify
from partibus.store.room import Room, is_full
from partibus.store.table import SegmentTable
from partibus.store.worker import Worker

_log: Final = logging.getLogger(__name__)


class Housekeeper:
    """Writes checkpoints one after the other; `position` is the latest durable one's."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        table: SegmentTable,
        notify: Notify,
        *,
        room: Room,
        forget: Callable[[list[str]], None],
        changed: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._table = table
        self._notify = notify
        self._room = room
        self._forget = forget
        self._changed = changed
        self._worker = Worker(f"store-keep-{directory.name}")
        self.position = 0
        self.file_bytes = 0
        self.failing = False

    def checkpoint(self, checkpoint: Checkpoint, done: Done) -> None:
        """Write it, delete what it makes superfluous, then tell."""
        empty = self._table.empty_before(checkpoint.position)
        self._worker.submit(partial(self._write, checkpoint, empty, done))

    def adopt(self, checkpoint: Checkpoint) -> None:
        """This one is the latest that is durable."""
        self.position = checkpoint.position
        self.file_bytes = checkpoint.file_bytes

    def drop_older(self) -> None:
        """Delete the checkpoints that a crash left beside the latest."""
        latest = checkpoint_path(self._directory, self.position).name
        for name in checkpoint_names(self._disk.names(self._directory)):
            if name < latest:
                self._disk.remove(self._directory / name)

    def close(self) -> None:
        """Finish what was begun."""
        self._worker.close()

    def _write(self, checkpoint: Checkpoint, empty: list[int], done: Done) -> None:
        try:
            self._write_somehow(checkpoint)
        except Exception as error:
            _log.error("%s: a checkpoint could not be written: %r", self._directory, error)
            text = f"The store {self._directory} could not write a checkpoint: {error}."
            self._notify(partial(self._failed, StoreUnavailable(text), done))
        else:
            self._notify(partial(self._written, checkpoint, empty, done))

    def _write_somehow(self, checkpoint: Checkpoint) -> None:
        """On a full disk at the cost of the reserve: a checkpoint is what gives room."""
        try:
            write_checkpoint(self._disk, self._directory, checkpoint)
        except OSError as error:
            if not is_full(error) or not self._room.give_up():
                raise
            write_checkpoint(self._disk, self._directory, checkpoint)

    def _failed(self, error: BusError, done: Done) -> None:
        self.failing = True
        self._changed()
        tell(done, error)

    def _written(self, checkpoint: Checkpoint, empty: list[int], done: Done) -> None:
        self.adopt(checkpoint)
        self.failing = False
        self._changed()
        # What an earlier checkpoint gave up meanwhile is gone from the table already.
        going = [base for base in empty if self._table.holds_nothing(base)]
        names = [self._table.remove(base).name for base in going]
        self._forget(names)
        if not self._worker.submit(partial(self._delete, names, done)):
            tell(done, None)  # closed meanwhile: the next start meets the files again

    def _delete(self, names: list[str], done: Done) -> None:
        try:
            for name in names:
                self._disk.remove(self._directory / name)
            self.drop_older()
        except OSError as error:
            # They hold nothing anyone needs; the next start meets them again.
            _log.warning("%s: superfluous files remain: %r", self._directory, error)
        self._notify(partial(tell, done, None))
