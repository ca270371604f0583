"""Room on the disk: when a store is short of it, and what it does then."""

import errno
from pathlib import Path
from typing import Any

import pytest

from partibus.store.fault_injection import FaultyDisk
from partibus.store.files.disk import OsDisk
from partibus.store.files.room import LOOK_BYTES, LOOK_INTERVAL_S, RESERVE_NAME, FreeMin, Room
from partibus.store.interface import StoreState
from partibus.store.record import Record

MIB = 1 << 20
TOTAL = 1000 * MIB


class SmallDisk(FaultyDisk):
    """A disk that has as much free as the test says."""

    def __init__(self, free_bytes: int) -> None:
        super().__init__(OsDisk())
        self.free_bytes = free_bytes
        self.room = lambda directory: (self.free_bytes, TOTAL)


def look(room: Room, moment: list[float]) -> bool:
    moment[0] += LOOK_INTERVAL_S
    return room.look(moment[0], 0)


def test_the_threshold_is_a_share_and_at_least_so_much() -> None:
    assert FreeMin().of(300 * MIB) == 64 * MIB
    assert FreeMin().of(100 << 30) == 5 << 30
    assert FreeMin(0.1, 0).of(300 * MIB) == 30 * MIB
    assert FreeMin(0.0, 0).of(300 * MIB) == 0


def test_a_reserve_is_taken_while_it_is_short(tmp_path: Path) -> None:
    disk = SmallDisk(65 * MIB)
    room = Room(disk, tmp_path, FreeMin())
    moment = [1.0]
    assert not look(room, moment)
    disk.free_bytes = 20 * MIB
    assert not room.look(moment[0], 0)  # it was asked just now
    assert look(room, moment)
    assert room.is_short
    assert (tmp_path / RESERVE_NAME).stat().st_size == 10 * MIB
    disk.free_bytes = 56 * MIB  # with the reserve 66: a little more is asked for
    assert not look(room, moment)
    disk.free_bytes = 62 * MIB
    assert look(room, moment)
    assert not room.is_short
    assert not (tmp_path / RESERVE_NAME).exists()


def test_a_fast_disk_is_looked_at_by_what_was_written(tmp_path: Path) -> None:
    disk = SmallDisk(500 * MIB)
    room = Room(disk, tmp_path, FreeMin())
    assert not room.look(1.0, 0)
    disk.free_bytes = 20 * MIB
    assert not room.look(1.0, LOOK_BYTES - 1)
    assert room.look(1.0, LOOK_BYTES)  # not a moment later, but much was written
    assert room.is_short


def test_the_text_says_what_to_do_and_names_no_path(tmp_path: Path) -> None:
    room = Room(SmallDisk(20 * MIB), tmp_path, FreeMin())
    look(room, [1.0])
    assert "20 MiB are free" in room.describe() and "64 MiB" in room.describe()
    assert "receive or purge" in room.describe()
    assert str(tmp_path) not in room.describe()


def test_a_file_system_that_does_not_answer_changes_nothing(tmp_path: Path) -> None:
    def silent(directory: Path) -> tuple[int, int]:
        raise OSError(errno.EIO, "no answer")

    disk = SmallDisk(20 * MIB)
    disk.room = silent
    assert not Room(disk, tmp_path, FreeMin()).look(1.0, 0)


def test_a_store_reports_that_it_is_short_and_goes_on(stores: Any, pump: Any) -> None:
    disk = SmallDisk(10 * MIB)
    store = stores.ready(disk=disk)
    assert store.shortage is not None and "almost full" in store.shortage
    assert store.state is StoreState.DEGRADED
    assert pump.append(store, [Record(1, 2, b"settled")]) is None
    assert pump.checkpoint(store, {}) is None
    disk.free_bytes = 500 * MIB
    pump.until(lambda: store.shortage is None)  # nothing is sent: it looks by itself
    assert store.state is StoreState.UP


def test_a_store_at_rest_notices_that_others_have_filled_its_disk(stores: Any, pump: Any) -> None:
    disk = SmallDisk(500 * MIB)
    store = stores.ready(disk=disk)
    disk.free_bytes = 10 * MIB
    pump.until(lambda: store.shortage is not None)
    assert store.free_bytes == 10 * MIB
    disk.free_bytes = 500 * MIB
    pump.until(lambda: store.shortage is None)
    assert store.free_bytes == 500 * MIB


@pytest.mark.parametrize("what", ["append", "checkpoint"])
def test_a_full_disk_costs_the_reserve_first(stores: Any, pump: Any, what: str) -> None:
    class FullDisk(SmallDisk):
        """Nothing is written while the reserve takes the last room."""

        reserve: Path

        def write(self, fd: int, parts: list[bytes], offset: int) -> int:
            if self.free_bytes == 10 * MIB and self.reserve.exists():
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(fd, parts, offset)

    disk = FullDisk(500 * MIB)
    disk.reserve = stores.directory / RESERVE_NAME
    store = stores.ready(disk=disk)
    told: list[str | None] = []
    store.on_state = lambda state: told.append(store.shortage)
    disk.free_bytes = 11 * MIB
    while not told:
        assert pump.append(store, [Record(1, 2, b"settled")]) is None
        if not pump.idle():
            pump.step()
    assert disk.reserve.exists()
    disk.free_bytes = 10 * MIB
    if what == "append":
        assert pump.append(store, [Record(1, 2, b"settled")]) is None
    else:
        assert pump.checkpoint(store, {1: b"state"}) is None
    assert not disk.reserve.exists()
    assert store.state is StoreState.DEGRADED


def test_a_reserve_of_an_earlier_life_is_given_up_at_the_start(stores: Any) -> None:
    stores.ready().close()
    (stores.directory / RESERVE_NAME).write_bytes(bytes(1000))
    stores.ready()
    assert not (stores.directory / RESERVE_NAME).exists()


def test_a_checkpoint_that_failed_leaves_nothing_behind(stores: Any, pump: Any) -> None:
    disk = FaultyDisk(OsDisk())
    store = stores.ready(disk=disk)
    disk.space_bytes = 100
    assert pump.checkpoint(store, {1: bytes(1000)}) is not None
    assert not list(stores.directory.glob("*.tmp"))


def test_what_stays_free_is_shown_as_it_is_written() -> None:
    assert str(FreeMin()) == "5%, at least 64M"
    assert (str(FreeMin(0.075, 0)), str(FreeMin(0.0, 200 << 20))) == ("7.5%", "200M")
