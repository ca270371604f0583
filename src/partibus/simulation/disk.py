"""A disk that guarantees only what real disks guarantee.

Owns the files of one store. What was written can be read back at once, and survives a power loss
only when a later sync has returned; of everything later any part may survive, some sectors of a
write and not others, names in order or out of order. A sync that fails drops the data, as file
systems do: the next one succeeds without reporting it. Faults are set by the run; each hits the
next suitable call.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from partibus.domain.errors import StoreUnavailable
from partibus.simulation.threads import Threads
from partibus.simulation.world import Crashed

SECTOR_BYTES = 512
"""What a disk writes completely or not at all."""
SYNC_US = 400
DISK_BYTES = 64 << 20
"""The size of the file system; the stores of a run are small."""

Change = tuple[int, bytes] | int
"""(offset, bytes) of a write, or the length that a file was cut or grown to."""


@dataclass(eq=False, slots=True)
class Content:
    """Bytes, and how far they were ever written; what follows up to `size` is zeros."""

    data: bytearray = field(default_factory=bytearray)
    size: int = 0
    written_end: int = 0

    def apply(self, change: Change) -> None:
        """Write or cut."""
        if isinstance(change, int):
            self.size = change
            self.written_end = min(self.written_end, change)
            del self.data[change:]
            return
        offset, data = change
        end = offset + len(data)
        if len(self.data) < offset:
            self.data.extend(bytes(offset - len(self.data)))
        self.data[offset:end] = data
        self.size = max(self.size, end)
        self.written_end = max(self.written_end, end)

    def copy(self) -> "Content":
        """The same, apart."""
        return Content(self.data[:], self.size, self.written_end)

    def read(self, length: int, offset: int) -> bytes:
        """What is there, zeros where nothing was written."""
        end = min(offset + length, self.size)
        found = bytes(self.data[offset:end])
        return found + bytes(max(0, end - offset - len(found)))


class SimulatedFile:
    """One file: as it is read, and as it is on disk for certain."""

    __slots__ = ("durable", "perhaps", "seen")

    def __init__(self, content: Content | None = None) -> None:
        self.seen = content or Content()
        self.durable = self.seen.copy()
        self.perhaps: list[Change] = []

    def change(self, change: Change) -> None:
        """Write or cut."""
        self.perhaps.append(change)
        self.seen.apply(change)

    def keep(self, count: int) -> None:
        """This many of the changes are durable now."""
        for change in self.perhaps[:count]:
            self.durable.apply(change)
        del self.perhaps[:count]

    def drop(self) -> None:
        """A sync failed: bytes that are not durable never will be, though they are still read.

        Lengths stay pending: they are in the journal of the file system, not in its pages.
        """
        self.perhaps = [change for change in self.perhaps if isinstance(change, int)]

    def lose(self, chance: Random) -> "SimulatedFile":
        """The file as a power loss leaves it."""
        left = self.durable.copy()
        share = chance.choice([0.0, 0.5, 1.0, chance.random()])
        tears = chance.random() < 0.5
        for change in self.perhaps:
            if tears and not isinstance(change, int):
                for sector in _sectors(change):
                    if chance.random() < share:
                        left.apply(sector)
            elif chance.random() < share:
                left.apply(change)
        return SimulatedFile(left)


def _sectors(change: tuple[int, bytes]) -> list[tuple[int, bytes]]:
    parts = []
    offset, data = change
    at, end = offset, offset + len(data)
    while at < end:
        until = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
        parts.append((at, data[at - offset : until - offset]))
        at = until
    return parts


@dataclass(slots=True)
class Faults:
    """What is wrong with a disk; by default nothing."""

    sync_errors: int = 0
    """How many syncs fail from now on."""
    write_errors: int = 0
    read_errors: int = 0
    flips: int = 0
    """How many reads find one flipped bit."""
    sync_us: int = SYNC_US
    is_full: bool = False
    crash_in: int | None = None
    """The process dies at this call from now on."""
    dies_in_sync: bool = False
    """The process dies within its next sync, and the syncs of its next start fail."""
    is_never_cached: bool = False
    """Reads have to wait for the disk."""


class SimulatedDisk:
    """Keeps the `Disk` contract in memory."""

    def __init__(self, name: str, threads: Threads, chance: Random) -> None:
        self.name = name
        self.faults = Faults()
        self.is_dead = False
        """The process that used it has died: its further calls have no effect."""
        self.is_locked = False
        self.has_flipped = False
        """A read of the current process found a flipped bit: its message is set aside."""
        self.on_fault: Callable[[str], None] = _unheard
        self._threads = threads
        self._chance = chance
        self._names: dict[str, SimulatedFile] = {}
        self._certain_names: dict[str, SimulatedFile] = {}
        self._name_changes: list[tuple[str, SimulatedFile | None]] = []
        self._open: dict[int, SimulatedFile] = {}
        self._next_fd = 100

    # --- what happens to it -------------------------------------------------------------------

    def power_loss(self) -> None:
        """Keep what was synced, and a random part of the rest."""
        chance = self._chance
        names = dict(self._certain_names)
        in_order, share, is_cut = chance.random() < 0.5, chance.random(), False
        for name, file in self._name_changes:
            is_cut = is_cut or (in_order and chance.random() < 0.3)
            if is_cut or (not in_order and chance.random() > share):
                continue
            _rename(names, name, file)
        lost: dict[int, SimulatedFile] = {}
        left: dict[str, SimulatedFile] = {}
        for name, file in names.items():
            if id(file) not in lost:
                lost[id(file)] = file.lose(chance)
            left[name] = lost[id(file)]
        self._names, self._certain_names = left, dict(left)
        self._name_changes.clear()

    def restart(self) -> None:
        """A new process has the disk."""
        self._open.clear()
        self.is_dead = False
        self.is_locked = False
        self.has_flipped = False
        self.faults.crash_in = None
        self.faults.dies_in_sync = False
        self.faults.flips = 0

    def flip(self, chance: Random) -> str | None:
        """Flip one bit of a segment permanently; returns where, or None when there is nothing."""
        found = [
            (n, f) for n, f in sorted(self._names.items()) if n.endswith(".seg") and f.seen.data
        ]
        if not found:
            return None
        name, file = chance.choice(found)
        at = chance.randrange(len(file.seen.data))
        flipped = bytes([file.seen.data[at] ^ 1 << chance.randrange(8)])
        file.seen.apply((at, flipped))
        file.durable.apply((at, flipped))
        return f"{name} offset {at}"

    def save(self) -> dict[str, SimulatedFile]:
        """A copy of all files, as an operator might keep one."""
        return {name: SimulatedFile(file.seen.copy()) for name, file in self._names.items()}

    def put_back(self, saved: dict[str, SimulatedFile]) -> None:
        """Restore the files as they were saved."""
        self._names, self._certain_names = dict(saved), dict(saved)
        self._name_changes.clear()

    @property
    def used_bytes(self) -> int:
        """The bytes of the files."""
        return sum(file.seen.size for file in self._names.values())

    # --- the contract ------------------------------------------------------------------------

    def _call(self) -> None:
        if self.is_dead:
            raise Crashed
        faults = self.faults
        if faults.crash_in is not None:
            faults.crash_in -= 1
            if faults.crash_in <= 0:
                self.is_dead = True
                raise Crashed

    def _fail(self, number: int, what: str) -> OSError:
        self.on_fault(f"{what} fails: {errno.errorcode[number]}")
        return OSError(number, os.strerror(number))

    def _write_call(self) -> None:
        self._call()
        if self.faults.write_errors > 0:
            self.faults.write_errors -= 1
            raise self._fail(errno.EIO, "a write")

    def lock(self, directory: Path) -> "SimulatedDirectoryLock":
        self._call()
        if self.is_locked:
            raise StoreUnavailable(f"The store directory {directory} is in use.")
        self.is_locked = True
        return SimulatedDirectoryLock(self)

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        self._write_call() if create else self._call()
        if create:
            self._rename(path.name, SimulatedFile())
        elif path.name not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        self._next_fd += 1
        self._open[self._next_fd] = self._names[path.name]
        return self._next_fd

    def close(self, fd: int) -> None:
        if not self.is_dead:
            del self._open[fd]

    def read(self, fd: int, length: int, offset: int) -> bytes:
        self._read_call()
        return self._found(fd, length, offset)

    def _found(self, fd: int, length: int, offset: int) -> bytes:
        found = self._open[fd].seen.read(length, offset)
        if self.faults.flips and found:
            self.faults.flips -= 1
            self.has_flipped = True
            at, bit = self._chance.randrange(len(found)), 1 << self._chance.randrange(8)
            self.on_fault(f"a read finds bit {bit} of byte {offset + at} flipped")
            return found[:at] + bytes([found[at] ^ bit]) + found[at + 1 :]
        return found

    def _read_call(self) -> None:
        self._call()
        if self.faults.read_errors > 0:
            self.faults.read_errors -= 1
            raise self._fail(errno.EIO, "a read")

    def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
        self._read_call()
        if flags and self.faults.is_never_cached and self._chance.random() < 0.5:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        found = self._found(fd, len(buffer), offset)
        buffer[: len(found)] = found
        return len(found)

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        self._write_call()
        data = b"".join(parts)
        file = self._open[fd]
        if self.faults.is_full and offset + len(data) > file.seen.size:
            raise self._fail(errno.ENOSPC, "a write")
        file.change((offset, data))
        return len(data)

    def sync(self, fd: int) -> None:
        self._call()
        file = self._open[fd]
        count = len(file.perhaps)
        self._threads.sleep_us(1 + int(self._chance.random() * 2 * self.faults.sync_us))
        self._call()
        if self.faults.dies_in_sync:
            self.is_dead = True
            raise Crashed
        if self.faults.sync_errors > 0:
            self.faults.sync_errors -= 1
            file.drop()
            raise self._fail(errno.EIO, "a sync")
        file.keep(min(count, len(file.perhaps)))

    def allocate(self, fd: int, length: int) -> None:
        self._write_call()
        file = self._open[fd]
        if length > file.seen.size:
            if self.faults.is_full or self.used_bytes + length - file.seen.size > DISK_BYTES:
                raise self._fail(errno.ENOSPC, "an allocation")
            file.change(length)

    def truncate(self, fd: int, length: int) -> None:
        self._write_call()
        self._open[fd].change(length)

    def size(self, fd: int) -> int:
        self._call()
        return self._open[fd].seen.size

    def length(self, path: Path) -> int:
        self._call()
        return self._names[path.name].seen.size

    def map(self, fd: int, length: int) -> "SimulatedMap":
        return SimulatedMap(self, self._open[fd])

    def written_end(self, fd: int) -> int:
        return self._open[fd].seen.written_end

    def names(self, directory: Path) -> list[str]:
        self._call()
        return list(self._names)

    def replace(self, source: Path, target: Path) -> None:
        self._write_call()
        file = self._names[source.name]
        self._rename(target.name, file)

    def remove(self, path: Path) -> None:
        self._call()
        if path.name in self._names:
            self._rename(path.name, None)

    def _rename(self, name: str, file: SimulatedFile | None) -> None:
        _rename(self._names, name, file)
        self._name_changes.append((name, file))

    def sync_directory(self, directory: Path) -> None:
        self._call()
        count = len(self._name_changes)
        self._threads.sleep_us(1 + int(self._chance.random() * 2 * self.faults.sync_us))
        self._call()
        if self.faults.sync_errors > 0:  # names are in a journal: the next sync may keep them
            self.faults.sync_errors -= 1
            raise self._fail(errno.EIO, "a sync of the directory")
        for name, file in self._name_changes[:count]:
            _rename(self._certain_names, name, file)
        del self._name_changes[:count]

    def room(self, directory: Path) -> tuple[int, int]:
        self._call()
        free = 0 if self.faults.is_full else max(0, DISK_BYTES - self.used_bytes)
        return free, DISK_BYTES


class SimulatedDirectoryLock:
    """Held by the process that opened the store."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk

    def release(self) -> None:
        self._disk.is_locked = False


class SimulatedMap:
    """A mapped file: the kernel writes it out at any time, and when it is synced."""

    def __init__(self, disk: SimulatedDisk, file: SimulatedFile) -> None:
        self._disk = disk
        self._file = file

    def __setitem__(self, where: slice, data: bytes) -> None:
        if self._disk.is_dead:
            raise Crashed
        self._file.change((where.start, bytes(data)))

    def close(self) -> None:
        """Nothing is lost."""


def _rename(names: dict[str, SimulatedFile], name: str, file: SimulatedFile | None) -> None:
    """A file gets another name, or loses its name."""
    if file is None:
        names.pop(name, None)
        return
    for old in [n for n, f in names.items() if f is file]:
        del names[old]
    names[name] = file


def _unheard(what: str) -> None:
    """Ignores the call."""
