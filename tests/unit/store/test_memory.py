"""What is particular to the store without a disk."""

from typing import Any

import pytest

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.store.memory import MemoryStore
from partibus.store.record import Record


def test_a_released_body_gives_its_memory_back(pump: Any) -> None:
    store = MemoryStore(notify=pump.notify)
    kept, gone = Record(1, 1, b"", b"kept"), Record(1, 1, b"", b"gone")
    assert pump.append(store, [kept, gone]) is None
    store.release(gone.position, 4)
    assert store.read_now([(kept.position, 4)]) == [b"kept"]
    with pytest.raises(StoreCorrupt):
        store.read_now([(gone.position, 4)])
    assert store.live_bytes == 4
    assert store.disk_bytes == 0


def test_records_are_not_kept_unless_asked_for(pump: Any) -> None:
    store = MemoryStore(notify=pump.notify)
    assert pump.append(store, [Record(1, 1, b"meta", b"body")]) is None
    assert list(store.open().records) == []


def test_appends_of_one_turn_are_told_in_one(pump: Any) -> None:
    store = MemoryStore(notify=pump.notify)
    told: list[BusError | None] = []
    for _ in range(5):
        store.append([Record(1, 1, b"meta")], told.append)
    pump.step()
    assert told == [None] * 5
    assert pump.idle()
    store.close()


def test_what_waits_when_it_fails_is_refused(pump: Any) -> None:
    store = MemoryStore(notify=pump.notify)
    told: list[BusError | None] = []
    record = Record(1, 1, b"meta", b"body")
    store.append([record], told.append)
    store.fail()
    pump.step()
    assert isinstance(told[0], StoreUnavailable)
    assert store.live_bytes == 0
    assert record.position == 0


def test_opening_again_loses_what_was_not_told(pump: Any) -> None:
    store = MemoryStore(notify=pump.notify, replayable=True)
    assert pump.append(store, [Record(1, 1, b"told")]) is None
    store.append([Record(1, 1, b"untold")], lambda error: None)
    assert [record.meta for record in store.open().records] == [b"told"]
