"""The checkpoint's file, and what happens around writing it."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from partibus.domain.errors import StoreCorrupt, StoreUnavailable
from partibus.store.fault_injection import FaultyDisk
from partibus.store.files import checkpoint as checkpoint_module
from partibus.store.files.checkpoint import (
    Checkpoint,
    checkpoint_path,
    read_checkpoint,
    write_checkpoint,
)
from partibus.store.files.disk import OsDisk
from partibus.store.interface import StoreState
from partibus.store.record import Record

STORE_ID = bytes(range(16))
STATES = {1: b"one", 4_000_000_000: b"", 3: b"x" * 5000}


def written(tmp_path: Path, position: int = 0x1000) -> Path:
    checkpoint = Checkpoint(STORE_ID, position, position + 5, STATES)
    write_checkpoint(OsDisk(), tmp_path, checkpoint)
    path = checkpoint_path(tmp_path, position)
    assert path.stat().st_size == checkpoint.file_bytes
    return path


def record(body: bytes = b"body") -> list[Record]:
    return [Record(1, 1, b"meta", body)]


def test_a_checkpoint_round_trips(tmp_path: Path) -> None:
    found = read_checkpoint(OsDisk(), written(tmp_path))
    assert (found.store_id, found.position, found.durable) == (STORE_ID, 0x1000, 0x1005)
    assert found.states == STATES
    assert [path.name for path in tmp_path.iterdir()] == ["0000000000001000.ckpt"]


def test_more_fragments_than_one_write_takes(tmp_path: Path) -> None:
    states = {fragment: b"state %d" % fragment for fragment in range(3000)}
    write_checkpoint(OsDisk(), tmp_path, Checkpoint(STORE_ID, 0, 0, states))
    assert read_checkpoint(OsDisk(), checkpoint_path(tmp_path, 0)).states == states


def test_damage_anywhere_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    good = path.read_bytes()
    for index in range(0, len(good), 7):
        bad = bytearray(good)
        bad[index] ^= 0x04
        path.write_bytes(bad)
        with pytest.raises(StoreCorrupt, match=f"{path}: offset"):
            read_checkpoint(OsDisk(), path)
    for length in (0, 10, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(StoreCorrupt, match=f"{path}: offset"):
            read_checkpoint(OsDisk(), path)


def test_a_renamed_checkpoint_is_refused(tmp_path: Path) -> None:
    moved = written(tmp_path).rename(checkpoint_path(tmp_path, 0x2000))
    with pytest.raises(StoreCorrupt, match="renamed"):
        read_checkpoint(OsDisk(), moved)


def test_another_version_is_refused_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_module, "CHECKPOINT_VERSION", 9)
        path = written(tmp_path)
    with pytest.raises(StoreCorrupt, match="format 9; this release reads 2"):
        read_checkpoint(OsDisk(), path)


def test_only_the_latest_is_kept(stores: Any, pump: Any) -> None:
    store = stores.ready()
    for number in range(3):
        pump.append(store, record())
        assert pump.checkpoint(store, {1: b"%d" % number}) is None
    assert len(list(stores.directory.glob("*.ckpt"))) == 1
    store.close()
    assert stores.make().open().states == {1: b"2"}


def test_an_older_one_that_a_crash_left_is_dropped(stores: Any, pump: Any) -> None:
    store = stores.ready()
    pump.append(store, record())
    pump.checkpoint(store, {1: b"old"})
    [old] = stores.directory.glob("*.ckpt")
    content = old.read_bytes()
    pump.append(store, record())
    pump.checkpoint(store, {1: b"new"})
    store.close()
    old.write_bytes(content)
    (stores.directory / "0000000000009999.tmp").write_bytes(b"half a checkpoint")
    store = stores.make()
    recovered = store.open()
    assert recovered.states == {1: b"new"}
    assert list(recovered.records) == []
    assert not old.exists()
    assert not list(stores.directory.glob("*.tmp"))


def test_a_damaged_latest_one_is_never_passed_over(stores: Any, pump: Any) -> None:
    store = stores.ready()
    pump.append(store, record())
    pump.checkpoint(store, {1: b"old"})
    [old] = stores.directory.glob("*.ckpt")
    content = old.read_bytes()
    pump.append(store, record())
    pump.checkpoint(store, {1: b"new"})
    store.close()
    [new] = stores.directory.glob("*.ckpt")
    new.write_bytes(new.read_bytes()[:-1])
    old.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=str(new)):
        stores.make().open()


def test_a_checkpoint_of_another_store_is_refused(stores: Any, pump: Any, tmp_path: Path) -> None:
    store = stores.ready()
    pump.append(store, record())
    store.close()
    write_checkpoint(OsDisk(), stores.directory, Checkpoint(STORE_ID, 0, 0, {}))
    with pytest.raises(StoreCorrupt, match="the checkpoint belongs to"):
        stores.make().open()


def test_the_same_position_twice_keeps_the_later_states(stores: Any, pump: Any) -> None:
    store = stores.ready()
    pump.append(store, record())
    pump.checkpoint(store, {1: b"first"})
    pump.checkpoint(store, {1: b"second"})
    store.close()
    assert stores.make().open().states == {1: b"second"}


def test_a_failed_checkpoint_degrades_until_one_succeeds(stores: Any, pump: Any) -> None:
    class NoRename(OsDisk):
        failing = False

        def replace(self, source: Path, target: Path) -> None:
            if self.failing:
                raise OSError(errno.EIO, "no")
            super().replace(source, target)

    disk = NoRename()
    store = stores.ready(disk=disk)
    states: list[StoreState] = []
    store.on_state = states.append
    pump.append(store, record())
    assert pump.checkpoint(store, {1: b"good"}) is None
    disk.failing = True
    pump.append(store, record())
    assert isinstance(pump.checkpoint(store, {1: b"bad"}), StoreUnavailable)
    assert states == [StoreState.DEGRADED]
    assert pump.append(store, record()) is None  # the log itself goes on
    crashed = stores.make(stores.crashed_copy())
    recovered = crashed.open()
    assert recovered.states == {1: b"good"}
    assert len(list(recovered.records)) == 2
    disk.failing = False
    assert pump.checkpoint(store, {1: b"better"}) is None
    assert states == [StoreState.DEGRADED, StoreState.UP]


def test_files_that_can_not_be_deleted_do_not_fail_the_checkpoint(stores: Any, pump: Any) -> None:
    class Sticky(OsDisk):
        def remove(self, path: Path) -> None:
            raise OSError(errno.EPERM, "no")

    store = stores.ready(disk=Sticky(), segment_bytes=4096)
    for _ in range(5):
        records = record(b"x" * 2000)
        pump.append(store, records)
        store.release(records[0].position, 2000)
    files = len(list(stores.directory.glob("*.seg")))
    assert pump.checkpoint(store, {1: b"s"}) is None
    assert len(list(stores.directory.glob("*.seg"))) == files
    store.close()
    store = stores.ready(segment_bytes=4096)  # the next start meets them, and a checkpoint frees
    assert pump.checkpoint(store, {1: b"s"}) is None
    assert len(list(stores.directory.glob("*.seg"))) == 1


def test_commits_go_on_while_a_checkpoint_is_written(stores: Any, pump: Any) -> None:
    go_on = threading.Event()

    class SlowRename(OsDisk):
        def replace(self, source: Path, target: Path) -> None:
            if target.suffix == ".ckpt":
                assert go_on.wait(20)
            super().replace(source, target)

    store = stores.ready(disk=SlowRename())
    told: list[object] = []
    store.checkpoint({1: b"s"}, told.append)
    assert pump.append(store, record()) is None
    assert told == []
    go_on.set()
    pump.until(lambda: told == [None])


def test_a_full_disk_fails_the_checkpoint_and_nothing_else(stores: Any, pump: Any) -> None:
    disk = FaultyDisk(OsDisk())
    store = stores.ready(disk=disk)
    pump.append(store, record())
    disk.space_bytes = 100
    assert isinstance(pump.checkpoint(store, {1: b"s" * 1000}), StoreUnavailable)
    disk.heal()
    assert store.state is StoreState.DEGRADED
    assert pump.append(store, record()) is None
