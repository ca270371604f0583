"""Files that stay as long as somebody copies them.

Owns the removals that wait while the store is pinned. What waits is needed by nobody but the
copier: after a crash the next start meets it again and removes it. Called by the threads that
delete files, and by the store.
"""

import threading
from pathlib import Path

from partibus.store.disk import Disk


class Pins:
    """Removes files at once, or when the last pin is gone."""

    __slots__ = ("_count", "_disk", "_lock", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: list[Path] = []

    def remove(self, path: Path) -> None:
        """Delete a file, now or later."""
        with self._lock:
            if self._count:
                self._waiting.append(path)
                return
        self._disk.remove(path)

    def pin(self) -> None:
        """Delete nothing from now on."""
        with self._lock:
            self._count += 1

    def unpin(self) -> None:
        """One copier is done; with the last one, what waited is deleted."""
        with self._lock:
            assert self._count, "unpinned more often than pinned"
            self._count -= 1
            if self._count:
                return
            waiting, self._waiting = self._waiting, []
        for path in waiting:
            self._disk.remove(path)
