"""Pages: the bulk of the states in a checkpoint, in files that several checkpoints share.

Owns the page files: their layout, the place of every page that the latest checkpoint refers to, and
the choice of files whose few live pages are moved, so that the files can be deleted. A page is
written once and never changed. Must never look into a page. Used by the housekeeping thread, and by
recovery to read.
"""

import contextlib
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from partibus.domain.errors import StoreCorrupt
from partibus.store.files.disk import Disk
from partibus.store.files.segment import write_all
from partibus.store.record import crc32c

PAGES_MAGIC: Final = b"PARTIPGS"
PAGES_VERSION: Final = 1
PAGES_SUFFIX: Final = ".pages"

# Written and synced at once: the log's own syncs wait for at most this much.
STEP_BYTES: Final = 4 << 20

# Page files take at most twice their live bytes, and this much more, ...
SPARE_BYTES: Final = 8 << 20
# ... and are at most this many: then the smaller half are merged into one.
FILES_MAX: Final = 32

_HEADER: Final = struct.Struct("<8sHHIQ16sI")
_CHECKED: Final = struct.Struct("<8sHHIQ16s")

PageSource: TypeAlias = Callable[[], list[bytes]]
"""Returns the bytes of a page, on any thread, at any later time."""


class Place(NamedTuple):
    """Where a page is."""

    file: int
    offset: int
    length: int
    crc: int


def pages_path(directory: Path, file: int) -> Path:
    """The page file of a number."""
    return directory / f"{file:016x}{PAGES_SUFFIX}"


def page_files(names: Iterable[str]) -> list[int]:
    """The numbers of the page files among the names of a directory; other names are ignored."""
    found: list[int] = []
    for name in names:
        stem = name.removesuffix(PAGES_SUFFIX)
        if stem != name and len(stem) == 16:
            with contextlib.suppress(ValueError):
                found.append(int(stem, 16))
    return sorted(found)


@dataclass(eq=False)
class PageReader:
    """Reads the pages that a checkpoint names; `last` is the highest of their numbers."""

    disk: Disk
    directory: Path
    places: dict[int, Place]
    store_id: bytes

    def __post_init__(self) -> None:
        self._file = -1
        self._fd = -1
        self.last = max(self.places, default=0)

    def read(self, number: int) -> bytes:
        """A page; StoreCorrupt when it is not as it was written."""
        place = self.places.get(number)
        if place is None:
            raise StoreCorrupt.at(self.directory, None, f"a checkpoint lacks the page {number}.")
        if place.file != self._file:
            self._turn_to(place.file)
        data = self.disk.read(self._fd, place.length, place.offset)
        if len(data) != place.length or crc32c(data) != place.crc:
            path = pages_path(self.directory, place.file)
            raise StoreCorrupt.at(
                path,
                place.offset,
                "a page of a checkpoint fails its checksum. "
                "Restore the file from a copy; nothing was changed.",
            )
        return data

    def close(self) -> None:
        """Close the file that was read last."""
        if self._fd >= 0:
            self.disk.close(self._fd)
        self._file = self._fd = -1

    def _turn_to(self, file: int) -> None:
        self.close()
        path = pages_path(self.directory, file)
        try:
            fd = self.disk.open(path, writable=False)
        except FileNotFoundError as error:
            raise StoreCorrupt.at(
                path,
                0,
                "the file is missing, and the checkpoint names pages in it. "
                "Restore it from a copy; nothing was changed.",
            ) from error
        try:
            _check_header(path, self.disk.read(fd, _HEADER.size, 0), file, self.store_id)
        except BaseException:
            self.disk.close(fd)
            raise
        self._file, self._fd = file, fd


def _pack_header(file: int, store_id: bytes) -> bytes:
    head = _CHECKED.pack(PAGES_MAGIC, PAGES_VERSION, 0, _HEADER.size, file, store_id)
    return head + struct.pack("<I", crc32c(head))


def _check_header(path: Path, header: bytes, file: int, store_id: bytes) -> None:
    if len(header) < _HEADER.size or not header.startswith(PAGES_MAGIC):
        raise StoreCorrupt.at(path, 0, "not a Partibus page file.")
    _, version, _, _, found, owner, crc = _HEADER.unpack(header)
    if version != PAGES_VERSION:
        raise StoreCorrupt.at(
            path, 8, f"page format {version}; this release reads {PAGES_VERSION}."
        )
    if crc32c(header[: _CHECKED.size]) != crc:
        raise StoreCorrupt.at(path, 0, "the header fails its checksum.")
    if found != file or owner != store_id:
        raise StoreCorrupt.at(path, 16, "the file was renamed, or belongs to another store.")


class PageIndex:
    """The pages of the latest durable checkpoint, and their files."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._next_file = 1
        self.places: dict[int, Place] = {}
        self.sizes: dict[int, int] = {}
        """Bytes of each file with a live page."""
        self._aside: list[int] = []
        """Files of checkpoints that may have got their name, without an answer."""

    @property
    def file_bytes(self) -> int:
        """The bytes of all page files."""
        return sum(self.sizes.values())

    def adopt(self, places: dict[int, Place]) -> None:
        """These are the pages of the latest checkpoint, as recovery found it."""
        names = self._disk.names(self._directory)
        self._next_file = max(page_files(names), default=0) + 1
        self.places = places
        self.sizes = {}
        for file in {place.file for place in places.values()}:
            end = max(p.offset + p.length for p in places.values() if p.file == file)
            self.sizes[file] = end

    def write(
        self, new: dict[int, PageSource], needed: Iterable[int], store_id: bytes
    ) -> "NewPageIndex":
        """Make all needed pages durable; the result counts once its checkpoint is durable."""
        wanted = set(needed)
        kept = {number: self.places[number] for number in wanted if number not in new}
        moving = self._moving(kept)
        file = _PageFile(self._disk, self._directory, self._next_file, store_id)
        self._next_file += 1
        try:
            for number in sorted(wanted & new.keys()):
                kept[number] = file.add(new[number]())
            self._move(moving, kept, file, store_id)
            file.finish()
        except BaseException:
            file.discard()
            raise
        return NewPageIndex(kept, file)

    def turn_over(self, index: "NewPageIndex") -> list[Path]:
        """The checkpoint is durable: returns the files that are no longer needed."""
        sizes = {**self.sizes, index.file.number: index.file.size}
        live = {place.file for place in index.places.values()}
        self.places = index.places
        self.sizes = {file: size for file, size in sizes.items() if file in live}
        gone = [file for file in (*sizes, *self._aside) if file not in live]
        self._aside = []
        return [pages_path(self._directory, file) for file in gone]

    def set_aside(self, index: "NewPageIndex") -> None:
        """It is unknown whether a recovery would find the checkpoint: its pages stay until a later
        one is durable."""
        self._aside.append(index.file.number)

    def strays(self) -> list[Path]:
        """Page files that the latest checkpoint does not refer to."""
        names = self._disk.names(self._directory)
        strays = [file for file in page_files(names) if file not in self.sizes]
        return [pages_path(self._directory, file) for file in strays]

    def _move(
        self, moving: set[int], kept: dict[int, Place], file: "_PageFile", store_id: bytes
    ) -> None:
        """Copy the live pages of these files into the new one."""
        reader = PageReader(self._disk, self._directory, self.places, store_id)
        try:
            for number, place in sorted(kept.items(), key=lambda item: item[1]):
                if place.file in moving:
                    kept[number] = file.add([reader.read(number)])
        finally:
            reader.close()

    def _moving(self, kept: dict[int, Place]) -> set[int]:
        """The files whose live pages move, so that disk use follows what is live."""
        live = dict.fromkeys(self.sizes, 0)
        for place in kept.values():
            live[place.file] += place.length
        held = [file for file in live if live[file]]
        moving: set[int] = set()
        if len(held) > FILES_MAX:
            moving.update(sorted(held, key=lambda file: live[file])[: len(held) // 2])
        spare = sum(self.sizes[file] for file in held) - 2 * sum(live.values()) - SPARE_BYTES
        for file in sorted(held, key=lambda file: live[file] / self.sizes[file]):
            if spare <= 0:
                break
            spare -= self.sizes[file]
            moving.add(file)
        return moving


@dataclass(eq=False, slots=True)
class NewPageIndex:
    """The pages of a checkpoint that is being written."""

    places: dict[int, Place]
    file: "_PageFile"


@dataclass(eq=False)
class _PageFile:
    """A page file that is being written; created with its first page."""

    disk: Disk
    directory: Path
    number: int
    store_id: bytes

    def __post_init__(self) -> None:
        self._path = pages_path(self.directory, self.number)
        self._fd = -1
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self.size = 0

    def add(self, parts: list[bytes]) -> Place:
        """One more page."""
        if self._fd < 0:
            self._fd = self.disk.open(self._path, writable=True, create=True)
            self._put(_pack_header(self.number, self.store_id))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        place = Place(self.number, self.size, len(data), crc32c(data))
        self._put(data)
        if self._waiting_bytes >= STEP_BYTES:
            self._flush()
        return place

    def finish(self) -> None:
        """Make everything added durable, with the file's name."""
        if self._fd >= 0:
            self._flush()
            fd, self._fd = self._fd, -1
            self.disk.close(fd)
            self.disk.sync_directory(self.directory)

    def discard(self) -> None:
        """Discard it; on a full disk it would take up the missing space."""
        fd, self._fd = self._fd, -1
        with contextlib.suppress(OSError):
            if fd >= 0:
                self.disk.close(fd)
        if self.size:
            with contextlib.suppress(OSError):
                self.disk.remove(self._path)

    def _put(self, data: bytes) -> None:
        self._parts.append(data)
        self._waiting_bytes += len(data)
        self.size += len(data)

    def _flush(self) -> None:
        write_all(self.disk, self._fd, self._parts, self.size - self._waiting_bytes)
        self.disk.sync(self._fd)
        self._parts = []
        self._waiting_bytes = 0
