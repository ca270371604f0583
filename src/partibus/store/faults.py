"""A disk that misbehaves on demand.

Owns the faults an operator or a test can ask for: failing writes, syncs or reads, a full
disk, slowness. Stands between the store and a real disk; without a fault set it only
passes calls on. The knobs may be turned from any thread.
"""

import errno
import os
import threading
from pathlib import Path

from partibus.store.disk import Disk


class FaultyDisk:
    """Passes calls to `disk`, unless a fault says otherwise."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._waiting = threading.Event()
        self.write_errno = 0
        self.sync_errno = 0
        self.read_errno = 0
        self.space_bytes: int | None = None  # what may still be written or reserved
        self.delay_s = 0.0  # before every write and sync

    def heal(self) -> None:
        """Behave again."""
        self.write_errno = self.sync_errno = self.read_errno = 0
        self.space_bytes = None
        self.delay_s = 0.0

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        if create:
            self._fail(self.write_errno)
        return self._disk.open(path, writable=writable, create=create)

    def close(self, fd: int) -> None:
        self._disk.close(fd)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        self._fail(self.read_errno)
        return self._disk.read(fd, length, offset)

    def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
        self._fail(self.read_errno)
        return self._disk.read_into(fd, buffer, offset, flags)

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        self._delay()
        self._fail(self.write_errno)
        if self.space_bytes is None:
            return self._disk.write(fd, parts, offset)
        data = b"".join(parts)[: self.space_bytes]
        if not data:
            self._fail(errno.ENOSPC)
        self.space_bytes -= len(data)
        return self._disk.write(fd, [data], offset)

    def sync(self, fd: int) -> None:
        self._delay()
        self._fail(self.sync_errno)
        self._disk.sync(fd)

    def allocate(self, fd: int, length: int) -> None:
        self._fail(self.write_errno)
        if self.space_bytes is not None and length - self._disk.size(fd) > self.space_bytes:
            self._fail(errno.ENOSPC)
        self._disk.allocate(fd, length)

    def truncate(self, fd: int, length: int) -> None:
        self._fail(self.write_errno)
        self._disk.truncate(fd, length)

    def size(self, fd: int) -> int:
        return self._disk.size(fd)

    def written_end(self, fd: int) -> int:
        return self._disk.written_end(fd)

    def names(self, directory: Path) -> list[str]:
        self._fail(self.read_errno)
        return self._disk.names(directory)

    def replace(self, source: Path, target: Path) -> None:
        self._fail(self.write_errno)
        self._disk.replace(source, target)

    def remove(self, path: Path) -> None:
        self._fail(self.write_errno)
        self._disk.remove(path)

    def sync_directory(self, directory: Path) -> None:
        self._fail(self.sync_errno)
        self._disk.sync_directory(directory)

    def _delay(self) -> None:
        if self.delay_s:
            self._waiting.wait(self.delay_s)

    @staticmethod
    def _fail(number: int) -> None:
        if number:
            raise OSError(number, os.strerror(number))
