"""The interface between the store and the operating system's files.

Owns the few file operations that a store needs, so that a test, or an operator who injects faults,
can replace them by a failing disk (`fault_injection.FaultyDisk`). Must never translate errors: an
OSError passes through. Called by every module that touches a file.
"""

import errno
import mmap
import os
from pathlib import Path
from typing import Final, Protocol

from partibus.files.private import FILE_MODE, close_to_others, make_private_directory
from partibus.store.files.lock import DirectoryLock

# Read only what is already in memory; platforms without the flag read and may block.
READ_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)


class LockedDirectory(Protocol):
    """An exclusive lock on a directory, held until it is released."""

    def release(self) -> None:
        """Release the directory."""
        ...


class Mapped(Protocol):
    """A file mapped into memory: writes are in the file at once, and durable after a sync."""

    def __setitem__(self, where: slice, data: bytes, /) -> None: ...

    def close(self) -> None:
        """Unmap it."""
        ...


class Disk(Protocol):
    """What a store asks of a file system; every call may raise OSError."""

    def lock(self, directory: Path) -> LockedDirectory:
        """Create the directory if necessary, private, and lock it."""
        ...

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        """A descriptor; with `create` the file must be new or is truncated."""
        ...

    def close(self, fd: int) -> None:
        """Close the descriptor."""
        ...

    def read(self, fd: int, length: int, offset: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
        """Fill the buffer as far as one call does; with READ_NOWAIT only from the page cache."""
        ...

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        """Write the parts one after the other; returns how many bytes were written."""
        ...

    def sync(self, fd: int) -> None:
        """Return when everything written is durable."""
        ...

    def allocate(self, fd: int, length: int) -> None:
        """Reserve space up to `length` bytes; what was not written reads as zeros."""
        ...

    def truncate(self, fd: int, length: int) -> None:
        """Drop everything from `length` on."""
        ...

    def size(self, fd: int) -> int:
        """The length of the file."""
        ...

    def length(self, path: Path) -> int:
        """The length of the file of that name."""
        ...

    def map(self, fd: int, length: int) -> Mapped:
        """The first bytes of a file that is open for writing, mapped into memory."""
        ...

    def written_end(self, fd: int) -> int:
        """The offset after the last byte that was ever written; what follows reads as zeros."""
        ...

    def names(self, directory: Path) -> list[str]:
        """The names in a directory."""
        ...

    def replace(self, source: Path, target: Path) -> None:
        """Rename, replacing an existing file."""
        ...

    def remove(self, path: Path) -> None:
        """Delete a file; not an error when it does not exist."""
        ...

    def sync_directory(self, directory: Path) -> None:
        """Return when the names in a directory are durable."""
        ...

    def room(self, directory: Path) -> tuple[int, int]:
        """The free bytes of a directory's file system, and its size."""
        ...


class OsDisk:
    """The operating system's file system."""

    __slots__ = ()

    def lock(self, directory: Path) -> LockedDirectory:
        make_private_directory(directory)
        lock = DirectoryLock(directory)
        close_to_others(directory)
        return lock

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        """Open without following a link: a store's files are its own."""
        flags = os.O_RDWR if writable else os.O_RDONLY
        if create:
            flags |= os.O_CREAT | os.O_TRUNC
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        if create:
            os.fchmod(fd, FILE_MODE)  # whatever the umask
        return fd

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, length: int, offset: int) -> bytes:
        data = os.pread(fd, length, offset)
        if len(data) == length or not data:
            return data
        pieces = [data]
        read = len(data)
        while read < length and (data := os.pread(fd, length - read, offset + read)):
            pieces.append(data)
            read += len(data)
        return b"".join(pieces)

    def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
        return os.preadv(fd, [buffer], offset, flags)

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        return os.pwritev(fd, parts, offset)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def allocate(self, fd: int, length: int) -> None:
        os.posix_fallocate(fd, 0, length)

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def length(self, path: Path) -> int:
        return path.stat().st_size

    def map(self, fd: int, length: int) -> Mapped:
        return mmap.mmap(fd, length)

    def written_end(self, fd: int) -> int:
        """Use the file's extents; where the file system has none, all of it counts as data."""
        end = 0
        try:
            while True:
                end = os.lseek(fd, os.lseek(fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            return end if error.errno == errno.ENXIO else os.fstat(fd).st_size

    def names(self, directory: Path) -> list[str]:
        return [path.name for path in directory.iterdir()]

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_directory(self, directory: Path) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def room(self, directory: Path) -> tuple[int, int]:
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
