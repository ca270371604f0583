"""Pages that checkpoints share: written once, kept while they are named, verified when read."""

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.store import pages as pages_module
from partibus.store.fault_injection import FaultyDisk
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.interface import Increment, Recovered
from partibus.store.pages import FILES_MAX, SPARE_BYTES, page_files, pages_path
from partibus.store.record import Record


def content(number: int, size: int = 100) -> bytes:
    return (b"page %d " % number * size)[:size]


class PageIndex:
    """A store whose only state mentions pages."""

    def __init__(self, stores: Any, pump: Any, disk: Any = None) -> None:
        self.stores = stores
        self.pump = pump
        self.disk = disk
        self.store: SegmentStore = stores.make(disk=disk)
        self.recovered: Recovered = self.store.open()
        for _ in self.recovered.records:
            pass

    def checkpoint(
        self, new: Iterable[int], needed: Iterable[int], size: int = 100
    ) -> BusError | None:
        told: list[BusError | None] = []
        self.pump.append(self.store, [Record(1, 1, b"m", b"body")])
        pages = {n: (lambda n=n: [b"", content(n, size)]) for n in new}
        increment = Increment(self.store.position, pages, [list(needed)])
        self.store.checkpoint({1: b"state"}, told.append, increment)
        self.pump.until(lambda: bool(told))
        return told[0]

    def again(self) -> "PageIndex":
        self.store.close()
        return PageIndex(self.stores, self.pump, self.disk)

    def files(self) -> list[int]:
        return page_files(path.name for path in self.stores.directory.iterdir())

    def read(self, numbers: Iterable[int]) -> list[bytes]:
        return [self.recovered.pages.read(number) for number in numbers]


@pytest.fixture
def index(stores: Any, pump: Any) -> PageIndex:
    return PageIndex(stores, pump)


def test_pages_are_written_once_and_found_by_every_later_start(index: PageIndex) -> None:
    assert index.checkpoint([1, 2, 3], [1, 2, 3]) is None
    written = index.store.checkpoint_bytes
    assert index.checkpoint([4], [1, 3, 4]) is None
    assert 0 < index.store.checkpoint_bytes < written
    assert index.files() == [1, 2]
    again = index.again()
    assert again.recovered.pages.last == 4
    assert again.read([4, 3, 1]) == [content(n) for n in (4, 3, 1)]
    with pytest.raises(StoreCorrupt, match="lacks the page 2"):
        again.read([2])
    assert again.checkpoint([5], [5, 1]) is None  # numbers of files go on
    assert again.files() == [1, 3]


def test_files_go_with_their_last_page(index: PageIndex) -> None:
    index.checkpoint([1, 2], [1, 2])
    index.checkpoint([3], [3])
    assert index.files() == [2]
    index.checkpoint([], [])
    assert index.files() == []


def test_the_store_counts_what_they_take(index: PageIndex) -> None:
    before = index.store.disk_bytes
    index.checkpoint([1], [1], size=50_000)
    assert index.store.disk_bytes - before >= 50_000
    again = index.again()
    assert again.store.disk_bytes - before >= 50_000


def test_what_is_dead_in_page_files_is_given_back(index: PageIndex) -> None:
    size = SPARE_BYTES // 10
    index.checkpoint(range(40), range(40), size)
    index.checkpoint([40], [0, 1, 40], size)  # 38 of 40 are dead
    assert index.files() == [2]
    again = index.again()
    assert again.read([0, 40]) == [content(0, size), content(40, size)]


def test_many_small_files_become_one(index: PageIndex) -> None:
    count = FILES_MAX + 2
    for number in range(1, count + 1):
        assert index.checkpoint([number], range(1, number + 1)) is None
    assert len(index.files()) <= FILES_MAX
    numbers = range(1, count + 1)
    assert index.again().read(numbers) == [content(number) for number in numbers]


def test_strays_of_a_crash_are_removed_at_the_start(index: PageIndex) -> None:
    index.checkpoint([1], [1])
    pages_path(index.stores.directory, 77).write_bytes(b"half")
    again = index.again()
    assert again.files() == [1]
    again.checkpoint([2], [1, 2])
    assert again.files() == [1, 78]


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "header", "version", "renamed"])
def test_damage_is_an_error_that_names_the_file(index: PageIndex, damage: str) -> None:
    index.checkpoint([1], [1])
    index.checkpoint([2], [1, 2])
    index.store.close()
    path = pages_path(index.stores.directory, 1)
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "renamed":
        pages_path(index.stores.directory, 2).replace(path)
    else:
        place = {"cut": -1, "flipped": -5, "header": 20, "version": 8}[damage]
        data[place] ^= 4
        path.write_bytes(data[:-1] if damage == "cut" else data)
    again = PageIndex(index.stores, index.pump)
    with pytest.raises(StoreCorrupt, match=f"{path}: offset"):
        again.read([1])


def test_pages_that_could_not_be_written_leave_no_file(stores: Any, pump: Any) -> None:
    disk = FaultyDisk(OsDisk())
    index = PageIndex(stores, pump, disk)
    assert index.checkpoint([1], [1]) is None
    pump.append(index.store, [Record(1, 1, b"m", b"")])
    disk.space_bytes = 5000
    told: list[BusError | None] = []
    pages = {2: lambda: [bytes(100_000)]}
    increment = Increment(index.store.position, pages, [[1, 2]])
    index.store.checkpoint({}, told.append, increment)
    pump.until(lambda: bool(told))
    assert isinstance(told[0], StoreUnavailable)
    disk.heal()
    assert index.files() == [1]
    assert index.checkpoint([2], [1, 2]) is None
    assert index.again().read([1, 2]) == [content(1), content(2)]


class LateFailure(OsDisk):
    """A checkpoint gets its name, and then the directory cannot be synced."""

    def __init__(self) -> None:
        self.is_failing = False
        self._renamed = False

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        self._renamed = True

    def sync_directory(self, directory: Path) -> None:
        if self.is_failing and self._renamed:
            raise OSError(errno.EIO, "late")
        super().sync_directory(directory)


def test_a_checkpoint_that_may_have_its_name_keeps_its_pages(stores: Any, pump: Any) -> None:
    disk = LateFailure()
    index = PageIndex(stores, pump, disk)
    index.checkpoint([1], [1])
    disk._renamed, disk.is_failing = False, True
    assert isinstance(index.checkpoint([2], [2]), StoreUnavailable)
    disk.is_failing = False
    assert index.again().read([2]) == [content(2)]  # as a crash would leave it


def test_such_pages_go_with_the_next_checkpoint(stores: Any, pump: Any) -> None:
    disk = LateFailure()
    index = PageIndex(stores, pump, disk)
    index.checkpoint([1], [1])
    disk._renamed, disk.is_failing = False, True
    index.checkpoint([2], [2])
    disk.is_failing = False
    assert index.checkpoint([2], [1, 2]) is None
    assert index.files() == [1, 3]


def test_large_increments_are_synced_in_steps(
    stores: Any, pump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_module, "STEP_BYTES", 1000)
    sizes: list[int] = []

    class Counting(OsDisk):
        def write(self, fd: int, parts: list[bytes], offset: int) -> int:
            sizes.append(sum(map(len, parts)))
            return super().write(fd, parts, offset)

    index = PageIndex(stores, pump, Counting())
    index.checkpoint(range(1, 50), range(1, 50))
    assert len([size for size in sizes if 1000 <= size < 1200]) >= 4
    assert index.again().read([49]) == [content(49)]
