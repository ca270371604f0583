"""What comes back after a crash, what is cut, and what is refused."""

import errno
import logging
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from partibus.domain.errors import StoreCorrupt, StoreUnavailable
from partibus.store.fault_injection import FaultyDisk
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.files.segment import SEGMENT_HEADER_BYTES, header_store_id, segment_path
from partibus.store.files.watermark import WATERMARK_NAME, Watermark
from partibus.store.interface import Recovered
from partibus.store.record import (
    ENTRY_HEADER_BYTES,
    Record,
    crc32c,
    crc32c_extend,
    encode_payload,
    pack_header,
)

SEGMENT = 1 << 14
NEVER_S = 1e6


class Crash:
    """The files of a store that was killed: acknowledged entries, then one that was not."""

    def __init__(self, directory: Path, durable: int, end: int) -> None:
        self.directory = directory
        self.durable = durable  # in the only segment: offset and position are the same
        self.end = end
        self.segment = segment_path(directory, 0)

    def restore(self, content: dict[str, bytes]) -> None:
        for name, data in content.items():
            (self.directory / name).write_bytes(data)

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.directory.iterdir()}


class CrashingDisk(FaultyDisk):
    """A process that ends between a write and its sync cuts nothing any more."""

    def truncate(self, fd: int, length: int) -> None:
        self._fail(self.sync_errno)
        super().truncate(fd, length)


class DroppingDisk(FaultyDisk):
    """After a sync that failed, what was written before it stays readable and never gets to the
    disk, though later syncs succeed: only what is written again does. Knows one segment."""

    def __init__(self, segment: Path) -> None:
        super().__init__(OsDisk())
        self._segment = segment
        self._fds: set[int] = set()
        self._cached: list[tuple[int, bytes]] = []
        self.written: list[tuple[int, bytes]] = []
        """What got to the disk."""

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        fd = super().open(path, writable=writable, create=create)
        (self._fds.add if path == self._segment else self._fds.discard)(fd)
        return fd

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        if fd in self._fds:
            self._cached.append((offset, b"".join(parts)))
        return super().write(fd, parts, offset)

    def sync(self, fd: int) -> None:
        cached = []
        if fd in self._fds:
            cached, self._cached = self._cached, []
        super().sync(fd)
        self.written += cached


ACKNOWLEDGED = [b"%d" % number for number in range(6)]


def records_of(meta: bytes) -> list[Record]:
    return [Record(1, 1, meta, b"body of " + meta * 40)]


@pytest.fixture
def crash(stores: Any, pump: Any) -> Iterator[Crash]:
    """Six acknowledged entries, and a seventh that was written but never synced."""
    disk = CrashingDisk(OsDisk())
    store = stores.ready(disk=disk, segment_bytes=SEGMENT, probe_interval_s=NEVER_S)
    for meta in ACKNOWLEDGED:
        assert pump.append(store, records_of(meta)) is None
    durable = store.bytes_since_checkpoint  # from byte 0 on: there is no checkpoint
    disk.sync_errno = errno.EIO
    assert pump.append(store, records_of(b"unacknowledged")) is not None
    directory = stores.crashed_copy()
    end = durable + ENTRY_HEADER_BYTES + len(encode_payload(records_of(b"unacknowledged")).data)
    yield Crash(directory, durable, end)


def opened(stores: Any, directory: Path) -> tuple[SegmentStore, Recovered]:
    store = stores.make(directory, segment_bytes=SEGMENT)
    return store, store.open()


def metas(stores: Any, directory: Path) -> list[bytes]:
    store = stores.make(directory, segment_bytes=SEGMENT)
    try:
        return [record.meta for record in store.open().records]
    finally:
        store.close()


def test_an_entry_that_was_written_whole_is_kept(stores: Any, crash: Crash) -> None:
    assert metas(stores, crash.directory) == [*ACKNOWLEDGED, b"unacknowledged"]


def test_a_tail_cut_at_any_byte_costs_only_what_was_never_acknowledged(
    stores: Any, crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    files = crash.content()
    whole = files[crash.segment.name]
    for cut in range(crash.durable, crash.end):
        crash.restore(files)
        crash.segment.write_bytes(whole[:cut])
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert metas(stores, crash.directory) == ACKNOWLEDGED
        if cut > crash.durable:
            assert f"{crash.segment}: offset {crash.durable}: cutting" in caplog.text


def test_a_tail_zeroed_from_any_byte_costs_only_what_was_never_acknowledged(
    stores: Any, crash: Crash
) -> None:
    files = crash.content()
    whole = files[crash.segment.name]
    for cut in range(crash.durable, crash.end, 3):
        crash.restore(files)
        crash.segment.write_bytes(whole[:cut] + bytes(len(whole) - cut))
        assert metas(stores, crash.directory) == ACKNOWLEDGED


def test_nothing_of_a_cut_tail_is_ever_found_again(stores: Any, pump: Any, crash: Crash) -> None:
    data = bytearray(crash.segment.read_bytes())
    data[crash.durable] ^= 1  # the header is gone; the rest of the entry still lies there
    crash.segment.write_bytes(data)
    store, recovered = opened(stores, crash.directory)
    assert len(list(recovered.records)) == 6
    assert pump.append(store, []) is None
    store.close()
    after = crash.segment.read_bytes()
    assert not after[crash.durable + ENTRY_HEADER_BYTES :].strip(b"\0")
    assert metas(stores, crash.directory) == ACKNOWLEDGED


def test_what_is_recovered_counts_as_durable_from_then_on(stores: Any, crash: Crash) -> None:
    assert len(metas(stores, crash.directory)) == 7
    data = bytearray(crash.segment.read_bytes())
    data[crash.end - 1] ^= 1
    crash.segment.write_bytes(data)
    with pytest.raises(StoreCorrupt, match=f"{crash.segment}: offset {crash.durable}"):
        metas(stores, crash.directory)


def after_a_failed_start(stores: Any, directory: Path, on_disk: bytes) -> list[bytes]:
    """One start fails to sync, the next one succeeds, then the power is lost: what the one after
    that finds, when only `on_disk` of the first segment was durable before."""
    segment = segment_path(directory, 0)
    disk = DroppingDisk(segment)
    disk.sync_errno = errno.EIO
    failing = stores.make(directory, disk=disk, segment_bytes=SEGMENT)
    with pytest.raises(StoreUnavailable):
        list(failing.open().records)
    failing.close()
    disk.heal()
    stores.ready(directory, disk=disk, segment_bytes=SEGMENT).close()
    left = bytearray(on_disk.ljust(segment.stat().st_size, b"\0"))
    for offset, data in disk.written:
        left[offset : offset + len(data)] = data
    segment.write_bytes(left)
    return metas(stores, directory)


def test_an_entry_that_a_failed_sync_dropped_is_written_again(stores: Any, crash: Crash) -> None:
    """The start reads an entry that is in the kernel's memory alone, and is about to rely on it."""
    durable = crash.segment.read_bytes()[: crash.durable]
    found = after_a_failed_start(stores, crash.directory, durable)
    assert found == [*ACKNOWLEDGED, b"unacknowledged"]


def test_a_segment_header_that_a_failed_sync_dropped_is_written_again(stores: Any) -> None:
    stores.ready(segment_bytes=SEGMENT).close()
    assert after_a_failed_start(stores, stores.directory, b"") == []


def test_a_flipped_bit_in_the_last_acknowledged_entry_is_an_error(
    stores: Any, crash: Crash
) -> None:
    """The entry looks like a torn tail; the watermark knows better."""
    data = bytearray(crash.segment.read_bytes())
    del data[crash.durable :]
    data[crash.durable - 1] ^= 0x80
    crash.segment.write_bytes(data)
    with pytest.raises(StoreCorrupt, match="known to be durable"):
        metas(stores, crash.directory)


def test_damage_at_any_byte_of_acknowledged_entries_is_an_error(stores: Any, crash: Crash) -> None:
    files = crash.content()
    whole = files[crash.segment.name]
    for index in range(SEGMENT_HEADER_BYTES, crash.durable, 5):
        crash.restore(files)
        data = bytearray(whole)
        data[index] ^= 1 << index % 8
        crash.segment.write_bytes(data)
        with pytest.raises(StoreCorrupt, match=f"{crash.segment}: offset"):
            metas(stores, crash.directory)
        assert crash.segment.read_bytes() == data, "a refused log was changed"


def test_a_file_cut_within_acknowledged_entries_is_an_error(stores: Any, crash: Crash) -> None:
    files = crash.content()
    whole = files[crash.segment.name]
    for length in range(SEGMENT_HEADER_BYTES, crash.durable, 11):
        crash.restore(files)
        crash.segment.write_bytes(whole[:length])
        with pytest.raises(StoreCorrupt, match=str(crash.segment)):
            metas(stores, crash.directory)


def test_without_a_sound_watermark_nothing_is_cut(
    stores: Any, crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    files = crash.content()
    (crash.directory / WATERMARK_NAME).unlink()
    assert len(metas(stores, crash.directory)) == 7  # a log that ends well needs none
    crash.restore(files)
    damaged = bytearray(files[WATERMARK_NAME])
    damaged[20] ^= 1
    (crash.directory / WATERMARK_NAME).write_bytes(damaged)
    crash.segment.write_bytes(files[crash.segment.name][: crash.end - 1])
    with pytest.raises(StoreCorrupt, match="nothing may be cut"):
        metas(stores, crash.directory)


def test_a_stale_watermark_is_made_good_by_later_entries(stores: Any, crash: Crash) -> None:
    """After a loss of power the watermark may lag; each entry tells how far the log was durable."""
    store_id = header_store_id(crash.segment.read_bytes())
    assert store_id is not None
    Watermark(OsDisk(), crash.directory, store_id, SEGMENT_HEADER_BYTES).close()
    data = bytearray(crash.segment.read_bytes())
    data[SEGMENT_HEADER_BYTES + 50] ^= 1  # in the first entry
    crash.segment.write_bytes(data)
    with pytest.raises(StoreCorrupt, match=f"offset {SEGMENT_HEADER_BYTES}: .*known to be durable"):
        metas(stores, crash.directory)


def test_a_group_torn_in_its_first_entry_is_cut_as_a_whole(stores: Any, crash: Crash) -> None:
    """Pages of one unsynced write reach the disk in any order; a whole entry after a torn one
    proves nothing unless it was written after the torn one was durable."""
    files = crash.content()
    data = bytearray(files[crash.segment.name])
    store_id = header_store_id(bytes(data))
    assert store_id is not None
    payload = encode_payload(records_of(b"later"))
    for durable, refused in ((crash.durable, False), (crash.end, True)):
        entry = pack_header(
            crc32c(store_id), crash.end, durable, len(payload.data), payload.count, payload.crc
        )
        torn = bytearray(data)
        torn[crash.end : crash.end + ENTRY_HEADER_BYTES + len(payload.data)] = entry + payload.data
        torn[crash.end - 3] ^= 1
        crash.restore(files)
        crash.segment.write_bytes(torn)
        if refused:
            with pytest.raises(StoreCorrupt, match="known to be durable"):
                metas(stores, crash.directory)
        else:
            assert metas(stores, crash.directory) == ACKNOWLEDGED


def test_an_entry_in_another_place_is_no_entry(stores: Any, crash: Crash) -> None:
    """Stale bytes of this very store: intact, but they say where they belong."""
    data = bytearray(crash.segment.read_bytes())
    stale = data[SEGMENT_HEADER_BYTES : crash.durable]
    data[crash.durable : crash.durable + len(stale)] = stale
    crash.segment.write_bytes(data)
    assert metas(stores, crash.directory) == ACKNOWLEDGED


def test_a_body_that_looks_like_an_entry_is_never_taken_for_one(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT)
    forged = pack_header(crc32c(b"guessed"), 5000, 4000, 0, 0, 0)
    pump.append(store, [Record(1, 1, b"forged", forged * 20)])
    directory = stores.crashed_copy()
    segment = segment_path(directory, 0)
    data = segment.read_bytes().rstrip(b"\0")
    segment.write_bytes(data + forged * 10)
    assert metas(stores, directory) == [b"forged"]


def many_segments(stores: Any, pump: Any) -> tuple[list[Path], list[bytes]]:
    store = stores.ready(segment_bytes=SEGMENT)
    names = [b"%d" % number for number in range(60)]
    for name in names:
        assert pump.append(store, [Record(1, 1, name, name * 500)]) is None
    store.close()
    return sorted(stores.directory.glob("*.seg")), names


def test_a_missing_segment_is_named(stores: Any, pump: Any) -> None:
    files, names = many_segments(stores, pump)
    assert len(files) >= 4
    for path in files:
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(StoreCorrupt) as refused:
            metas(stores, stores.directory)
        assert path.name in refused.value.text or path is files[-1]
        path.write_bytes(content)
    assert metas(stores, stores.directory) == names


def test_all_segments_missing_is_no_new_store(stores: Any, pump: Any) -> None:
    files, _ = many_segments(stores, pump)
    for path in files:
        path.unlink()
    with pytest.raises(StoreCorrupt, match="every segment is missing"):
        metas(stores, stores.directory)


def test_damage_before_the_last_segment_is_an_error(stores: Any, pump: Any) -> None:
    files, _ = many_segments(stores, pump)
    data = bytearray(files[1].read_bytes())
    data[-1] ^= 1
    files[1].write_bytes(data)
    (stores.directory / WATERMARK_NAME).unlink()
    with pytest.raises(StoreCorrupt, match=f"{files[1]}: offset .*the log continues"):
        metas(stores, stores.directory)


def test_a_foreign_file_is_named(stores: Any, pump: Any) -> None:
    many_segments(stores, pump)
    foreign = stores.directory / "00000000000f0000.seg"
    foreign.write_bytes(b"\x89PNG" + bytes(100))
    with pytest.raises(StoreCorrupt, match=f"{foreign}: offset 0: not a Partibus segment"):
        metas(stores, stores.directory)
    foreign.unlink()
    odd = stores.directory / "backup.seg"
    odd.write_bytes(b"")
    with pytest.raises(StoreCorrupt, match=str(odd)):
        metas(stores, stores.directory)


def test_a_segment_of_another_store_is_named(stores: Any, pump: Any, tmp_path: Path) -> None:
    files, _ = many_segments(stores, pump)
    other = stores.ready(tmp_path / "other", segment_bytes=SEGMENT)
    other.close()
    shutil.copy(segment_path(tmp_path / "other", 0), files[0])
    with pytest.raises(StoreCorrupt, match=f"{files[0]}: offset 24: .*belongs to store"):
        metas(stores, stores.directory)


def test_a_segment_that_was_never_begun_is_removed(stores: Any, pump: Any) -> None:
    files, names = many_segments(stores, pump)
    end = int(files[-1].stem, 16) + len(files[-1].read_bytes().rstrip(b"\0"))
    for content in (b"", bytes(SEGMENT)):
        begun = segment_path(stores.directory, end)
        begun.write_bytes(content)
        assert metas(stores, stores.directory) == names
        assert not begun.exists()


def test_an_interrupted_first_start_is_started_again(stores: Any) -> None:
    stores.directory.mkdir()
    segment_path(stores.directory, 0).write_bytes(b"")
    assert metas(stores, stores.directory) == []
    assert metas(stores, stores.directory) == []


def test_a_segment_cut_short_before_the_checkpoint_is_an_error(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT)
    for meta in ACKNOWLEDGED:
        pump.append(store, records_of(meta))
    pump.checkpoint(store, {1: b"s"})
    store.close()
    segment = segment_path(stores.directory, 0)
    segment.write_bytes(segment.read_bytes()[:200])
    with pytest.raises(StoreCorrupt, match=f"{segment}: offset 200: the file is truncated"):
        metas(stores, stores.directory)


def test_the_segment_of_the_checkpoint_missing_is_an_error(stores: Any, pump: Any) -> None:
    files, _ = many_segments(stores, pump)
    store = stores.ready(segment_bytes=SEGMENT)
    pump.checkpoint(store, {1: b"s"})
    store.close()
    [left] = stores.directory.glob("*.seg")
    assert left == files[-1]
    left.unlink()
    with pytest.raises(StoreCorrupt):
        metas(stores, stores.directory)


def test_a_damaged_body_is_found_when_it_is_read(stores: Any, pump: Any) -> None:
    """Before the checkpoint nothing is scanned; every body carries its own checksum."""
    store = stores.ready(segment_bytes=SEGMENT)
    [record] = records_of(b"body")
    pump.append(store, [record])
    pump.checkpoint(store, {})
    store.close()
    segment = segment_path(stores.directory, 0)
    data = bytearray(segment.read_bytes())
    data[record.position + 3] ^= 2
    segment.write_bytes(data)
    store, _ = opened(stores, stores.directory)
    ref = (record.position, len(record.body))
    with pytest.raises(StoreCorrupt, match=f"{segment}: offset {record.position}"):
        store.read_now([ref])
    answer = pump.read(store, [ref])
    assert isinstance(answer, StoreCorrupt)


def test_a_newer_entry_format_is_refused_by_its_number(stores: Any, crash: Crash) -> None:
    data = bytearray(crash.segment.read_bytes())
    seed = crc32c(header_store_id(bytes(data)) or b"")
    head = bytearray(pack_header(seed, crash.end, crash.durable, 0, 0, 0)[:-4])
    struct.pack_into("<H", head, 4, 2)
    entry = bytes(head) + struct.pack("<I", crc32c_extend(seed, bytes(head)))
    data[crash.end : crash.end + ENTRY_HEADER_BYTES] = entry
    crash.segment.write_bytes(data)
    with pytest.raises(StoreCorrupt, match="entry format 2; this release reads 1"):
        metas(stores, crash.directory)
