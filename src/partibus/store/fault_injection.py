"""Stores that misbehave on demand.

Owns the faults an operator or a test can request: failing writes, syncs or reads, a full disk,
slowness. `FaultyDisk` wraps a real disk; without a fault it only passes calls on, and it may be set
from any thread. `DiskFaults`, `LaneFaults` and `MemoryFaults` set the faults of one store as an
operator requests them. Made by the node, only when the server runs with faults.
"""

import errno
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from partibus.domain.errors import BusError, InvalidOperation, StoreUnavailable
from partibus.store.files.disk import Disk
from partibus.store.interface import Notify, Store, StoreState
from partibus.store.memory import MemoryStore


class FaultyDisk:
    """Passes calls to `disk`, unless a fault says otherwise."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._waiting = threading.Event()
        self.write_errno = 0
        self.sync_errno = 0
        self.read_errno = 0
        self.space_bytes: int | None = None  # what may still be written or reserved
        self.room: Callable[[Path], tuple[int, int]] = disk.room
        self.lock, self.close, self.map = disk.lock, disk.close, disk.map
        self.size, self.length, self.written_end = disk.size, disk.length, disk.written_end
        self.delay_s = 0.0  # before every write and sync
        self.sync_delay_s = 0.0  # before every sync, of which a commit has one

    def heal(self) -> None:
        """End all faults."""
        self.write_errno = self.sync_errno = self.read_errno = 0
        self.space_bytes = None
        self.delay_s = 0.0
        self.sync_delay_s = 0.0

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        if create:
            self._fail(self.write_errno)
        return self._disk.open(path, writable=writable, create=create)

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
        if self.sync_delay_s:
            self._waiting.wait(self.sync_delay_s)
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


class StoreFaults(Protocol):
    """The faults of one store, as an operator requests them."""

    def fail(self) -> None:
        """Fail every write, as a broken disk does."""
        ...

    def fill(self) -> None:
        """Fail every write, as a full disk does."""
        ...

    def delay(self, commit_delay_ms: int) -> None:
        """Delay every commit by this much; 0 ends the fault."""
        ...

    def heal(self) -> None:
        """Let writes succeed again; the store comes up when it notices."""
        ...


class DiskFaults:
    """Faults of a store on a disk."""

    def __init__(self, store: Store, disk: FaultyDisk) -> None:
        self._store = store
        self._disk = disk

    def fail(self) -> None:
        self._disk.write_errno = self._disk.sync_errno = errno.EIO
        _notice(self._store)

    def fill(self) -> None:
        self._disk.space_bytes = 0
        _notice(self._store)

    def delay(self, commit_delay_ms: int) -> None:
        self._disk.sync_delay_s = commit_delay_ms / 1000

    def heal(self) -> None:
        """The store's own probe notices that the disk works, within its interval."""
        self._disk.write_errno = self._disk.sync_errno = 0
        self._disk.space_bytes = None


class LaneFaults:
    """Faults of a lane in a database; each node of a cluster has those of all lanes, so that a lane
    that moves fails on its new node too. Called by the threads of the store."""

    def __init__(self) -> None:
        self._why = ""
        self._delay_s = 0.0
        self._waiting = threading.Event()
        self._store: Store | None = None

    def attach(self, store: Store) -> None:
        """The lane is being opened here, by this store."""
        self._store = store

    def fail(self) -> None:
        self._why = "it was made to fail on request"
        _notice(self._store)

    def fill(self) -> None:
        self._why = "it was made to have no room on request"
        _notice(self._store)

    def delay(self, commit_delay_ms: int) -> None:
        self._delay_s = commit_delay_ms / 1000

    def heal(self) -> None:
        """The store's own probe notices that the database works, within its interval."""
        self._why = ""

    def check(self) -> None:
        """Raises StoreUnavailable while writes must fail."""
        if self._why:
            raise StoreUnavailable(self._why)

    def before_commit(self) -> None:
        """Called before anything is appended."""
        if self._delay_s:
            self._waiting.wait(self._delay_s)
        self.check()


class MemoryFaults:
    """Faults of a store in memory, which is made with `notify` of this object."""

    def __init__(self, notify: Notify, later: Callable[[int, Callable[[], None]], object]) -> None:
        self._notify = notify
        self._later = later
        self._delay_ms = 0
        self._store: MemoryStore | None = None

    def attach(self, store: MemoryStore) -> None:
        """Set the store that these faults are for."""
        self._store = store

    def notify(self, callback: Callable[[], None]) -> None:
        """The store's `notify`, with the delay added."""
        if self._delay_ms:
            self._later(self._delay_ms, callback)
        else:
            self._notify(callback)

    def fail(self) -> None:
        assert self._store is not None
        if self._store.state is not StoreState.DOWN:
            self._store.fail()

    def fill(self) -> None:
        """To senders, memory that is used up looks like a store that is down."""
        self.fail()

    def delay(self, commit_delay_ms: int) -> None:
        self._delay_ms = commit_delay_ms

    def heal(self) -> None:
        assert self._store is not None
        if self._store.state is StoreState.DOWN:
            self._store.heal()


def _notice(store: Store | None) -> None:
    """Append an empty entry: a store without traffic would not notice that it is down. One that is
    just being opened notices by itself."""
    if store is not None and store.state is not StoreState.DOWN:
        with suppress(InvalidOperation):
            store.append([], _ignore)


def _ignore(error: BusError | None) -> None:
    """Ignore the outcome of an entry that was only a probe."""
