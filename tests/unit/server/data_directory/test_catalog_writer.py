"""Writes to the catalog keep only those waiting who asked for them."""

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import Change
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import EntityExists
from partibus.domain.rights import Rights
from partibus.server.data_directory.catalog_writer import CatalogWriter


class Bench:
    """A catalog on disk, its writer, and what the change feed has told."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.catalog = Catalog(file)
        self.writer = CatalogWriter(self.catalog, partial(Catalog, file))
        self.heard: list[Change] = []
        self.was_told = asyncio.Event()
        self.catalog.subscribe(self._hear)

    def _hear(self, change: Change) -> None:
        self.heard.append(change)
        self.was_told.set()

    def on_disk(self, path: str) -> bool:
        """Whether whoever opens the file now finds the entity."""
        other = Catalog(self.file)
        try:
            return other.lookup(path) is not None
        finally:
            other.close()


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "catalog.db")
    yield made
    made.writer.close()
    made.catalog.close()


async def test_the_loop_goes_on_while_a_change_is_written(bench: Bench) -> None:
    loop = asyncio.get_running_loop()
    threads: list[int] = []
    has_begun, may_end = asyncio.Event(), threading.Event()

    def slow(catalog: Catalog) -> None:
        threads.append(threading.get_ident())
        catalog.create("a", QueueSpec())
        loop.call_soon_threadsafe(has_begun.set)
        may_end.wait(20)

    write = asyncio.ensure_future(bench.writer.write(slow))
    await has_begun.wait()
    assert threads[0] != threading.get_ident()
    assert bench.catalog.lookup("a") is None and bench.heard == []
    may_end.set()
    await write
    assert bench.catalog.lookup("a") is not None
    assert [change.path for change in bench.heard] == ["a"]


async def test_what_is_answered_is_durable_and_counted(bench: Bench) -> None:
    for number in range(3):
        record = await bench.writer.write(lambda c, n=number: c.create(f"q{n}", QueueSpec()))  # type: ignore[misc]
        assert bench.on_disk(f"q{number}")
        assert bench.catalog.entity(f"q{number}") == record
        assert bench.catalog.generation == bench.catalog.identity.generation() == number + 1
    assert [change.path for change in bench.heard] == ["q0", "q1", "q2"]


async def test_a_refusal_leaves_nothing(bench: Bench) -> None:
    def twice(catalog: Catalog) -> None:
        with catalog.batch():
            catalog.create("b", QueueSpec())
            catalog.create("B", QueueSpec())

    with pytest.raises(EntityExists):
        await bench.writer.write(twice)
    assert bench.heard == [] and bench.catalog.lookup("b") is None and not bench.on_disk("b")
    await bench.writer.write(lambda catalog: catalog.create("b", QueueSpec()))
    assert bench.on_disk("b")


async def test_a_change_is_followed_though_nobody_waits_for_it(bench: Bench) -> None:
    may_begin = threading.Event()

    def held(catalog: Catalog) -> None:
        may_begin.wait(20)
        catalog.create("a", QueueSpec())

    write = asyncio.ensure_future(bench.writer.write(held))
    await asyncio.sleep(0)
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    may_begin.set()
    await bench.was_told.wait()
    assert bench.on_disk("a")


async def test_tombstones_go_with_the_next_change(bench: Bench) -> None:
    record = await bench.writer.write(lambda catalog: catalog.create("a", QueueSpec()))
    await bench.writer.write(lambda catalog: catalog.delete("a"))
    (placement,) = record.fragments
    assert bench.catalog.identity.tombstones() == {placement.fragment_id: placement.store}
    bench.catalog.dropped(placement.fragment_id)
    await bench.writer.write(lambda catalog: catalog.create("b", QueueSpec()))
    assert bench.catalog.identity.tombstones() == {}


async def test_both_ways_of_writing_see_each_other(bench: Bench) -> None:
    await bench.writer.write(lambda catalog: catalog.create("a", QueueSpec()))
    bench.catalog.create("b", QueueSpec())
    await bench.writer.write(lambda catalog: catalog.delete("b"))
    assert bench.catalog.lookup("b") is None
    with pytest.raises(EntityExists):
        bench.catalog.create("a", QueueSpec())


async def test_policies_keep_the_order_in_which_they_came(bench: Bench) -> None:
    await bench.writer.write(lambda catalog: catalog.create("a", QueueSpec()))
    for name in ("sender", "all", "listener"):
        policy = AccessPolicy(name, "k1", "k2", Rights.SEND)
        await bench.writer.write(partial(put_policy, policy))
    assert [p.name for p in bench.catalog.policies("a")] == ["sender", "all", "listener"]
    await bench.writer.write(lambda catalog: catalog.delete_policy("a", "all"))
    assert [p.name for p in bench.catalog.policies("a")] == ["sender", "listener"]


def put_policy(policy: AccessPolicy, catalog: Catalog) -> None:
    catalog.put_policy("a", policy)
