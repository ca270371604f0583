"""A store with a key: the contract of every store, and nothing readable on the disk."""

import os
from array import array
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from partibus.domain.errors import BusError, StoreCorrupt
from partibus.sealing.seal import Sealer
from partibus.store.files.log import SegmentStore
from partibus.store.interface import Increment, Recovered
from partibus.store.pages import PageSource
from partibus.store.record import Record
from partibus.store.sealed import SealedStore, boundary_of

KIB = 1024
SEGMENT_BYTES = 8 * KIB
KEY = os.urandom(32)


class Sealed:
    """Opens stores in one directory, with a key."""

    def __init__(self, stores: Any, pump: Any) -> None:
        self.directory: Path = stores.directory
        self._stores = stores
        self._pump = pump

    def plain(self) -> SegmentStore:
        store: SegmentStore = self._stores.make(segment_bytes=SEGMENT_BYTES)
        return store

    def open(self, key: bytes = KEY) -> tuple[SealedStore, Recovered, list[Any]]:
        store = SealedStore(self.directory, self.plain(), Sealer(key))
        recovered = store.open()
        return store, recovered, list(recovered.records)

    def append(self, store: Any, *numbers: int) -> list[Record]:
        records = [Record(1, 7, b"meta %d" % n, b"secret %06d" % n) for n in numbers]
        assert self._pump.append(store, records) is None
        return records

    def bytes_on_disk(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.directory.iterdir())


@pytest.fixture
def sealed(stores: Any, pump: Any) -> Sealed:
    return Sealed(stores, pump)


def refs(records: list[Record]) -> list[tuple[int, int]]:
    return [(record.position, len(record.body)) for record in records]


def test_what_was_written_is_read_and_recovered(sealed: Sealed, pump: Any) -> None:
    store, _, _ = sealed.open()
    records = sealed.append(store, 1, 2, 3)
    assert store.read_now(refs(records)) == [r.body for r in records]
    assert pump.read(store, refs(records)) == [r.body for r in records]
    store.close()
    again, _, found = sealed.open()
    assert [(r.kind, r.meta, r.position, r.body_length) for r in found] == [
        (7, r.meta, r.position, len(r.body)) for r in records
    ]
    assert again.read_now(refs(records)) == [r.body for r in records]


def test_a_record_without_a_body_stays_without(sealed: Sealed, pump: Any) -> None:
    store, _, _ = sealed.open()
    assert pump.append(store, [Record(3, 8, b"")]) is None
    store.close()
    found = sealed.open()[2]
    assert [(r.fragment, r.kind, r.meta, r.body_length) for r in found] == [(3, 8, b"", 0)]


def test_states_come_back(sealed: Sealed, pump: Any) -> None:
    store, _, _ = sealed.open()
    sealed.append(store, 1)
    assert pump.checkpoint(store, {0: b"marks", 1: b"secret state"}) is None
    store.close()
    _, recovered, found = sealed.open()
    assert recovered.states == {0: b"marks", 1: b"secret state"}
    assert found == []


def test_nothing_on_the_disk_can_be_read(sealed: Sealed, pump: Any) -> None:
    store, _, _ = sealed.open()
    sealed.append(store, *range(50))
    assert pump.checkpoint(store, {1: b"secret state"}) is None
    store.close()
    lying = sealed.bytes_on_disk()
    assert b"secret" not in lying
    assert b"meta" not in lying


def test_another_key_reads_nothing(sealed: Sealed, pump: Any) -> None:
    store, _, _ = sealed.open()
    sealed.append(store, 1)
    store.close()
    with pytest.raises(StoreCorrupt, match="decrypted"):
        sealed.open(os.urandom(32))


def test_what_was_there_before_the_key_stays_readable(sealed: Sealed, pump: Any) -> None:
    plain = sealed.plain()
    for _ in plain.open().records:
        pass
    old = sealed.append(plain, 1, 2)
    assert pump.checkpoint(plain, {1: b"state"}) is None
    old += sealed.append(plain, 3)
    plain.close()
    store, recovered, found = sealed.open()
    assert recovered.states == {1: b"state"}
    assert [r.meta for r in found] == [b"meta 3"]
    new = sealed.append(store, 4)
    for record in old:
        store.retain(record.position, len(record.body))
    assert store.read_now(refs(old + new)) == [r.body for r in old + new]
    store.close()
    assert boundary_of(sealed.directory) is not None
    store, _, found = sealed.open()
    assert [r.meta for r in found] == [b"meta 3", b"meta 4"]
    assert store.read_now(refs(old + new)) == [r.body for r in old + new]


def test_the_account_of_what_is_live_adds_up_and_is_compacted(sealed: Sealed, pump: Any) -> None:
    store, _, _ = sealed.open()
    records: list[Record] = []
    for number in range(400):
        records += sealed.append(store, number)
    kept = records[::20]
    for record in records:
        if record not in kept:
            store.release(record.position, len(record.body))
    assert pump.checkpoint(store, {1: b"state"}) is None
    told: list[BusError | None] = []
    while store.compact(told.append):
        pump.until(lambda: bool(told))
        assert told.pop() is None
    assert list(sealed.directory.glob("*.kept"))
    assert store.read_now(refs(kept)) == [r.body for r in kept]
    store.close()
    store, _, _ = sealed.open()
    for record in kept:
        store.retain(record.position, len(record.body))
    assert store.read_now(refs(kept)) == [r.body for r in kept]
    assert b"secret" not in sealed.bytes_on_disk()
    for record in kept:
        store.release(record.position, len(record.body))
    assert store.live_bytes == 0


def test_a_torn_tail_is_cut_and_its_place_is_written_with_another_key(
    sealed: Sealed, stores: Any, pump: Any
) -> None:
    """The same log position, twice: the bytes must not have the same key stream."""
    store, _, _ = sealed.open()
    (first,) = sealed.append(store, 1)
    before = stores.crashed_copy("before")
    (second,) = sealed.append(store, 2)
    store.close()
    other = SealedStore(before, stores.make(before, segment_bytes=SEGMENT_BYTES), Sealer(KEY))
    list(other.open().records)
    (again,) = [Record(1, 7, b"meta 2", b"secret 000002")]
    assert pump.append(other, [again]) is None
    assert again.position == second.position
    other.close()
    name = "0000000000000000.seg"
    start = again.position
    one = (sealed.directory / name).read_bytes()[start : start + 49]
    two = (before / name).read_bytes()[start : start + 49]
    assert one[:12] != two[:12], "another life has another salt"
    assert one[20:] != two[20:]
    assert first.position < second.position


def increment(store: Any, pages: dict[int, bytes], needed: list[int]) -> Increment:
    sources: dict[int, PageSource] = {n: partial(list, [data]) for n, data in pages.items()}
    return Increment(store.position, sources, [needed])


def test_pages_of_checkpoints_are_sealed(sealed: Sealed, pump: Any) -> None:
    store, _, _ = sealed.open()
    sealed.append(store, 1)
    pages = {1: b"secret page", 2: b"another secret"}
    assert pump.checkpoint(store, {1: b"state"}, increment(store, pages, [1, 2])) is None
    store.close()
    assert b"secret" not in sealed.bytes_on_disk()
    store, recovered, _ = sealed.open()
    assert {n: recovered.pages.read(n) for n in pages} == pages
    # Later checkpoints go on naming a page that was written once.
    assert pump.checkpoint(store, {1: b"state"}, increment(store, {3: b"new"}, [2, 3])) is None
    store.close()
    _, recovered, _ = sealed.open()
    assert [recovered.pages.read(n) for n in (2, 3)] == [pages[2], b"new"]


def test_pages_from_before_the_key_stay_readable(sealed: Sealed, pump: Any) -> None:
    plain = sealed.plain()
    for _ in plain.open().records:
        pass
    sealed.append(plain, 1)
    assert pump.checkpoint(plain, {1: b"state"}, increment(plain, {7: b"plain"}, [7])) is None
    plain.close()
    store, recovered, _ = sealed.open()
    assert recovered.pages.read(7) == b"plain"
    assert recovered.pages.last == 7
    assert pump.checkpoint(store, {1: b"state"}, increment(store, {8: b"x"}, [7, 8])) is None
    store.close()
    store, recovered, _ = sealed.open()
    assert [recovered.pages.read(n) for n in (7, 8)] == [b"plain", b"x"]
    assert pump.checkpoint(store, {1: b"state"}) is None
    store.close()
    # No page is left, yet no new one may take the number of a plain one.
    _, recovered, _ = sealed.open()
    assert recovered.pages.last == 7


def test_many_bodies_are_retained_as_they_lie_on_the_disk(sealed: Sealed, pump: Any) -> None:
    store, _, _ = sealed.open()
    records = sealed.append(store, 1, 2, 3)
    assert pump.checkpoint(store, {1: b"state"}) is None
    store.close()
    store, _, _ = sealed.open()
    lengths = array("I", [len(r.body) for r in records])
    store.retain_many(array("Q", [r.position for r in records]), lengths)
    assert list(lengths) == [len(r.body) for r in records]
    for record in records:
        store.release(record.position, len(record.body))
    assert store.live_bytes == 0
