"""Changes of a namespace with several workers: refused, written, followed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.catalog import Catalog
from partibus.control.placement import FRAGMENT_BYTES
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import (
    CatalogBusy,
    EntityExists,
    EntityNotFound,
    OperationConflict,
    OperationTimeout,
    StoreUnavailable,
)
from partibus.domain.rights import Rights
from partibus.server import live as live_module
from partibus.server.data_directory.catalog_writer import CatalogWriter
from partibus.server.follower import INTERVAL_MS, Follower
from partibus.server.live import ServerNamespace
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler

STORES = 4
PARTITIONED = QueueSpec(enable_partitioning=True, fragments=4)


class Far:
    """The other worker, in the same test."""

    def __init__(self, hub: ControlHub) -> None:
        self.hub = hub
        self.numbers = [1]
        self.answers = True
        self.gate = asyncio.Event()
        self.gate.set()

    async def ask(self, worker: int, name: str, payload: Payload) -> Payload:
        await self.gate.wait()
        if not self.answers:
            raise OperationTimeout
        return self.hub.answer(name, payload)


class Bench:
    """Two workers over one catalog; changes are asked of the first."""

    def __init__(self, file: Path, writes_apart: bool) -> None:
        self.down: set[int] = set()
        self.scheduler = ManualScheduler(ManualClock())
        self.catalogs = [Catalog(file, stores=STORES) for _ in range(2)]
        hubs = [ControlHub(number) for number in range(2)]
        for catalog, hub in zip(self.catalogs, hubs, strict=True):
            Follower(catalog, self.scheduler).start(hub)
        self.far = Far(hubs[1])
        hubs[0].reach(self.far)
        self.full: dict[int, int] = {}
        again = partial(Catalog, file, stores=STORES) if writes_apart else None
        self.writer = CatalogWriter(self.catalogs[0], again)
        self.live = ServerNamespace(self.catalogs[0], hubs[0], self, self.writer)

    def is_available(self, store: int) -> bool:
        return store not in self.down

    def live_bytes(self, store: int) -> int:
        return self.full.get(store, 0)

    @property
    def other(self) -> Catalog:
        return self.catalogs[1]


@pytest.fixture(params=[False, True], ids=["by the loop", "beside the loop"])
async def bench(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "catalog.db", request.param)
    yield made
    made.writer.close()
    for catalog in made.catalogs:
        catalog.close()


async def test_when_a_change_is_answered_every_worker_follows_it(bench: Bench) -> None:
    record = await bench.live.create("a", PARTITIONED)
    assert bench.other.entity("a") == record
    await bench.live.update("a", QueueSpec(**_as(PARTITIONED), max_delivery_count=3))
    assert bench.other.entity("a").queue.max_delivery_count == 3
    await bench.live.put_policy("a", AccessPolicy("p", "k1", "k2", Rights.SEND))
    assert bench.other.policy("a", "p") is not None
    await bench.live.delete_policy("a", "p")
    assert bench.other.policies("a") == ()
    await bench.live.delete("a")
    assert bench.other.lookup("a") is None


def _as(spec: QueueSpec) -> dict[str, object]:
    return {"enable_partitioning": spec.enable_partitioning, "fragments": spec.fragments}


@pytest.mark.rule("SAS-7")
async def test_a_key_is_made_anew(bench: Bench) -> None:
    await bench.live.put_policy("", AccessPolicy("p", "k1", "k2", Rights.SEND))
    first = await bench.live.regenerate_key("", "p", "primary")
    assert first.primary_key not in ("k1", "k2") and first.secondary_key == "k2"
    second = await bench.live.regenerate_key("", "p", "secondary")
    assert second.primary_key == first.primary_key and second.secondary_key != "k2"
    assert bench.other.policy("", "p") == second
    with pytest.raises(EntityNotFound):
        await bench.live.regenerate_key("", "nobody", "primary")


@pytest.mark.rule("PAV-5", "SEED-60")
async def test_a_store_that_is_down_refuses_what_concerns_it(bench: Bench) -> None:
    await bench.live.create("wide", PARTITIONED)
    narrow = await bench.live.create("narrow", QueueSpec())
    bench.down = {2}
    for change in (
        bench.live.create("more", PARTITIONED),
        bench.live.update("wide", QueueSpec(**_as(PARTITIONED), max_delivery_count=3)),
        bench.live.delete("wide"),
    ):
        with pytest.raises(StoreUnavailable, match="store 2"):
            await change
    assert bench.catalogs[0].lookup("more") is None
    assert bench.catalogs[0].entity("wide").queue.max_delivery_count == 10
    assert narrow.fragments[0].store not in bench.down
    await bench.live.delete("narrow")
    await bench.live.put_policy("wide", AccessPolicy("p", "k1", "k2", Rights.SEND))
    bench.down = set()
    await bench.live.create("more", PARTITIONED)


async def test_what_fits_elsewhere_is_created_while_a_store_is_down(bench: Bench) -> None:
    """Each try used to choose the same store again."""
    bench.down = {0}
    stores = [(await bench.live.create(f"q{n}", QueueSpec())).fragments[0].store for n in range(6)]
    assert stores == [1, 2, 3, 1, 2, 3]
    few = QueueSpec(enable_partitioning=True, fragments=2)
    assert {p.store for p in (await bench.live.create("few", few)).fragments} <= {1, 2, 3}
    bench.down = {0, 1, 2, 3}
    with pytest.raises(StoreUnavailable):
        await bench.live.create("nowhere", QueueSpec())


async def test_a_store_that_holds_much_gets_fewer_new_entities(bench: Bench) -> None:
    bench.full = {0: 2 * FRAGMENT_BYTES, 1: FRAGMENT_BYTES - 1}
    stores = [(await bench.live.create(f"q{n}", QueueSpec())).fragments[0].store for n in range(7)]
    assert stores == [1, 2, 3, 1, 2, 3, 0]


async def test_a_worker_that_does_not_answer_holds_nobody_up(bench: Bench) -> None:
    bench.far.answers = False
    await bench.live.create("a", QueueSpec())
    assert bench.other.lookup("a") is None
    bench.scheduler.advance_ms(INTERVAL_MS)
    assert bench.other.lookup("a") is not None, "it looks by itself"


@pytest.mark.rule("PRP-7")
async def test_two_operations_on_one_entity_do_not_overlap(bench: Bench) -> None:
    await bench.live.create("t", TopicSpec())
    bench.far.gate.clear()
    first = asyncio.create_task(bench.live.create("t/subscriptions/a", SubscriptionSpec()))
    beside = asyncio.create_task(bench.live.create("t/subscriptions/b", SubscriptionSpec()))
    await asyncio.sleep(0)
    for path in ("t/Subscriptions/A", "T"):
        with pytest.raises(OperationConflict) as refused:
            await bench.live.delete(path)
        assert (refused.value.http_status, refused.value.retryable) == (409, True)
        assert "40901" in refused.value.text
    bench.far.gate.set()
    await asyncio.gather(first, beside)
    await bench.live.delete("t")


async def test_a_second_worker_that_makes_the_same_is_told(bench: Bench) -> None:
    bench.other.create("a", QueueSpec())
    with pytest.raises(EntityExists):
        await bench.live.create("a", QueueSpec())


@contextlib.contextmanager
def busy(file: Path) -> Iterator[None]:
    import sqlite3

    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


async def test_a_busy_catalog_is_tried_again_and_then_an_error(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "BUSY_TRIES_MAX", 2)
    with busy(tmp_path / "catalog.db"), pytest.raises(CatalogBusy):
        await bench.live.create("a", QueueSpec())
    with busy(tmp_path / "catalog.db"):
        task = asyncio.create_task(bench.live.create("a", QueueSpec()))
        await asyncio.sleep(0)
    assert (await task).path == "a"
