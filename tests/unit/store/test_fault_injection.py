"""Stores that an operator breaks: how each fault begins, shows and ends."""

from collections.abc import Callable
from typing import Any

import pytest

from partibus.domain.errors import StoreUnavailable
from partibus.store.fault_injection import DiskFaults, FaultyDisk, MemoryFaults
from partibus.store.files.disk import OsDisk
from partibus.store.interface import StoreState
from partibus.store.memory import MemoryStore
from partibus.store.record import Record


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(OsDisk())


@pytest.mark.parametrize("fault", ["fail", "fill"])
def test_a_store_without_traffic_notices_that_it_is_down(
    stores: Any, pump: Any, disk: FaultyDisk, fault: str
) -> None:
    store = stores.ready(disk=disk)
    faults = DiskFaults(store, disk)
    getattr(faults, fault)()
    pump.until(lambda: store.state is StoreState.DOWN)
    assert isinstance(pump.append(store, [Record(1, 1, b"m", b"body")]), StoreUnavailable)
    faults.heal()
    pump.until(lambda: store.state is StoreState.UP)
    assert pump.append(store, [Record(1, 1, b"m", b"body")]) is None


def test_what_was_durable_survives_a_fault_and_a_restart(
    stores: Any, pump: Any, disk: FaultyDisk
) -> None:
    store = stores.ready(disk=disk)
    faults = DiskFaults(store, disk)
    assert pump.append(store, [Record(1, 1, b"before", b"")]) is None
    faults.fail()
    pump.until(lambda: store.state is StoreState.DOWN)
    faults.heal()
    pump.until(lambda: store.state is StoreState.UP)
    assert pump.append(store, [Record(1, 1, b"after", b"")]) is None
    store.close()
    again = stores.make(stores.directory)
    assert [record.meta for record in again.open().records] == [b"before", b"after"]


def test_a_delay_is_waited_for_once_a_commit(stores: Any, pump: Any, disk: FaultyDisk) -> None:
    store = stores.ready(disk=disk)
    waited: list[float] = []

    class Waiting:
        def wait(self, delay_s: float) -> None:
            waited.append(delay_s)

    disk._waiting = Waiting()  # type: ignore[assignment]
    faults = DiskFaults(store, disk)
    faults.delay(50)
    assert pump.append(store, [Record(1, 1, b"m", b"body")]) is None
    assert waited[0] == 0.05
    faults.delay(0)
    del waited[:]
    assert pump.append(store, [Record(1, 1, b"m", b"body")]) is None
    assert waited == []


class Memory:
    """A store in memory with its faults, on a loop turned by hand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[int, Callable[[], None]]] = []
        self.faults = MemoryFaults(self.soon.append, lambda ms, call: self.later.append((ms, call)))
        self.store = MemoryStore(notify=self.faults.notify)
        self.faults.attach(self.store)
        self.told: list[object] = []

    def append(self) -> None:
        self.store.append([Record(1, 1, b"m", b"body")], self.told.append)

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()


def test_memory_fails_and_heals() -> None:
    memory = Memory()
    memory.faults.fill()
    assert memory.store.state is StoreState.DOWN
    memory.append()
    memory.run()
    assert isinstance(memory.told.pop(), StoreUnavailable)
    memory.faults.heal()
    memory.faults.heal()
    assert memory.store.state is StoreState.UP
    memory.append()
    memory.run()
    assert memory.told == [None]


def test_memory_is_delayed() -> None:
    memory = Memory()
    memory.faults.delay(10)
    memory.append()
    memory.append()
    memory.run()
    assert memory.told == []
    ((delay_ms, callback),) = memory.later
    assert delay_ms == 10
    memory.faults.delay(0)
    callback()
    assert memory.told == [None, None]
