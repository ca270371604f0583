"""A disk that keeps files while a copy of them is made.

Owns the removals that wait while the store is pinned; everything else goes directly to the disk.
Only the copier needs those files: after a crash the next start finds and removes them. Given to the
parts of a store that delete files, which need not know of it.
"""

import threading
from pathlib import Path

from partibus.store.files.disk import Disk


class PinnedDisk:
    """Removes files at once, or when the last pin is gone."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.lock, self.open, self.close = disk.lock, disk.open, disk.close
        self.read, self.read_into, self.map = disk.read, disk.read_into, disk.map
        self.write, self.allocate, self.truncate = disk.write, disk.allocate, disk.truncate
        self.sync, self.sync_directory = disk.sync, disk.sync_directory
        self.size, self.length, self.written_end = disk.size, disk.length, disk.written_end
        self.names, self.replace = disk.names, disk.replace
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: list[Path] = []

    def pin(self) -> None:
        """Delete nothing from now on."""
        with self._lock:
            self._count += 1

    def unpin(self) -> None:
        """One copier is done; with the last one, delayed removals are carried out."""
        with self._lock:
            assert self._count, "unpinned more often than pinned"
            self._count -= 1
            if self._count:
                return
            waiting, self._waiting = self._waiting, []
        for path in waiting:
            self._disk.remove(path)

    def remove(self, path: Path) -> None:
        """Delete a file, now or later; files without their final name are in no copy."""
        with self._lock:
            if self._count and not path.name.endswith(".tmp"):
                self._waiting.append(path)
                return
        self._disk.remove(path)

    def room(self, directory: Path) -> tuple[int, int]:
        return self._disk.room(directory)
