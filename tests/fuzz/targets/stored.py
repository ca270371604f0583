"""Files of a store: segments, checkpoints, page files and the watermark; snapshots and records.

An input is a list of changes to the files of a sound store. Checksums can be made right again
after the changes, since a damaged file from a hostile backup has them right too. Whatever is
wrong must be a StoreCorrupt that names the place.
"""

import atexit
import queue
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from fuzz.target import Target
from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.fragment.commands import Outcome
from partibus.fragment.message import Overlay
from partibus.fragment.records import ENQUEUED, ENQUEUED_META, REMOVED, SCHEDULED, SCHEDULED_META
from partibus.fragment.snapshot import dump
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.upkeep.recovering import rebuild
from partibus.store.files.checking import StoreUnderCheck
from partibus.store.files.checkpoint import CHECKPOINT_SUFFIX
from partibus.store.files.log import SegmentStore
from partibus.store.files.segment import SEGMENT_HEADER_BYTES, SEGMENT_SUFFIX
from partibus.store.interface import Increment, Recovered, RecoveredRecord
from partibus.store.record import ENTRY_HEADER_BYTES, ENTRY_MAGIC, Record, crc32c, crc32c_extend
from partibus.testing.fragment import FragmentBench

SEGMENT_BYTES: Final = 4096
_CHANGE: Final = struct.Struct("<BHB")
_U32: Final = struct.Struct("<I")
_RECORD: Final = struct.Struct("<BBB")
STORE_ID_AT: Final = 24
"""Of a segment's header."""
HEADER_CHECKED: Final = 40
"""Bytes of a segment's header, and of a slot of the watermark, before their checksum."""
SLOTS: Final = (0, 512)
BODIES: Final = ((64, 100), (SEGMENT_BYTES + 200, 480))
"""References as an old record may hold them."""
FRAGMENT: Final = 1
PLAIN: Final = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=5, path="q")
SPECS: Final = (
    PLAIN,
    replace(PLAIN, requires_session=True),
    replace(PLAIN, duplicate_window_ms=10**9),
)


# --- a sound store ------------------------------------------------------------------------------


class _Template:
    """A small store that was used and closed, and a directory to damage copies of it in."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="partibus-fuzz-"))
        atexit.register(shutil.rmtree, self.place, ignore_errors=True)
        self.directory = self.place / "store"
        _use_store(self.directory)
        files = sorted(path for path in self.directory.iterdir() if path.name != "lock")
        self.names = [path.name for path in files]
        self.contents = [path.read_bytes() for path in files]
        segment = next(c for n, c in zip(self.names, self.contents, strict=True) if _is_segment(n))
        self.seed = crc32c(segment[STORE_ID_AT : STORE_ID_AT + 16])

    def restore(self) -> None:
        """Everything as it was, whatever an input and its recovery have made of it."""
        for path in self.directory.iterdir():
            if path.name != "lock":
                path.unlink()
        for name, content in zip(self.names, self.contents, strict=True):
            (self.directory / name).write_bytes(content)


def _is_segment(name: str) -> bool:
    return name.endswith(SEGMENT_SUFFIX)


def _use_store(directory: Path) -> None:
    """Some segments, a checkpoint with a page in the middle, and records behind it."""
    callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    store = SegmentStore(directory, notify=callbacks.put, segment_bytes=SEGMENT_BYTES)
    for _ in store.open().records:
        pass
    told: list[BusError | None] = []
    for number in range(1, 13):
        meta = ENQUEUED_META.pack(number, 1000 + number, 0)
        store.append([Record(FRAGMENT, ENQUEUED, meta, b"body %d " % number * 60)], told.append)
        while len(told) < number:
            callbacks.get(timeout=20)()
        if number == 6:
            pages = {1: lambda: [b"a page" * 20]}
            increment = Increment(store.position, pages, [[1]])
            done: list[BusError | None] = []
            store.checkpoint({FRAGMENT: _snapshots()[0]}, done.append, increment)
            while not done:
                callbacks.get(timeout=20)()
    store.close()


@cache
def _snapshots() -> tuple[bytes, ...]:
    """Of a plain queue, one with sessions, and one that detects duplicates."""
    found = []
    for spec in SPECS:
        bench = FragmentBench(spec)
        for number in range(5):
            bench.send(b"m%d" % number, session_id="s" if spec.requires_session else None)
        bench.send(b"later", scheduled_ms=10**15, session_id="s" if spec.requires_session else None)
        if not spec.requires_session:
            outcomes = (Outcome.DEFER, Outcome.DEAD_LETTER, Outcome.ABANDON)
            for delivered, outcome in zip(bench.receive(3), outcomes, strict=True):
                bench.settle([delivered.token], outcome, overlay=Overlay(b"", "why", None))
        found.append(dump(bench.state))
    return tuple(found)


@cache
def template() -> _Template:
    return _Template()


# --- changes ------------------------------------------------------------------------------------


def _changes(data: bytes) -> Iterator[tuple[int, int, bytes | None]]:
    """(file, offset, bytes); None cuts the file there."""
    at = 0
    while at + _CHANGE.size <= len(data):
        file, offset, length = _CHANGE.unpack_from(data, at)
        at += _CHANGE.size
        yield file, offset, data[at : at + length] if length else None
        at += length


def _damage(data: bytes) -> None:
    """Apply the changes of an input; with its first bit set, the checksums are made right."""
    made = template()
    contents = [bytearray(content) for content in made.contents]
    changed = set()
    for file, offset, piece in _changes(data[1:]):
        number = file % len(contents)
        changed.add(number)
        if piece is None:
            del contents[number][offset:]
        else:
            contents[number][offset : offset + len(piece)] = piece
    for number in changed:
        if data[0] & 1:
            _repair(made, made.names[number], contents[number])
        (made.directory / made.names[number]).write_bytes(contents[number])


def _repair(made: _Template, name: str, content: bytearray) -> None:
    """Make the checksums of a file fit what it holds now."""
    if name.endswith(CHECKPOINT_SUFFIX):
        if len(content) >= _U32.size:
            end = len(content) - _U32.size
            _U32.pack_into(content, end, crc32c(bytes(content[:end])))
        return
    for slot in (0,) if name != "durable" else SLOTS:
        end = slot + HEADER_CHECKED
        if len(content) >= end + _U32.size:
            _U32.pack_into(content, end, crc32c(bytes(content[slot:end])))
    if _is_segment(name):
        _repair_entries(made.seed, content)


def _repair_entries(seed: int, content: bytearray) -> None:
    at = SEGMENT_HEADER_BYTES
    while at + ENTRY_HEADER_BYTES <= len(content) and content[at : at + 4] == ENTRY_MAGIC:
        (length,) = _U32.unpack_from(content, at + 24)
        first, end = at + ENTRY_HEADER_BYTES, at + ENTRY_HEADER_BYTES + length
        if end <= len(content):
            _U32.pack_into(content, at + 32, crc32c(bytes(content[first:end])))
        head = bytes(content[at : at + 36])
        _U32.pack_into(content, at + 36, crc32c_extend(seed, head))
        at = end


def check(data: bytes) -> None:
    """The offline check of a damaged store, which changes nothing."""
    if not data:
        return
    made = template()
    try:
        _damage(data)
        store = StoreUnderCheck(made.directory)
        try:
            rebuild(store.recover())
            store.damaged_bodies(BODIES)
        finally:
            store.close()
    finally:
        made.restore()


def open_store(data: bytes) -> None:
    """A server opens the damaged store, appends to it and opens it again."""
    if not data:
        return
    made = template()
    try:
        _damage(data)
        for _ in range(2):
            _open_and_append(made.directory)
    finally:
        made.restore()


def _open_and_append(directory: Path) -> None:
    callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    store = SegmentStore(directory, notify=callbacks.put, segment_bytes=SEGMENT_BYTES)
    try:
        recovered = store.open()
        for _ in recovered.records:
            pass
        told: list[BusError | None] = []
        store.append([Record(FRAGMENT, 1, b"meta", b"body")], told.append)
        while not told:
            callbacks.get(timeout=20)()
    finally:
        store.close()


def _change_seeds() -> list[bytes]:
    seeds = [b"\x00", b"\x01"]
    for number in range(len(template().names)):
        offsets = (8, 20, 32, 64, 70, 90, 110)
        seeds += [b"\x01" + _CHANGE.pack(number, at, 2) + b"\x01\x00" for at in offsets]
        seeds.append(b"\x00" + _CHANGE.pack(number, 80, 0))
    return seeds


# --- snapshots and records ------------------------------------------------------------------------


def snapshot(data: bytes) -> None:
    """The state of a fragment in a checkpoint."""
    rebuild(Recovered({FRAGMENT: data}, iter(())))


def records(data: bytes) -> None:
    """Records of the log, each with a fragment, a kind and its meta."""
    rebuild(Recovered({}, iter(_records(data))))


def _records(data: bytes) -> list[RecoveredRecord]:
    found: list[RecoveredRecord] = []
    at = 0
    while at + _RECORD.size <= len(data):
        fragment, kind, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        meta = data[at : at + length]
        found.append(RecoveredRecord(fragment % 4, kind, meta, 64 + at, length))
        at += length
    return found


def _record(fragment: int, kind: int, meta: bytes) -> bytes:
    return _RECORD.pack(fragment, kind, len(meta)) + meta


def _record_seeds() -> list[bytes]:
    enqueued = _record(1, ENQUEUED, ENQUEUED_META.pack(1, 5, 0))
    later = _record(1, SCHEDULED, SCHEDULED_META.pack(2, 5, 9, 0xFFFFFFFF))
    removed = _record(1, REMOVED, struct.pack("<Q", 1))
    every = [_record(1, kind, bytes(range(1, 40))) for kind in range(1, 96)]
    return [enqueued + removed, enqueued + later, *every]


TARGETS: Final = (
    Target(
        name="store-check",
        takes="changes to the files of a store, which is then checked",
        execute=check,
        answers=(StoreCorrupt, StoreUnavailable),
        seeds=_change_seeds,
    ),
    Target(
        name="store-open",
        takes="changes to the files of a store, which is then opened and written to",
        execute=open_store,
        answers=(StoreCorrupt, StoreUnavailable),
        seeds=_change_seeds,
    ),
    Target(
        name="snapshots",
        takes="the state of a fragment in a checkpoint",
        execute=snapshot,
        answers=(StoreCorrupt,),
        seeds=_snapshots,
    ),
    Target(
        name="records",
        takes="records of the log",
        execute=records,
        answers=(StoreCorrupt,),
        seeds=_record_seeds,
    ),
)
