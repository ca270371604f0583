"""Upkeep of a broker's log: when it is checkpointed, and when its dead space is given back.

Owns the thresholds and the order of things: what is dead before the last checkpoint goes first;
when that is not enough, a checkpoint makes more of the log superfluous. Reads no state and no
file itself: the broker hands out snapshots, the store does the work. Called by the broker.
"""

import logging
from collections.abc import Callable
from typing import Final

from partibus.domain.errors import BusError
from partibus.store.interface import Store

_log: Final = logging.getLogger(__name__)

CHECKPOINT_BYTES_MIN: Final = 32 * 1024 * 1024
"""Log written before a checkpoint: recovery reads at most about this much."""
CHECKPOINT_STATE_FACTOR: Final = 4
"""A checkpoint waits for this many times its own last size, so that with a deep backlog the
snapshots stay a fraction of what is written anyway."""
CHECKPOINT_LIVE_SHARE: Final = 4
"""Yet for no more than this part of what is live: many small messages must not let the log grow
to a multiple of them."""
DEAD_BYTES_MIN: Final = 32 * 1024 * 1024
"""Dead space grows by this much, or by an eighth of what is live, before anything is done."""
DEAD_LIVE_SHARE: Final = 8
HURRIED_BYTES_MIN: Final = 1024 * 1024
"""On a disk that is almost full: log written, or space grown dead, before anything is done."""


class Upkeep:
    """Keeps the log of one store short and dense."""

    def __init__(self, store: Store, states: Callable[[], dict[int, bytes]]) -> None:
        self._store = store
        self._states = states
        self._checkpoint_is_due_at = CHECKPOINT_BYTES_MIN
        self._is_checkpointing = False
        self._last_size = 0
        self._dead_bytes_max = DEAD_BYTES_MIN
        self._is_compacting = False

    def hurry(self) -> None:
        """The disk is almost full: give back what can be given, now."""
        self._dead_bytes_max = 0
        self.look()

    def look(self) -> None:
        """Something became durable: do what is due."""
        due_at = self._checkpoint_is_due_at
        if self._store.shortage is not None:
            due_at = min(due_at, max(HURRIED_BYTES_MIN, self._last_size))
        if self._store.bytes_since_checkpoint > due_at:
            self.checkpoint()
        elif self._store.dead_bytes > self._dead_bytes_max:
            self._compact()

    def checkpoint(self) -> None:
        """Write the states of all fragments, unless that is under way."""
        if self._is_checkpointing:
            return
        self._is_checkpointing = True
        states = self._states()
        size = sum(len(state) for state in states.values())
        self._last_size = size
        wanted = CHECKPOINT_STATE_FACTOR * size
        allowed = max(size, self._store.live_bytes // CHECKPOINT_LIVE_SHARE)
        self._checkpoint_is_due_at = max(CHECKPOINT_BYTES_MIN, min(wanted, allowed))
        self._store.checkpoint(states, self._checkpointed)

    def _checkpointed(self, error: BusError | None) -> None:
        self._is_checkpointing = False
        if error is not None:
            _log.warning("a checkpoint failed and will be tried again: %s", error.text)
        else:
            self._compact()

    def _compact(self) -> None:
        """Give back what is dead before the last checkpoint, one step after the other."""
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
            _log.warning("dead space could not be given back: %s", error.text)
            self._took_stock()

    def _took_stock(self) -> None:
        """Nothing more can be given back now; the next look is when as much again is dead."""
        store = self._store
        step = max(DEAD_BYTES_MIN, store.live_bytes // DEAD_LIVE_SHARE)
        if store.shortage is not None:
            step = HURRIED_BYTES_MIN
        self._dead_bytes_max = store.dead_bytes + step
