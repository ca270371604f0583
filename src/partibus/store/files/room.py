"""Disk space: when there is too little left to accept messages, and what is reserved.

Owns the threshold below which a store is short of space, and a reserve that it takes while it is
short: a file whose blocks are freed when a settlement or a checkpoint finds the disk full. Checked
by the commit thread; the checkpoint thread may free the reserve too.
"""

import errno
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from partibus.store.files.disk import Disk

RESERVE_NAME: Final = "reserve"
RESERVE_BYTES_MAX: Final = 32 << 20
FREE_SHARE: Final = 0.05
FREE_BYTES_MIN: Final = 64 << 20

# The file system is checked at most this often; by an idle store every two seconds, and twice a
# second while it is short.
LOOK_INTERVAL_S: Final = 0.25

# It is also checked after this much was written: a fast disk fills up within the interval.
LOOK_BYTES: Final = 8 << 20

# A store that was short accepts messages again when there is a tenth more than the minimum.
RECOVERED_FACTOR: Final = 1.1

_log: Final = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class FreeMin:
    """How much of a file system must stay free: a share of it, and at least a number of bytes."""

    share: float = FREE_SHARE
    least_bytes: int = FREE_BYTES_MIN

    def of(self, total_bytes: int) -> int:
        """In bytes, for a file system of this size."""
        return max(self.least_bytes, int(self.share * total_bytes))

    def __str__(self) -> str:
        """As the setting is written; the default has both parts."""
        megabytes, rest = divmod(self.least_bytes, 1 << 20)
        size = f"{megabytes}M" if megabytes and not rest else str(self.least_bytes)
        if not self.share:
            return size
        share = f"{100 * self.share:g}%"
        return f"{share}, at least {size}" if self.least_bytes else share


FREE_MIN: Final = FreeMin()


class Room:
    """The free space of one store's file system."""

    def __init__(self, disk: Disk, directory: Path, free_min: FreeMin) -> None:
        self._disk = disk
        self._directory = directory
        self._free_min = free_min
        self._looked_at_s = 0.0
        self._looked_at_position = 0
        self.reserve_bytes = 0
        self.is_short = False
        self.free_bytes = 0
        self.needed_bytes = 0

    def look(self, now_s: float, position: int) -> bool:
        """Check the file system, unless it was just checked; returns whether `is_short` changed.

        `position` is the end of the log: what was written since decides when to check again.
        """
        if (
            now_s - self._looked_at_s < LOOK_INTERVAL_S
            and position - self._looked_at_position < LOOK_BYTES
        ):
            return False
        self._looked_at_s = now_s
        self._looked_at_position = position
        try:
            self.free_bytes, total_bytes = self._disk.room(self._directory)
        except OSError as error:
            _log.info("%s: the free space on the disk is not known: %r", self._directory, error)
            return False
        self.needed_bytes = self._free_min.of(total_bytes)
        was_short = self.is_short
        needed = self.needed_bytes * (RECOVERED_FACTOR if was_short else 1.0)
        # The reserve is ours: it must not itself make the store short.
        free = self.free_bytes + self.reserve_bytes
        self.is_short = free < needed
        if self.is_short and not was_short:
            self._take_reserve()
        elif was_short and not self.is_short:
            self.give_up()
        return self.is_short is not was_short

    def describe(self) -> str:
        """Why no messages are accepted, for clients and operators; contains no path."""
        free, needed = self.free_bytes >> 20, self.needed_bytes >> 20
        return (
            f"The disk of the store is almost full: {free} MiB are free, and {needed} MiB are kept "
            "for receiving and settling. No messages are accepted until there is room: receive or "
            "purge messages, or free space on the disk, then send again."
        )

    def give_up(self) -> bool:
        """Free the blocks of the reserve; False when there is none."""
        if not self.reserve_bytes:
            return False
        self.reserve_bytes = 0
        self._disk.remove(self._directory / RESERVE_NAME)
        return True

    def _take_reserve(self) -> None:
        """Reserve half of the free space, before others use it."""
        size = min(RESERVE_BYTES_MAX, self.free_bytes // 2)
        try:
            fd = self._disk.open(self._directory / RESERVE_NAME, writable=True, create=True)
            try:
                self._disk.allocate(fd, size)
            finally:
                self._disk.close(fd)
            self.reserve_bytes = size
        except OSError as error:
            _log.info("%s: no disk space could be reserved: %r", self._directory, error)
            self._disk.remove(self._directory / RESERVE_NAME)


def is_full(error: Exception) -> bool:
    """Whether an error means that the disk is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
