"""A store is captured at one moment: what was durable then is in the copy, and nothing else."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.store.files.capture import Capture
from partibus.store.files.log import SegmentStore
from partibus.store.record import Record

KIB = 1024
SEGMENT_BYTES = 8 * KIB


def body_of(number: int) -> bytes:
    return (b"%08d" % number) * (KIB // 8)


def fill(store: SegmentStore, pump: Any, first: int, count: int) -> list[Record]:
    records = [Record(1, 1, b"m", body_of(number)) for number in range(first, first + count)]
    for record in records:
        assert pump.append(store, [record]) is None
    return records


def captured(store: SegmentStore) -> Capture:
    store.pin()
    try:
        return store.freeze()
    finally:
        store.thaw()


def copy(capture: Capture, source: Path, target: Path) -> Path:
    target.mkdir()
    for file in capture.files(source):
        content = (source / file.name).read_bytes()
        assert len(content) >= file.length
        (target / file.name).write_bytes(content[: file.length])
    (target / "durable").write_bytes(capture.watermark)
    return target


def bodies(stores: Any, directory: Path) -> list[int]:
    """The numbers of the records that a store recovers, in their order."""
    store = stores.make(directory, segment_bytes=SEGMENT_BYTES)
    positions = [(r.position, r.body_length) for r in store.open().records]
    found = [int(store.read_now([ref])[0][:8]) for ref in positions]
    store.close()
    return found


def test_a_copy_has_what_was_durable_and_nothing_of_later(
    stores: Any, pump: Any, tmp_path: Path
) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    fill(store, pump, 0, 17)
    capture = captured(store)
    fill(store, pump, 17, 20)
    place = copy(capture, stores.directory, tmp_path / "copy")
    store.unpin()
    assert bodies(stores, place) == list(range(17))


def test_a_copy_goes_on_where_it_was_cut(stores: Any, pump: Any, tmp_path: Path) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    fill(store, pump, 0, 17)
    place = copy(captured(store), stores.directory, tmp_path / "copy")
    again = stores.ready(place, segment_bytes=SEGMENT_BYTES)
    fill(again, pump, 17, 10)
    again.close()
    assert bodies(stores, place) == list(range(27))


def test_an_empty_store_can_be_copied(stores: Any, pump: Any, tmp_path: Path) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    place = copy(captured(store), stores.directory, tmp_path / "copy")
    assert bodies(stores, place) == []


def test_nothing_is_told_while_a_store_is_frozen(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    store.pin()
    position = store.freeze().position
    told: list[BusError | None] = []
    store.append([Record(1, 1, b"m", body_of(1))], told.append)
    assert pump.idle()
    assert store.thaw()
    pump.until(lambda: bool(told))
    assert told == [None]
    assert captured(store).position > position
    assert not store.thaw(), "it went on already"


def test_a_frozen_store_can_be_closed(stores: Any, pump: Any) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    store.freeze()
    told: list[BusError | None] = []
    store.append([Record(1, 1, b"m", body_of(1))], told.append)
    store.close()
    pump.until(lambda: bool(told))
    assert told == [None]


def test_a_closed_store_is_not_captured(stores: Any) -> None:
    store = stores.ready()
    store.close()
    with pytest.raises(StoreUnavailable, match="down"):
        store.freeze()


def test_files_stay_while_they_are_pinned(stores: Any, pump: Any, tmp_path: Path) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    records = fill(store, pump, 0, 70)
    capture = captured(store)
    for record in records:
        if int(record.body[:8]) % 7:
            store.release(record.position, len(record.body))
    assert pump.checkpoint(store, {1: b"state"}) is None
    told: list[BusError | None] = []
    while store.compact(told.append):
        pump.until(lambda: bool(told))
        told.clear()
    assert list(stores.directory.glob("*.kept")), "nothing was compacted"
    place = copy(capture, stores.directory, tmp_path / "copy")
    assert bodies(stores, place) == list(range(70))
    before = len(list(stores.directory.glob("*.seg")))
    store.unpin()
    assert len(list(stores.directory.glob("*.seg"))) < before


def test_what_was_compacted_is_copied_too(stores: Any, pump: Any, tmp_path: Path) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    records = fill(store, pump, 0, 70)
    kept = records[::7]
    for record in records:
        if record not in kept:
            store.release(record.position, len(record.body))
    assert pump.checkpoint(store, {1: b"state"}) is None
    told: list[BusError | None] = []
    while store.compact(told.append):
        pump.until(lambda: bool(told))
        told.clear()
    place = copy(captured(store), stores.directory, tmp_path / "copy")
    again = stores.make(place, segment_bytes=SEGMENT_BYTES)
    recovered = again.open()
    assert recovered.states == {1: b"state"}
    assert list(recovered.records) == []
    found = again.read_now([(record.position, KIB) for record in kept])
    assert found == [record.body for record in kept]


def test_a_stamp_is_the_same_until_a_file_changes(stores: Any, pump: Any, tmp_path: Path) -> None:
    store = stores.ready(segment_bytes=SEGMENT_BYTES)
    fill(store, pump, 0, 17)
    first = {file.name: file.stamp for file in captured(store).files(stores.directory)}
    fill(store, pump, 17, 1)
    second = {file.name: file.stamp for file in captured(store).files(stores.directory)}
    names = sorted(first)
    assert [first[name] == second[name] != "" for name in names[:-1]] == [True] * (len(names) - 1)
    assert first[names[-1]] == "", "the segment that is written to grows"
    shutil.copytree(stores.directory, tmp_path / "elsewhere")
    other = Capture(b"", 1 << 62, [names[0]]).files(tmp_path / "elsewhere")
    assert other[0].stamp != first[names[0]]
