"""Which stores a process makes, and which of them can be broken on demand."""

from pathlib import Path

import pytest

from partibus.server.config import ServeSettings
from partibus.server.stores import StoreMaker
from partibus.store.fault_injection import DiskFaults, FaultyDisk, MemoryFaults
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.interface import StoreState
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler


def maker(**settings: object) -> StoreMaker:
    scheduler = ManualScheduler(ManualClock())
    return StoreMaker(ServeSettings(**settings), scheduler.call_soon, scheduler)  # type: ignore[arg-type]


@pytest.mark.parametrize("memory", [True, False])
def test_without_faults_nothing_stands_between_a_store_and_its_work(
    tmp_path: Path, memory: bool
) -> None:
    stores = maker(memory=memory, data=tmp_path, stores=2)
    store = stores.make(1)
    assert stores.faults == {}
    if isinstance(store, SegmentStore):
        assert isinstance(store._disk, OsDisk)
        assert store._directory == tmp_path / "store-1"
    else:
        assert isinstance(store, MemoryStore) and memory


def test_with_faults_a_store_on_disk_can_be_broken(tmp_path: Path) -> None:
    stores = maker(data=tmp_path, stores=2, faults=True)
    store = stores.make(1)
    assert isinstance(store, SegmentStore) and isinstance(store._disk, FaultyDisk)
    assert isinstance(stores.faults[1], DiskFaults)


def test_with_faults_a_store_in_memory_can_be_broken() -> None:
    stores = maker(memory=True, faults=True)
    store = stores.make(0)
    faults = stores.faults[0]
    assert isinstance(faults, MemoryFaults)
    faults.fail()
    assert store.state is StoreState.DOWN
