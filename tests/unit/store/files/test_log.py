"""The embedded store: places in the log, grouping, deletion, the lock."""

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from partibus.domain.errors import (
    BusError,
    InvalidOperation,
    MessageTooLarge,
    StoreCorrupt,
    StoreUnavailable,
)
from partibus.store.files import log as log_module
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.record import Record

KIB = 1024


class GatedDisk(OsDisk):
    """A sync waits until the gate is open; syncs and writes are counted."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.entered.release()
        assert self.gate.wait(20)
        self.syncs += 1
        super().sync(fd)


def body_of(number: int, length: int = KIB) -> bytes:
    return (b"%08d" % number) * (length // 8)


def records_of(*numbers: int, length: int = KIB) -> list[Record]:
    return [Record(1, 1, b"%d" % number, body_of(number, length)) for number in numbers]


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.seg"))


def fill(store: SegmentStore, pump: Any, count: int, length: int = KIB) -> list[Record]:
    records = records_of(*range(count), length=length)
    for record in records:
        assert pump.append(store, [record]) is None
    return records


def pending_bytes(store: SegmentStore) -> int:
    """What was appended and is not durable yet."""
    assert store.log_end is not None
    return store.tail - store.log_end[1]


def test_everything_that_waits_is_synced_at_once(stores: Any, pump: Any) -> None:
    disk = GatedDisk()
    store = stores.ready(disk=disk)
    disk.gate.clear()
    while disk.entered.acquire(blocking=False):
        pass
    told: list[int] = []
    store.append(records_of(0), lambda error: told.append(0))
    assert disk.entered.acquire(timeout=20)  # the first is being synced; the rest waits
    for number in range(1, 30):
        store.append(records_of(number), lambda error, number=number: told.append(number))
    syncs = disk.syncs
    assert pending_bytes(store) > 30 * KIB
    disk.gate.set()
    pump.step()
    assert told == [0]
    pump.step()
    assert told == list(range(30))
    assert disk.syncs == syncs + 2
    assert pending_bytes(store) == 0


def test_the_log_goes_on_in_a_new_segment(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=8 * KIB)
    records = fill(store, pump, 30)
    names = segments(stores.directory)
    assert len(names) == 5
    assert store.read_now([(r.position, KIB) for r in records]) == [r.body for r in records]
    sealed = [stores.directory / name for name in names]
    for path, after in pairwise(sealed):
        assert int(path.stem, 16) + path.stat().st_size == int(after.stem, 16)
    store.close()
    again = stores.make(segment_bytes=8 * KIB)
    found = [(r.position, r.body_length) for r in again.open().records]
    assert found == [(r.position, KIB) for r in records]


def test_one_group_over_several_segments(stores: Any, pump: Any) -> None:
    disk = GatedDisk()
    store = stores.ready(disk=disk, segment_bytes=8 * KIB)
    disk.gate.clear()
    told: list[int] = []
    records = records_of(*range(40))
    for number, record in enumerate(records):
        store.append([record], lambda error, number=number: told.append(number))
    disk.gate.set()
    pump.until(lambda: len(told) == 40)
    assert told == list(range(40))
    assert store.read_now([(r.position, KIB) for r in records]) == [r.body for r in records]


def test_an_entry_larger_than_a_segment_gets_one_of_its_own(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=8 * KIB)
    small = records_of(1)
    large = records_of(2, length=3_000_000)
    after = records_of(3)
    for records in (small, large, after):
        assert pump.append(store, records) is None
    assert len(segments(stores.directory)) == 3
    refs = [(r.position, len(r.body)) for r in small + large + after]
    expected = [r.body for r in small + large + after]
    assert store.read_now(refs) == expected
    assert pump.read(store, refs) == expected
    store.close()
    assert len(list(stores.make(segment_bytes=8 * KIB).open().records)) == 3


def test_a_batch_beyond_all_measure_is_refused(
    stores: Any, pump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "ENTRY_PAYLOAD_BYTES_MAX", 100)
    store = stores.ready()
    with pytest.raises(MessageTooLarge):
        store.append(records_of(1), lambda error: None)
    assert store.live_bytes == 0


def test_positions_go_on_after_a_restart(stores: Any, pump: Any) -> None:
    store = stores.ready()
    first = fill(store, pump, 3)
    store.close()
    store = stores.ready()
    second = fill(store, pump, 3)
    assert second[0].position > first[-1].position
    refs = [(r.position, KIB) for r in first + second]
    assert store.read_now(refs) == [r.body for r in first + second]


def test_a_segment_goes_when_checkpointed_and_empty(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=8 * KIB)
    records = fill(store, pump, 30)
    before = segments(stores.directory)
    for record in records[:14]:
        store.release(record.position, KIB)
    assert segments(stores.directory) == before  # nothing goes without a checkpoint
    assert pump.checkpoint(store, {1: b"s"}) is None
    assert segments(stores.directory) == before[2:]
    keep = records[20]
    for record in records[14:]:
        if record is not keep:
            store.release(record.position, KIB)
    disk_bytes = store.disk_bytes
    assert pump.checkpoint(store, {1: b"s"}) is None
    assert len(segments(stores.directory)) == 2
    assert store.disk_bytes < disk_bytes
    assert store.read_now([(keep.position, KIB)]) == [keep.body]
    with pytest.raises(StoreCorrupt):
        store.read_now([(records[0].position, KIB)])


def test_two_checkpoints_under_way_delete_a_segment_once(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=8 * KIB)
    for record in fill(store, pump, 20):
        store.release(record.position, KIB)
    told: list[BusError | None] = []
    store.checkpoint({1: b"first"}, told.append)
    store.checkpoint({1: b"second"}, told.append)
    pump.until(lambda: len(told) == 2)
    assert told == [None, None]
    assert len(segments(stores.directory)) == 1


def test_disk_bytes_are_what_the_files_take(stores: Any, pump: Any) -> None:
    def on_disk() -> int:
        return sum(p.stat().st_size for p in stores.directory.iterdir() if p.name != "lock")

    store = stores.ready(segment_bytes=8 * KIB)
    fill(store, pump, 20)
    assert store.disk_bytes == on_disk()
    pump.checkpoint(store, {1: b"s" * 999})
    assert store.disk_bytes == on_disk()
    store.close()
    store = stores.ready(segment_bytes=8 * KIB)
    assert store.disk_bytes == on_disk()


def test_a_segment_after_the_checkpoint_stays(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=8 * KIB)
    told: list[str] = []
    assert pump.append(store, records_of(0)) is None
    records = records_of(*range(30))
    for record in records:
        store.append([record], lambda error: told.append("append"))
        store.release(record.position, KIB)
    store.checkpoint({}, lambda error: told.append("checkpoint"))  # none of them was told yet
    pump.until(lambda: len(told) == 31)
    store.close()
    again = stores.make(segment_bytes=8 * KIB)
    assert [r.meta for r in again.open().records] == [r.meta for r in records]


def test_live_accounting_survives_a_restart(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=8 * KIB)
    records = fill(store, pump, 30)
    store.close()
    store = stores.ready(segment_bytes=8 * KIB)
    store.retain(records[0].position, KIB)
    assert pump.checkpoint(store, {}) is None
    left = segments(stores.directory)
    assert len(left) == 2
    assert left[0] == f"{0:016x}.seg"
    store.close()
    store = stores.ready(segment_bytes=8 * KIB)  # the gap before the checkpoint is no damage
    store.retain(records[0].position, KIB)
    assert store.read_now([(records[0].position, KIB)]) == [records[0].body]
    with pytest.raises(StoreCorrupt, match="missing"):
        store.retain(records[10].position, KIB)
    assert pump.append(store, records_of(1)) is None


def test_a_read_keeps_its_segment_until_it_is_told(stores: Any, pump: Any) -> None:
    started = threading.Event()
    go_on = threading.Event()

    class SlowReads(OsDisk):
        def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
            if flags == 0:
                started.set()
                assert go_on.wait(20)
            return super().read_into(fd, buffer, offset, flags)

    store = stores.ready(disk=SlowReads(), segment_bytes=8 * KIB)
    records = fill(store, pump, 20)
    answers: list[list[bytes] | BusError] = []
    store.read([(records[0].position, KIB)], answers.append)
    assert started.wait(20)
    for record in records:
        store.release(record.position, KIB)
    assert pump.checkpoint(store, {}) is None
    assert segments(stores.directory)[0] == f"{0:016x}.seg"
    go_on.set()
    pump.until(lambda: bool(answers))
    assert answers == [[records[0].body]]
    assert store.live_bytes == 0
    assert pump.checkpoint(store, {}) is None
    assert len(segments(stores.directory)) == 1


def test_two_stores_never_share_a_directory(stores: Any) -> None:
    store = stores.ready()
    with pytest.raises(StoreUnavailable, match=str(stores.directory)):
        stores.make().open()
    store.close()
    stores.ready()


def test_a_directory_that_can_not_be_made_is_named(stores: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        stores.make(tmp_path / "file" / "store").open()


def test_the_records_are_read_before_anything_is_appended(stores: Any, pump: Any) -> None:
    store = stores.ready()
    fill(store, pump, 2)
    store.close()
    store = stores.make()
    recovered = store.open()
    with pytest.raises(InvalidOperation):
        store.append(records_of(1), lambda error: None)
    assert len(list(recovered.records)) == 2
    assert pump.append(store, records_of(1)) is None


def test_records_read_after_the_store_was_closed_start_nothing(stores: Any, pump: Any) -> None:
    store = stores.ready()
    fill(store, pump, 2)
    store.close()
    store = stores.make()
    recovered = store.open()
    store.close()
    with pytest.raises(InvalidOperation):
        list(recovered.records)


def test_a_closed_store_refuses(stores: Any, pump: Any) -> None:
    store = stores.ready()
    records = fill(store, pump, 1)
    store.close()
    store.close()
    assert isinstance(pump.append(store, records_of(1)), StoreUnavailable)
    assert isinstance(pump.checkpoint(store, {}), StoreUnavailable)
    assert isinstance(pump.read(store, [(records[0].position, KIB)]), StoreUnavailable)


def test_closing_commits_what_waits(stores: Any, pump: Any) -> None:
    store = stores.ready()
    told: list[BusError | None] = []
    for number in range(10):
        store.append(records_of(number), told.append)
    store.close()
    pump.until(lambda: len(told) == 10)
    assert told == [None] * 10
    assert len(list(stores.make().open().records)) == 10


def test_a_checkpoint_written_while_closing_is_told(stores: Any, pump: Any) -> None:
    store = stores.ready()
    fill(store, pump, 1)
    told: list[BusError | None] = []
    store.checkpoint({3: b"state"}, told.append)
    store.close()
    pump.until(lambda: bool(told))
    assert told == [None]
    assert stores.make().open().states == {3: b"state"}


def test_threads_start_only_when_needed(stores: Any, pump: Any) -> None:
    def alive() -> list[str]:
        return sorted(t.name for t in threading.enumerate() if t.name.startswith("store-"))

    others = alive()
    store = stores.ready()
    assert alive() == [*others, "store-commit-store"]
    records = fill(store, pump, 1)
    pump.read(store, [(records[0].position, KIB)])
    assert "store-read-store" in alive()
    assert "store-keep-store" not in alive()
    pump.checkpoint(store, {})
    store.close()
    assert alive() == others


def test_a_body_that_is_not_in_memory_is_none_and_then_read(stores: Any, pump: Any) -> None:
    class ColdDisk(OsDisk):
        error: Callable[[], int] | None = None

        def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
            if flags and self.error is not None:
                return self.error()
            return super().read_into(fd, buffer, offset, flags)

    def blocks() -> int:
        raise BlockingIOError

    disk = ColdDisk()
    store = stores.ready(disk=disk)
    records = fill(store, pump, 2)
    refs = [(r.position, KIB) for r in records]
    for error in (blocks, lambda: 10):
        disk.error = error
        assert store.read_now(refs) is None
        assert pump.read(store, refs) == [r.body for r in records]


def test_a_file_system_without_nowait_is_read_plainly(stores: Any, pump: Any) -> None:
    class OldDisk(OsDisk):
        def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
            if flags:
                raise OSError(95, "not supported")
            return super().read_into(fd, buffer, offset, flags)

    store = stores.ready(disk=OldDisk())
    records = fill(store, pump, 2)
    assert store.read_now([(r.position, KIB) for r in records]) == [r.body for r in records]


def test_neighbours_are_read_by_one_call(stores: Any, pump: Any) -> None:
    class CountingDisk(OsDisk):
        reads = 0

        def read_into(self, fd: int, buffer: memoryview, offset: int, flags: int) -> int:
            count = super().read_into(fd, buffer, offset, flags)
            self.reads += 1  # a file system in memory refuses the flag first, and reads nothing
            return count

    disk = CountingDisk()
    store = stores.ready(disk=disk, segment_bytes=1 << 20)
    records = records_of(*range(50))
    pump.append(store, records[:25])
    pump.append(store, records[25:])
    refs = [(r.position, KIB) for r in records]
    assert store.read_now(refs) == [r.body for r in records]
    assert disk.reads == 1
    assert store.read_now([refs[0], refs[40], refs[1]]) is not None
    assert disk.reads == 4
