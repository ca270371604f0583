"""The probes of a server: stores write, the catalog is read, workers answer."""

import asyncio
from collections.abc import Callable

import pytest

from partibus.domain.errors import BusError, OperationTimeout, StoreUnavailable
from partibus.server.health import FRESH_S, HealthService, StoreProbe
from partibus.store.interface import StoreState


class FakeStore:
    """Takes entries, and makes them durable when it is told to."""

    def __init__(self) -> None:
        self.state = StoreState.UP
        self.waiting: list[Callable[[BusError | None], None]] = []
        self.appended = asyncio.Event()

    def append(self, records: list[object], done: Callable[[BusError | None], None]) -> None:
        assert records == []
        self.waiting.append(done)
        self.appended.set()


async def begun(store: FakeStore, probe: StoreProbe) -> "asyncio.Task[str]":
    task = asyncio.create_task(probe.state())
    await store.appended.wait()
    return task


async def test_a_store_proves_that_it_writes() -> None:
    store = FakeStore()
    probe = StoreProbe(store)
    assert probe.age_ms() is None
    first = await begun(store, probe)
    second = asyncio.create_task(probe.state())
    await asyncio.sleep(0)
    assert len(store.waiting) == 1, "those who ask at the same time share one write"
    store.waiting[0](None)
    assert (await first, await second) == ("up", "up")
    age_ms = probe.age_ms()
    assert age_ms is not None and age_ms < FRESH_S * 1000


async def test_a_store_that_goes_down_with_the_probe_is_down() -> None:
    store = FakeStore()
    probe = StoreProbe(store)
    asked = await begun(store, probe)
    store.state = StoreState.DOWN
    store.waiting[0](StoreUnavailable())
    assert await asked == "down"
    assert probe.age_ms() is None


async def test_a_store_that_is_down_is_left_to_its_own_probe() -> None:
    store = FakeStore()
    store.state = StoreState.DOWN
    assert await StoreProbe(store).state() == "down"
    assert not store.waiting


async def test_a_store_that_does_not_answer_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partibus.server.health.WRITE_S_MAX", 0.0)
    store = FakeStore()
    probe = StoreProbe(store)
    assert await probe.state() == "stuck"
    assert await probe.state() == "stuck"
    assert len(store.waiting) == 1, "one write at a time, however often it is asked"
    store.waiting[0](None)
    assert await probe.state() == "up"


class Hub:
    """Two processes, of which one answers."""

    workers = (0, 1)
    worker = 0

    async def ask(self, worker: int, name: str, payload: object) -> dict[str, object]:
        if worker == 1:
            raise OperationTimeout("Worker 1 did not answer.")
        up = {"state": "up", "age_ms": 1, "damaged": 0, "short": False}
        return {"catalog": True, "stores": {"0": up}}


async def test_workers_that_do_not_answer_are_named() -> None:
    service = HealthService(Hub(), 2)
    assert await service.alive() == {0: True, 1: False}
    report = await service.report()
    assert report.workers == {0: True, 1: False}
    assert [report.stores[number].state for number in range(2)] == ["up", "unreachable"]


async def test_a_node_probes_its_lanes_and_knows_those_of_other_nodes() -> None:
    service = HealthService(Hub(), 4, is_node=True)
    service.state_elsewhere = {1: StoreState.UP, 2: StoreState.DOWN}.get
    assert await service.alive() == {0: True}
    report = await service.report()
    assert report.workers == {0: True}
    states = {number: store.state for number, store in report.stores.items()}
    assert states == {0: "up", 1: "up", 2: "down", 3: "unreachable"}
    assert not list(report.obstacles()), "another node that is lost is no reason to restart this"
    assert list(report.defects()) == ["Store 2 is down; it is being probed."]
    assert list(report.notes()) == ["Store 3 is not served by any node."]
