"""The moment of a backup and the time for which its files are held, the clock turned by hand."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    EntityNotFound,
    InvalidOperation,
    OperationTimeout,
    StoreUnavailable,
)
from partibus.server.config import ServeSettings
from partibus.server.operators.backups import FREEZE, LEASE_MS, LOOK_MS, PIN, THAW, BackupService
from partibus.store.files.log import SegmentStore
from partibus.store.record import Record
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler


class OneStore:
    """What the service wants of a broker: its store."""

    def __init__(self, store: SegmentStore) -> None:
        self.store = store


class Bench:
    """Two stores of one process, and its service."""

    def __init__(self, data: Path) -> None:
        self.settings = ServeSettings(data=data, stores=2)
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        loop = asyncio.get_running_loop()
        self.stores = []
        for directory in self.settings.store_directories:
            store = SegmentStore(directory, notify=loop.call_soon_threadsafe)
            for _ in store.open().records:
                pass
            self.stores.append(store)
        self.catalog = Catalog(data / "catalog.db", stores=2)
        self.control = ControlHub()
        brokers: Any = {number: OneStore(store) for number, store in enumerate(self.stores)}
        self.service = BackupService(
            self.settings,
            data / "catalog.db",
            brokers,
            self.control,
            self.clock,
            self.scheduler,
        )

    async def append(self, number: int) -> BusError | None:
        told: asyncio.Future[BusError | None] = asyncio.get_running_loop().create_future()
        self.stores[number].append([Record(1, 1, b"m", b"body")], told.set_result)
        return await told

    def close(self) -> None:
        self.service.stop()
        for store in self.stores:
            store.close()
        self.catalog.close()


@pytest.fixture
async def bench(tmp_path: Path) -> Any:
    made = Bench(tmp_path / "data")
    yield made
    made.close()


async def test_everything_is_captured(bench: Bench) -> None:
    bench.catalog.create("orders", QueueSpec())
    assert await bench.append(0) is None
    begun = await bench.service.begin()
    assert sorted(begun["stores"]) == ["0", "1"]
    assert begun["stores"]["0"]["position"] > begun["stores"]["1"]["position"]
    name, length, _ = begun["stores"]["0"]["files"][0]
    path, told = await bench.service.file(begun["id"], 0, name)
    assert (path.name, told) == (name, length)
    assert await bench.append(0) is None, "the store goes on"


async def test_a_file_that_was_not_captured_is_not_there(bench: Bench) -> None:
    begun = await bench.service.begin()
    with pytest.raises(EntityNotFound):
        await bench.service.file(begun["id"], 0, "../catalog.db")
    with pytest.raises(InvalidOperation, match="has ended"):
        await bench.service.file("another", 0, "durable")


async def test_one_backup_at_a_time(bench: Bench) -> None:
    begun = await bench.service.begin()
    with pytest.raises(InvalidOperation, match=begun["id"]):
        await bench.service.begin()
    await bench.service.end(begun["id"])
    await bench.service.begin()


async def test_a_backup_that_nobody_reads_is_given_up(bench: Bench) -> None:
    begun = await bench.service.begin()
    bench.scheduler.advance_ms(LEASE_MS // 2)
    await bench.service.renew(begun["id"])
    bench.scheduler.advance_ms(LEASE_MS)
    await bench.service.renew(begun["id"])
    bench.scheduler.advance_ms(LEASE_MS + 2 * LOOK_MS)
    with pytest.raises(InvalidOperation, match="nothing was read for 60 seconds"):
        await bench.service.renew(begun["id"])
    await bench.service.begin()


async def test_messages_come_before_backups_when_the_disk_fills_up(bench: Bench) -> None:
    begun = await bench.service.begin()
    bench.stores[1].room_changed("almost full")
    bench.scheduler.advance_ms(LOOK_MS)
    with pytest.raises(InvalidOperation, match="disk of store 1 is almost full"):
        await bench.service.renew(begun["id"])
    with pytest.raises(StoreUnavailable, match="almost full"):
        await bench.service.begin()
    bench.stores[1].room_changed(None)
    await bench.service.begin()


async def test_a_freeze_ends_by_itself(bench: Bench) -> None:
    await bench.control.ask(0, PIN, {"id": "x"})
    await bench.control.ask(0, FREEZE, {"id": "x"})
    waiting = asyncio.ensure_future(bench.append(0))
    bench.scheduler.advance_ms(5_000)
    assert await waiting is None
    assert await bench.control.ask(0, THAW, {"id": "x"}) == {"is_whole": False}


async def test_a_moment_that_was_not_common_to_all_does_not_count(bench: Bench) -> None:
    """Another worker that went on too early, each time."""

    class Hasty:
        numbers = (1,)

        async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
            return {"is_whole": False}

    bench.control.reach(Hasty())
    with pytest.raises(OperationTimeout, match="same moment"):
        await bench.service.begin()
    assert await bench.append(0) is None


async def test_a_worker_that_does_not_answer_ends_the_attempt(bench: Bench) -> None:
    class Silent:
        numbers = (1,)

        async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
            raise OperationTimeout(f"Worker {worker} did not answer")

    bench.control.reach(Silent())
    with pytest.raises(OperationTimeout, match="did not answer"):
        await bench.service.begin()
    assert await bench.append(0) is None
    with pytest.raises(InvalidOperation, match="has ended"):
        await bench.control.ask(0, FREEZE, {"id": "any"})


async def test_a_store_that_is_down_is_said(bench: Bench) -> None:
    bench.stores[1].close()
    with pytest.raises(StoreUnavailable):
        await bench.service.begin()
    assert await bench.append(0) is None


async def test_memory_has_no_backups() -> None:
    clock = ManualClock()
    settings = ServeSettings(memory=True)
    service = BackupService(settings, None, {}, ControlHub(), clock, ManualScheduler(clock))
    with pytest.raises(ArgumentError, match="in memory"):
        await service.begin()
