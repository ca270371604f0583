"""Upkeep of a broker's log: when it is checkpointed, and when its dead space is freed.

Owns the thresholds and the order of things: what is dead before the last checkpoint goes first;
when that is not enough, a checkpoint makes more of the log removable. Must never read state or
files: the broker provides snapshots, the store does the work. Called by the broker.
"""

import logging
from collections.abc import Callable
from typing import Final

from partibus.domain.errors import BusError
from partibus.store.interface import Done, Store

_log: Final = logging.getLogger(__name__)

CHECKPOINT_BYTES_MIN: Final = 16 * 1024 * 1024
"""Log written between checkpoints. The log grows while a checkpoint is written, so recovery reads
at most twice this, 32 MiB."""
CHECKPOINT_BYTES_MAX: Final = 24 * 1024 * 1024
"""The same after a checkpoint that wrote more than that: many changes in the middle of a deep
backlog make it large."""
DEAD_BYTES_MIN: Final = 32 * 1024 * 1024
"""Dead space grows by this much, or by an eighth of what is live, before anything is done."""
DEAD_LIVE_SHARE: Final = 8
HURRIED_BYTES_MIN: Final = 1024 * 1024
"""On a disk that is almost full: log written, or dead space grown, before anything is done."""


class Upkeep:
    """Keeps the log of one store short and dense."""

    def __init__(self, store: Store, begin: Callable[[Done], None]) -> None:
        self._store = store
        self._begin = begin
        self._is_checkpointing = False
        self._dead_bytes_max = DEAD_BYTES_MIN
        self._is_compacting = False

    @property
    def is_compacting(self) -> bool:
        """Whether dead space is being freed."""
        return self._is_compacting

    def hurry(self) -> None:
        """The disk is almost full: free what can be freed, now."""
        self._dead_bytes_max = 0
        self.look()

    def look(self) -> None:
        """Records became durable: do what is due."""
        least = CHECKPOINT_BYTES_MIN if self._store.shortage is None else HURRIED_BYTES_MIN
        due_at = max(least, min(self._store.checkpoint_bytes, CHECKPOINT_BYTES_MAX))
        if self._store.bytes_since_checkpoint > due_at:
            self.checkpoint()
        elif self._store.dead_bytes > self._dead_bytes_max:
            self._compact()

    def checkpoint(self) -> None:
        """Write the states of all fragments, unless a checkpoint is in progress."""
        if self._is_checkpointing:
            return
        self._is_checkpointing = True
        self._begin(self._checkpointed)

    def _checkpointed(self, error: BusError | None) -> None:
        self._is_checkpointing = False
        if error is not None:
            _log.warning("a checkpoint failed and will be tried again: %s", error.text)
        else:
            self._compact()

    def _compact(self) -> None:
        """Free what is dead before the last checkpoint, step by step."""
        if self._is_compacting:
            return
        self._is_compacting = self._store.compact(self._compacted)
        if not self._is_compacting:
            self._took_stock()

    def _compacted(self, error: BusError | None) -> None:
        self._is_compacting = False
        if error is None:
            self._compact()
        else:
            _log.warning("dead space could not be reclaimed: %s", error.text)
            self._took_stock()

    def _took_stock(self) -> None:
        """Nothing more can be freed now; look again when as much again is dead."""
        store = self._store
        step = max(DEAD_BYTES_MIN, store.live_bytes // DEAD_LIVE_SHARE)
        if store.shortage is not None:
            step = HURRIED_BYTES_MIN
        self._dead_bytes_max = store.dead_bytes + step
