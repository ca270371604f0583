"""A disk on which files stay while a copy of them is made.

Owns the removals that wait while the store is pinned; all else goes to the disk as it is. What
waits is needed by nobody but the copier: after a crash the next start meets it again and removes
it. Given to the parts of a store that delete files, which need not know of it.
"""

import threading
from pathlib import Path

from partibus.store.disk import Claim, Disk, Mapped


class PinnedDisk:
    """Removes files at once, or when the last pin is gone."""

    __slots__ = ("_count", "_disk", "_lock", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = threading.Lock()
        self._count = 0
        self._waiting: list[Path] = []

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

    def remove(self, path: Path) -> None:
        """Delete a file, now or later; what never got its name is in no copy."""
        with self._lock:
            if self._count and not path.name.endswith(".tmp"):
                self._waiting.append(path)
                return
        self._disk.remove(path)

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        return self._disk.open(path, writable=writable, create=create)

    def close(self, fd: int) -> None:
        self._disk.close(fd)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        return self._disk.read(fd, length, offset)

    def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
        return self._disk.read_into(fd, buffer, offset, flags)

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        return self._disk.write(fd, parts, offset)

    def sync(self, fd: int) -> None:
        self._disk.sync(fd)

    def allocate(self, fd: int, length: int) -> None:
        self._disk.allocate(fd, length)

    def truncate(self, fd: int, length: int) -> None:
        self._disk.truncate(fd, length)

    def size(self, fd: int) -> int:
        return self._disk.size(fd)

    def claim(self, directory: Path) -> Claim:
        return self._disk.claim(directory)

    def length(self, path: Path) -> int:
        return self._disk.length(path)

    def map(self, fd: int, length: int) -> Mapped:
        return self._disk.map(fd, length)

    def written_end(self, fd: int) -> int:
        return self._disk.written_end(fd)

    def names(self, directory: Path) -> list[str]:
        return self._disk.names(directory)

    def replace(self, source: Path, target: Path) -> None:
        self._disk.replace(source, target)

    def sync_directory(self, directory: Path) -> None:
        self._disk.sync_directory(directory)

    def room(self, directory: Path) -> tuple[int, int]:
        return self._disk.room(directory)
