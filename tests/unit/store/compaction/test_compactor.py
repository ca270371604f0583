"""Compaction: what little is live in old segments moves together, and stays where it was."""

import contextlib
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.store.compaction.compacted_file import kept_name, parse_kept_name
from partibus.store.fault_injection import FaultyDisk
from partibus.store.files.checking import StoreUnderCheck
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.record import Record

KIB = 1024
SEGMENT_BYTES = 8 * KIB


def files(directory: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in directory.glob(f"*{suffix}"))


def body_of(number: int, length: int = KIB) -> bytes:
    return (b"%08d" % number) * (length // 8)


def fill(store: SegmentStore, pump: Any, count: int, first: int = 0) -> list[Record]:
    records = [Record(1, 1, b"m", body_of(number)) for number in range(first, first + count)]
    for record in records:
        assert pump.append(store, [record]) is None
    return records


def refs(records: list[Record]) -> list[tuple[int, int]]:
    return [(record.position, len(record.body)) for record in records]


def keep_only(store: SegmentStore, records: list[Record], kept: list[Record]) -> None:
    for record in records:
        if record not in kept:
            store.release(record.position, len(record.body))


def compact_once(store: SegmentStore, pump: Any) -> BusError | None:
    told: list[BusError | None] = []
    assert store.compact(told.append)
    pump.until(lambda: bool(told))
    return told[0]


def settle(store: SegmentStore, pump: Any) -> int:
    """Compact until there is nothing to do; gives the number of steps."""
    begun: list[None] = []
    told: list[BusError | None] = []
    while store.compact(told.append):
        begun.append(None)
        pump.until(lambda: len(told) == len(begun))
        assert told[-1] is None
        assert len(begun) < 100
    return len(begun)


def sparse(stores: Any, pump: Any, **options: Any) -> tuple[SegmentStore, list[Record]]:
    """A store of ten segments, each with one live body of about seven."""
    store = stores.ready(segment_bytes=SEGMENT_BYTES, **options)
    records = fill(store, pump, 70)
    kept = records[::7]
    keep_only(store, records, kept)
    assert pump.checkpoint(store, {1: b"state"}) is None
    return store, kept


def test_the_few_live_bodies_leave_their_segments(stores: Any, pump: Any) -> None:
    store, kept = sparse(stores, pump)
    before = store.disk_bytes
    assert settle(store, pump) > 0
    assert len(files(stores.directory, ".seg")) <= 2  # up to half of one may be dead
    assert len(files(stores.directory, ".kept")) <= 2
    assert store.read_now(refs(kept)) == [record.body for record in kept]
    assert pump.read(store, refs(kept)) == [record.body for record in kept]
    assert store.disk_bytes < before / 2
    on_disk = sum(p.stat().st_size for p in stores.directory.iterdir() if p.name != "lock")
    assert store.disk_bytes == on_disk


def test_a_restart_finds_them_where_they_were(stores: Any, pump: Any) -> None:
    store, kept = sparse(stores, pump)
    settle(store, pump)
    store.close()
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    for position, length in refs(kept):
        store.retain(position, length)
    assert store.read_now(refs(kept)) == [record.body for record in kept]
    assert store.live_bytes == sum(length for _, length in refs(kept))
    keep_only(store, kept, kept[:2])
    assert pump.checkpoint(store, {}) is None
    settle(store, pump)
    assert store.read_now(refs(kept[:2])) == [record.body for record in kept[:2]]


def test_a_body_that_was_left_out_can_not_be_retained(stores: Any, pump: Any) -> None:
    store, kept = sparse(stores, pump)
    dead = (kept[1].position + 2 * KIB, KIB)
    settle(store, pump)
    with pytest.raises(StoreCorrupt, match="missing or truncated"):
        store.retain(*dead)
    with pytest.raises(StoreCorrupt, match="missing or truncated"):
        store.read_now([dead])


def test_nothing_is_copied_while_most_is_live(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    records = fill(store, pump, 70)
    keep_only(store, records, [r for n, r in enumerate(records) if n % 4])
    assert pump.checkpoint(store, {}) is None
    assert not store.compact(lambda error: None)


def test_nothing_after_the_checkpoint_is_touched(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    records = fill(store, pump, 70)
    keep_only(store, records, records[::7])
    before = files(stores.directory, "")
    assert not store.compact(lambda error: None)
    assert files(stores.directory, "") == before


def test_empty_segments_go_without_another_checkpoint(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    records = fill(store, pump, 70)
    assert pump.checkpoint(store, {}) is None
    keep_only(store, records, [])
    assert compact_once(store, pump) is None
    assert len(files(stores.directory, ".seg")) == 1
    assert not store.compact(lambda error: None)


def test_a_body_with_many_holders_counts_once(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    records = fill(store, pump, 70)
    kept = records[::7]
    for position, length in refs(kept) * 20:
        store.retain(position, length)
    keep_only(store, records, kept)
    assert pump.checkpoint(store, {}) is None
    settle(store, pump)
    assert len(files(stores.directory, ".seg")) <= 2
    for position, length in refs(kept) * 20:
        store.release(position, length)
    assert store.read_now(refs(kept)) == [record.body for record in kept]
    for position, length in refs(kept):
        store.release(position, length)
    settle(store, pump)
    assert files(stores.directory, ".kept") == []


def test_files_stay_few_however_long_it_goes_on(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    kept: list[Record] = []
    most = 0
    for turn in range(60):
        records = fill(store, pump, 14, first=turn * 14)
        kept.append(records[3])
        keep_only(store, records, [records[3]])
        assert pump.checkpoint(store, {}) is None
        settle(store, pump)
        most = max(most, len(list(stores.directory.iterdir())))
    assert most < 30
    assert store.read_now(refs(kept)) == [record.body for record in kept]
    assert store.disk_bytes < 2 * store.live_bytes + 4 * SEGMENT_BYTES


class GatedReads(OsDisk):
    """Patient reads wait until they may go on."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go_on = threading.Event()

    def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
        if flags == 0:
            self.started.set()
            assert self.go_on.wait(20)
        return super().read_into(fd, buffer, offset, flags)


def test_a_read_that_began_before_ends_well(stores: Any, pump: Any) -> None:
    disk = GatedReads()
    store, kept = sparse(stores, pump, disk=disk)
    answers: list[list[bytes] | BusError] = []
    store.read(refs(kept[:1]), answers.append)
    store.read(refs(kept), answers.append)
    assert disk.started.wait(20)
    store.release(*refs(kept)[5])  # settled meanwhile, and still being read
    told: list[BusError | None] = []
    assert store.compact(told.append)
    pump.until(lambda: bool(files(stores.directory, ".kept")))
    disk.go_on.set()
    pump.until(lambda: len(answers) == 2 and bool(told))
    assert answers == [[kept[0].body], [record.body for record in kept]]
    assert told == [None]
    assert pump.read(store, refs(kept[:5])) == [record.body for record in kept[:5]]


def test_a_damaged_segment_stays_as_it_is(stores: Any, pump: Any) -> None:
    store, kept = sparse(stores, pump)
    first = stores.directory / files(stores.directory, ".seg")[0]
    data = bytearray(first.read_bytes())
    at = kept[0].position + 5
    data[at] ^= 1
    first.write_bytes(data)
    assert isinstance(compact_once(store, pump), StoreCorrupt)
    assert first.exists()
    settle(store, pump)  # the others are compacted all the same
    assert len(files(stores.directory, ".seg")) == 2
    assert store.read_now(refs(kept[1:])) == [record.body for record in kept[1:]]
    with pytest.raises(StoreCorrupt, match="checksum"):
        store.read_now(refs(kept[:1]))


def test_a_disk_that_fails_costs_nothing(stores: Any, pump: Any) -> None:
    class Failing(OsDisk):
        number = errno.ENOSPC

        def replace(self, source: Path, target: Path) -> None:
            if self.number and target.suffix == ".kept":
                raise OSError(self.number, os.strerror(self.number))
            super().replace(source, target)

    disk = Failing()
    store, kept = sparse(stores, pump, disk=disk)
    assert isinstance(compact_once(store, pump), StoreUnavailable)
    assert files(stores.directory, ".tmp") == []
    assert store.read_now(refs(kept)) == [record.body for record in kept]
    disk.number = 0
    settle(store, pump)
    assert store.read_now(refs(kept)) == [record.body for record in kept]


def test_closing_gives_up_what_is_under_way(stores: Any, pump: Any) -> None:
    store, kept = sparse(stores, pump)
    assert store.compact(lambda error: None)
    store.close()
    assert files(stores.directory, ".tmp") == []
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    assert store.read_now(refs(kept)) == [record.body for record in kept]
    store.close()
    assert not store.compact(lambda error: None)


def test_what_a_crash_left_beside_the_new_file_is_removed(stores: Any, pump: Any) -> None:
    store, kept = sparse(stores, pump, disk=FaultyDisk(OsDisk()))
    old = {name: (stores.directory / name).read_bytes() for name in files(stores.directory, ".seg")}
    settle(store, pump)
    store.close()
    left = files(stores.directory, ".seg")
    assert len(left) < len(old)
    for name, data in old.items():
        if not (stores.directory / name).exists():
            (stores.directory / name).write_bytes(data)
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    assert store.read_now(refs(kept)) == [record.body for record in kept]
    assert files(stores.directory, ".seg") == left


def test_the_offline_check_reads_compacted_files_and_removes_nothing(
    stores: Any, pump: Any
) -> None:
    store, kept = sparse(stores, pump)
    old = {name: (stores.directory / name).read_bytes() for name in files(stores.directory, ".seg")}
    settle(store, pump)
    store.close()
    for name, data in old.items():
        (stores.directory / name).write_bytes(data)
    before = sorted(path.name for path in stores.directory.iterdir())
    with contextlib.closing(StoreUnderCheck(stores.directory)) as checked:
        recovered = checked.recover()
        assert recovered.states == {1: b"state"}
        assert checked.damaged_bodies(refs(kept)) == []
    assert sorted(path.name for path in stores.directory.iterdir()) == before
    path = stores.directory / files(stores.directory, ".kept")[0]
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(kept[0].body)] ^= 1
    path.write_bytes(damaged)
    with contextlib.closing(StoreUnderCheck(stores.directory)) as checked:
        checked.recover()
        (finding,) = checked.damaged_bodies(refs(kept))
        assert path.name in finding


@pytest.mark.parametrize("offset", [0, 9, 20, 30, 40, 50, 60, 66, -1])
def test_a_damaged_file_is_refused_by_name_and_offset(stores: Any, pump: Any, offset: int) -> None:
    store, _ = sparse(stores, pump)
    settle(store, pump)
    store.close()
    path = stores.directory / files(stores.directory, ".kept")[0]
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreCorrupt, match=rf"{path.name}: offset \d+"):
        stores.make(segment_bytes=SEGMENT_BYTES).open()
    assert bytes(data) == path.read_bytes()


def test_a_file_under_another_name_is_refused(stores: Any, pump: Any) -> None:
    store, _ = sparse(stores, pump)
    settle(store, pump)
    store.close()
    path = stores.directory / files(stores.directory, ".kept")[0]
    base, end, revision = parse_kept_name(stores.directory, path.name)
    path.rename(stores.directory / kept_name(base + 1, end, revision))
    with pytest.raises(StoreCorrupt, match="renamed"):
        stores.make(segment_bytes=SEGMENT_BYTES).open()
    (stores.directory / "strange.kept").write_bytes(b"")
    with pytest.raises(StoreCorrupt, match="not a valid name"):
        stores.make(segment_bytes=SEGMENT_BYTES).open()


def test_a_lost_checkpoint_is_refused(stores: Any, pump: Any) -> None:
    store, _ = sparse(stores, pump)
    settle(store, pump)
    store.close()
    for name in files(stores.directory, ".ckpt"):
        (stores.directory / name).unlink()
    with pytest.raises(StoreCorrupt, match=r"restore the checkpoint \(\.ckpt\)"):
        stores.make(segment_bytes=SEGMENT_BYTES).open()
    assert files(stores.directory, ".kept")
