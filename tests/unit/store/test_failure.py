"""A disk that fails, fills up or crawls."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.store.fault_injection import FaultyDisk
from partibus.store.files.disk import OsDisk
from partibus.store.interface import StoreState
from partibus.store.record import ENTRY_HEADER_BYTES, Record

KIB = 1024
NEVER_S = 1e6


def records_of(*names: bytes, length: int = KIB) -> list[Record]:
    return [Record(1, 1, name, (name * length)[:length]) for name in names]


def metas(stores: Any, directory: Path, segment_bytes: int = 1 << 16) -> list[bytes]:
    store = stores.make(directory, segment_bytes=segment_bytes)
    try:
        return [record.meta for record in store.open().records]
    finally:
        store.close()


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(OsDisk())


@pytest.mark.parametrize("fault", ["write_errno", "sync_errno"])
def test_positions_restart_at_the_last_durable_one(
    stores: Any, pump: Any, disk: FaultyDisk, fault: str
) -> None:
    store = stores.ready(disk=disk)
    kept = records_of(b"kept")
    assert pump.append(store, kept) is None
    setattr(disk, fault, errno.EIO)
    lost = records_of(b"lost")
    assert isinstance(pump.append(store, lost), StoreUnavailable)
    disk.heal()
    pump.until(lambda: store.state is StoreState.UP)
    again = records_of(b"again")
    assert pump.append(store, again) is None
    assert again[0].position == lost[0].position + ENTRY_HEADER_BYTES + 1  # the probe; "again"
    store.close()
    assert metas(stores, stores.directory) == [b"kept", b"again"]


def test_a_refused_entry_never_comes_back(stores: Any, pump: Any, disk: FaultyDisk) -> None:
    """It lies on the disk whole; once refused, the log must not grow up to it again."""
    store = stores.ready(disk=disk)
    disk.sync_errno = errno.EIO
    lost = [records_of(b"lost%d" % number, length=100) for number in range(20)]
    told: list[BusError | None] = []
    for records in lost:
        store.append(records, told.append)
    pump.until(lambda: len(told) == 20)
    disk.heal()
    pump.until(lambda: store.state is StoreState.UP)
    crashed = stores.crashed_copy()
    content = (crashed / f"{0:016x}.seg").read_bytes()
    assert b"lost" not in content
    assert metas(stores, crashed) == []


def test_a_refused_entry_is_cut_before_anybody_hears_of_it(
    stores: Any, pump: Any, disk: FaultyDisk
) -> None:
    """A process that is killed after the refusal, and before the disk answers a probe, must not
    leave the entry to the next start: its sender was told that it is not stored."""
    store = stores.ready(disk=disk, probe_interval_s=NEVER_S)
    disk.sync_errno = errno.EIO
    assert isinstance(pump.append(store, records_of(b"lost")), StoreUnavailable)
    assert metas(stores, stores.crashed_copy()) == []


def test_a_refusal_is_told_before_a_recovery_that_was_on_its_way(
    stores: Any, pump: Any, disk: FaultyDisk
) -> None:
    """Whoever hears "up" may append at once, so nobody may still believe in a refused append."""
    store = stores.ready(disk=disk)
    disk.sync_errno = errno.EIO
    assert pump.append(store, records_of(b"lost")) is not None
    disk.heal()
    recovery = pump.take()
    events: list[str] = []
    store.on_state = lambda state: events.append(state.value)
    store.append(records_of(b"late"), lambda error: events.append("refused" if error else "kept"))
    recovery()
    assert events == ["refused", "up"]
    pump.step()  # the refusal's own callback has nothing left to report
    assert events == ["refused", "up"]


def test_an_append_between_a_failure_and_its_news_is_refused_after_it(
    stores: Any, pump: Any, disk: FaultyDisk
) -> None:
    store = stores.ready(disk=disk)
    disk.sync_errno = errno.EIO
    events: list[str] = []
    store.append(records_of(b"first"), lambda error: events.append(f"first {error is None}"))
    failure = pump.take()
    assert store.state is StoreState.UP  # the loop has not heard of it
    store.append(records_of(b"second"), lambda error: events.append(f"second {error is None}"))
    failure()
    disk.heal()
    pump.until(lambda: store.state is StoreState.UP)
    assert events == ["first False", "second False"]
    assert store.live_bytes == 0
    assert pump.append(store, records_of(b"third")) is None


def test_a_full_disk_is_down_until_there_is_space(stores: Any, pump: Any, disk: FaultyDisk) -> None:
    store = stores.ready(disk=disk, segment_bytes=8 * KIB)
    disk.space_bytes = 7 * KIB + 500  # what is reserved may be filled; no next segment fits
    kept: list[bytes] = []
    number = 0
    while store.state is StoreState.UP:
        name = b"%d" % number
        if pump.append(store, records_of(name)) is None:
            kept.append(name)
        number += 1
    assert len(kept) >= 5
    assert isinstance(pump.append(store, records_of(b"refused")), StoreUnavailable)
    assert store.state is StoreState.DOWN
    disk.heal()
    pump.until(lambda: store.state is StoreState.UP)
    assert pump.append(store, records_of(b"after")) is None
    store.close()
    assert metas(stores, stores.directory, 8 * KIB) == [*kept, b"after"]


def test_the_last_segment_stays_until_the_next_one_is_there(stores: Any, pump: Any) -> None:
    """A checkpoint while the next segment could not be made: the old one holds nothing that is
    needed, but the log continues behind it (simulator: seed 700002428, 2,000 steps)."""

    class NoNewSegments(OsDisk):
        full = False

        def allocate(self, fd: int, length: int) -> None:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            super().allocate(fd, length)

    disk = NoNewSegments()
    store = stores.ready(disk=disk, segment_bytes=8 * KIB)
    for number in range(6):
        record = records_of(b"%d" % number)
        assert pump.append(store, record) is None
        store.release(record[0].position, KIB)
    disk.full = True
    refused: list[BusError | None] = []
    store.append(records_of(b"too long", length=4 * KIB), refused.append)
    assert pump.checkpoint(store, {1: b"state"}) is None
    pump.until(lambda: bool(refused))
    assert isinstance(refused[0], StoreUnavailable)
    assert len(metas(stores, stores.crashed_copy(), 8 * KIB)) == 0
    disk.full = False
    pump.until(lambda: store.state is StoreState.UP)
    assert pump.append(store, records_of(b"after")) is None
    store.close()
    assert metas(stores, stores.directory, 8 * KIB) == [b"after"]


def test_a_disk_that_stays_full_does_not_flap(stores: Any, pump: Any) -> None:
    """The probe must make the segment that could not be made, not only write somewhere."""
    probed = threading.Semaphore(0)

    class Full(OsDisk):
        full = False

        def allocate(self, fd: int, length: int) -> None:
            if self.full:
                probed.release()
                raise OSError(errno.ENOSPC, "No space left on device")
            super().allocate(fd, length)

    disk = Full()
    store = stores.ready(disk=disk, segment_bytes=8 * KIB)
    states: list[StoreState] = []
    store.on_state = states.append
    disk.full = True
    while store.state is StoreState.UP:
        pump.append(store, records_of(b"x"))
    for _ in range(5):
        assert probed.acquire(timeout=20)
    assert pump.idle()
    assert states == [StoreState.DOWN]
    disk.full = False
    pump.until(lambda: store.state is StoreState.UP)
    for _ in range(20):
        assert pump.append(store, records_of(b"y")) is None


def test_failing_while_entries_wait_for_several_segments(
    stores: Any, pump: Any, disk: FaultyDisk
) -> None:
    store = stores.ready(disk=disk, segment_bytes=8 * KIB)
    assert pump.append(store, records_of(b"kept")) is None
    disk.sync_errno = errno.EIO
    told: list[BusError | None] = []
    for number in range(40):
        store.append(records_of(b"%d" % number), told.append)
    pump.until(lambda: len(told) == 40)
    assert all(isinstance(error, StoreUnavailable) for error in told)
    assert store.live_bytes == KIB
    disk.heal()
    pump.until(lambda: store.state is StoreState.UP)
    names = [b"new%d" % number for number in range(20)]
    for name in names:
        assert pump.append(store, records_of(name)) is None
    store.close()
    assert metas(stores, stores.directory, 8 * KIB) == [b"kept", *names]


def test_failing_again_and_again(stores: Any, pump: Any, disk: FaultyDisk) -> None:
    store = stores.ready(disk=disk, segment_bytes=8 * KIB)
    kept: list[bytes] = []
    for number in range(40):
        if number % 3 == 2:
            disk.sync_errno = errno.EIO
        name = b"%d" % number
        if pump.append(store, records_of(name)) is None:
            kept.append(name)
        disk.heal()
        pump.until(lambda: store.state is StoreState.UP)
    assert len(kept) == 27
    store.close()
    assert metas(stores, stores.directory, 8 * KIB) == kept


def test_a_short_write_is_finished(stores: Any, pump: Any) -> None:
    class Short(OsDisk):
        def write(self, fd: int, parts: list[bytes], offset: int) -> int:
            return super().write(fd, [b"".join(parts)[:100]], offset)

    store = stores.ready(disk=Short())
    records = records_of(b"a", b"b")
    assert pump.append(store, records) is None
    assert store.read_now([(r.position, KIB) for r in records]) == [r.body for r in records]


def test_a_bug_in_the_commit_is_a_failure_too(stores: Any, pump: Any) -> None:
    class Broken(OsDisk):
        broken = False

        def write(self, fd: int, parts: list[bytes], offset: int) -> int:
            if self.broken:
                raise ZeroDivisionError
            return super().write(fd, parts, offset)

    disk = Broken()
    store = stores.ready(disk=disk)
    disk.broken = True
    assert isinstance(pump.append(store, records_of(b"a")), StoreUnavailable)
    disk.broken = False
    pump.until(lambda: store.state is StoreState.UP)
    assert pump.append(store, records_of(b"b")) is None


def test_a_slow_disk_degrades_and_recovers(stores: Any, pump: Any, disk: FaultyDisk) -> None:
    store = stores.make(disk=disk, slow_commit_s=0.0)
    store.open()
    states: list[StoreState] = []
    store.on_state = states.append
    assert pump.append(store, records_of(b"slow")) is None
    pump.until(lambda: bool(states))
    assert states == [StoreState.DEGRADED]
    store._slow_commit_s = 1000.0
    assert pump.append(store, records_of(b"quick")) is None
    pump.until(lambda: len(states) == 2)
    assert states[-1] is StoreState.UP


def test_a_delay_only_delays(stores: Any, pump: Any, disk: FaultyDisk) -> None:
    store = stores.ready(disk=disk)
    disk.delay_s = 0.001
    assert pump.append(store, records_of(b"late")) is None
    assert store.state is StoreState.UP


def test_a_store_that_is_down_can_be_closed(stores: Any, pump: Any, disk: FaultyDisk) -> None:
    store = stores.ready(disk=disk, probe_interval_s=NEVER_S)
    assert pump.append(store, records_of(b"kept")) is None
    disk.write_errno = errno.EROFS
    assert isinstance(pump.append(store, records_of(b"lost")), StoreUnavailable)
    store.close()
    disk.heal()
    assert metas(stores, stores.directory) == [b"kept"]


def test_a_read_that_fails_says_so_and_the_store_stays_up(
    stores: Any, pump: Any, disk: FaultyDisk
) -> None:
    store = stores.ready(disk=disk)
    [record] = records_of(b"kept")
    assert pump.append(store, [record]) is None
    disk.read_errno = errno.EIO
    ref = (record.position, KIB)
    with pytest.raises(StoreUnavailable, match=r"\.seg cannot be read"):
        store.read_now([ref])
    assert isinstance(pump.read(store, [ref]), StoreUnavailable)
    disk.heal()
    assert store.read_now([ref]) == [record.body]
    assert store.state is StoreState.UP
    assert store.live_bytes == KIB


def test_a_disk_that_can_not_be_read_at_the_start_is_unavailable(
    stores: Any, disk: FaultyDisk
) -> None:
    stores.ready().close()
    disk.read_errno = errno.EIO
    store = stores.make(disk=disk)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        store.open()
    disk.heal()
    stores.make().open()  # the lock was given back


def test_a_watermark_that_can_not_be_synced_stops_nothing(
    stores: Any, pump: Any, disk: FaultyDisk, caplog: pytest.LogCaptureFixture
) -> None:
    store = stores.ready(disk=disk)
    assert pump.append(store, records_of(b"kept")) is None
    disk.sync_errno = errno.EIO
    store.close()
    disk.heal()
    assert metas(stores, stores.directory) == [b"kept"]


def test_a_closed_loop_does_not_end_the_thread(stores: Any, pump: Any, tmp_path: Path) -> None:
    from partibus.store.files.log import SegmentStore

    closed = threading.Event()

    def gone(callback: object) -> None:
        closed.set()
        raise RuntimeError("Event loop is closed")

    store = SegmentStore(tmp_path / "gone", notify=gone)
    store.open()
    store.append(records_of(b"a"), lambda error: None)
    assert closed.wait(20)
    store.append(records_of(b"b"), lambda error: None)
    store.close()
    assert metas(stores, tmp_path / "gone") == [b"a", b"b"]
