"""Copies of whole buses: nothing is lost, nothing half is served, and what is unfit is refused."""

import asyncio
import contextlib
import queue
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from partibus.control.catalog.copying import refuse_half_copied
from partibus.domain.clock import SystemClock
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    ConfigError,
    StoreCorrupt,
    StoreUnavailable,
)
from partibus.server.config import ServeSettings
from partibus.server.copying import copy as copying
from partibus.server.copying.copy import CopyReport, compare_buses, copy_bus
from partibus.server.copying.ends import GivenPlace
from partibus.server.data_directory.check import check_data
from partibus.server.data_directory.directory import lock_data_directory
from partibus.store.compaction import importing
from partibus.store.record import Record
from support.archives import unpack
from support.server import environment
from unit.server.copying.killed_copy import KILLED, STEPS

FIXTURE = Path(__file__).parents[3] / "upgrade" / "fixtures" / "kept-locks.tar.xz"
PROGRAM = Path(__file__).parent / "killed_copy.py"
IN_DATABASE = pytest.param("database", marks=pytest.mark.group("postgres"))
MESSAGES = 42


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a server with two stores that was killed."""
    place = tmp_path / "data"
    unpack(FIXTURE, place)
    return place


@pytest.fixture
def new_target(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes places to copy into."""

    def make(kind: str) -> str:
        if kind == "directory":
            return str(tmp_path / "target")
        from support.postgres import new_database

        return new_database(request.getfixturevalue("postgres").dsn)

    return make


def copied(source: object, target: object, **more: Any) -> CopyReport:
    return copy_bus(GivenPlace(place=str(source)), GivenPlace(place=str(target)), **more)


def same(source: object, target: object) -> bool:
    found = compare_buses(GivenPlace(place=str(source)), GivenPlace(place=str(target))).comparison
    return found.messages == MESSAGES and not found.differences


def refuse_served(target: str) -> None:
    """As the start of a server, or of a node, asks."""
    if "://" not in target:
        with contextlib.ExitStack() as stack:
            lock_data_directory(ServeSettings(data=Path(target)), stack)
        return
    from partibus.control.postgres.catalog import PostgresCatalog

    rows = PostgresCatalog(target)
    with contextlib.closing(rows):
        refuse_half_copied(rows, "cluster database")


# --- what is copied ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["directory", IN_DATABASE])
def test_everything_is_copied_and_compared(
    kind: str, data: Path, new_target: Callable[[str], str], tmp_path: Path
) -> None:
    target = new_target(kind)
    before = {path: path.read_bytes() for path in data.rglob("*.seg")}
    report = copied(data, target)
    assert (report.lanes, report.comparison.messages) == (2, MESSAGES)
    assert report.comparison.differences == 0
    assert report.entities["plain"].messages["dead letters"] == 2
    assert {path: path.read_bytes() for path in data.rglob("*.seg")} == before
    refuse_served(target)
    assert same(data, target)
    copied(target, tmp_path / "back")
    assert same(data, tmp_path / "back")
    found = check_data(ServeSettings(data=tmp_path / "back", stores=2))
    assert [part.problems for part in found] == [[], [], []]


@pytest.mark.group("postgres")
def test_lanes_are_spread_over_databases_and_keep_their_numbers(
    data: Path, new_target: Callable[[str], str], tmp_path: Path
) -> None:
    from partibus.store.postgres.importing import lanes_there

    first, second = new_target("database"), new_target("database")
    cluster = GivenPlace(place=first, stores=(first, second))
    assert not copy_bus(GivenPlace(place=str(data)), cluster).comparison.differences
    assert list(lanes_there(first, range(9))) == [0]
    assert list(lanes_there(second, range(9))) == [1]
    with pytest.raises(ConfigError, match=r"in 2 database\(s\), and 1 were given"):
        copied(first, tmp_path / "back")
    swapped = GivenPlace(place=first, stores=(second, first))
    with pytest.raises(StoreCorrupt, match=r"lane 0 of the database .* is missing"):
        copy_bus(swapped, GivenPlace(place=str(tmp_path / "other")))


# --- what is interrupted ----------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("kind", ["directory", IN_DATABASE])
def test_a_copy_that_was_killed_is_not_served_and_begins_anew(
    kind: str, step: str, data: Path, new_target: Callable[[str], str]
) -> None:
    target = new_target(kind)
    command = [sys.executable, str(PROGRAM), str(data), target, step]
    assert subprocess.run(command, check=False, env=environment()).returncode == KILLED
    with pytest.raises(BusError, match="not complete: run the same `partibus store copy` again"):
        refuse_served(target)
    assert not copied(data, target).comparison.differences
    refuse_served(target)
    assert same(data, target)


@pytest.mark.group("postgres")
def test_a_node_does_not_join_half_a_copy(
    data: Path, new_target: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from partibus.server.nodes.joining import _open_catalog

    target = new_target("database")
    monkeypatch.setattr(copying._Work, "compare", raise_interrupt)
    with pytest.raises(KeyboardInterrupt):
        copied(data, target)
    with pytest.raises(ConfigError, match="holds a copy that is not complete"):
        _open_catalog(ServeSettings(cluster=target, stores=2, lanes=2), SystemClock())


def raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


# --- what differs -----------------------------------------------------------------------------


def test_a_message_that_is_missing_is_named(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = copying.LaneReading.snapshot

    def lossy(lane: copying.LaneReading) -> importing.Snapshot:
        for state in lane.states.values():
            if len(state.main.ready) == 2:
                state.main.ready.pop()
                break
        return take(lane)

    monkeypatch.setattr(copying.LaneReading, "snapshot", lossy)
    report = copied(data, tmp_path / "target")
    assert report.comparison.differences == 1
    assert "active: message 1 is only in the source" in report.comparison.shown[0]
    with pytest.raises(StoreCorrupt, match="not complete"):
        refuse_served(str(tmp_path / "target"))


def test_a_body_that_differs_is_named(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = importing.with_checksum
    monkeypatch.setattr(
        importing, "with_checksum", lambda body: seal(body.replace(b"first bury", b"FIRST BURY"))
    )
    report = copied(data, tmp_path / "target")
    (text,) = report.comparison.shown
    assert text.startswith("plain, fragment") and text.endswith("the body differs")


def test_other_changes_are_found(data: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    copied(data, target)
    from partibus.control.catalog.catalog import Catalog
    from partibus.domain.entity import QueueSpec

    with contextlib.closing(Catalog(target / "catalog.db", stores=2)) as catalog:
        catalog.create("another", QueueSpec())
    found = compare_buses(GivenPlace(place=str(data)), GivenPlace(place=str(target))).comparison
    assert found.differences == 2
    assert found.shown[0].startswith("catalog: a row of entity")


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"first bury", b"second bury"])
def test_a_damaged_message_ends_the_copy_with_its_place(
    body: bytes, data: Path, tmp_path: Path
) -> None:
    """Before the checkpoint a body is damaged, behind it an entry."""
    (segment,) = (file for file in data.rglob("*.seg") if body in file.read_bytes())
    content = bytearray(segment.read_bytes())
    content[content.index(body)] ^= 1
    segment.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=f"{segment}: offset"):
        copied(data, tmp_path / "target")
    with pytest.raises(StoreCorrupt, match="not complete"):
        refuse_served(str(tmp_path / "target"))


@pytest.mark.parametrize("kind", ["directory", IN_DATABASE])
def test_only_an_empty_place_is_filled(
    kind: str, data: Path, new_target: Callable[[str], str]
) -> None:
    target = new_target(kind)
    copied(data, target)
    with pytest.raises(ConfigError, match="is not empty: copy into a new"):
        copied(data, target)
    assert same(data, target)


def test_a_directory_that_is_served_is_not_copied(data: Path, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        lock_data_directory(ServeSettings(data=data, stores=2), stack)
        with pytest.raises(StoreUnavailable, match="in use"):
            copied(data, tmp_path / "target")


def test_stores_may_lie_elsewhere_as_many_as_there_were(data: Path, tmp_path: Path) -> None:
    target, here, there = (tmp_path / name for name in ("target", "here", "there"))
    one, both = (str(here),), (str(here), str(there))
    for stores, text in (
        (one, "has 2 stores, and 1 were given"),
        (("postgresql://x/y",), "are dir"),
    ):
        with pytest.raises(ConfigError, match=text):
            copy_bus(GivenPlace(place=str(data)), GivenPlace(place=str(target), stores=stores))
    assert not target.exists()
    copy_bus(GivenPlace(place=str(data)), GivenPlace(place=str(target), stores=both))
    assert not list(target.glob("store-*")) and list(there.glob("*.ckpt"))
    found = compare_buses(GivenPlace(place=str(data)), GivenPlace(place=str(target), stores=both))
    assert (found.comparison.messages, found.comparison.differences) == (MESSAGES, 0)


def test_parts_that_do_not_belong_together_are_not_copied(data: Path, tmp_path: Path) -> None:
    (data / "store-0").rename(data / "other")
    (data / "store-1").rename(data / "store-0")
    (data / "other").rename(data / "store-1")
    with pytest.raises(StoreCorrupt, match="is store 1 of the namespace and was given as store 0"):
        copied(data, tmp_path / "target")


def test_a_directory_without_data_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(ConfigError, match="there is nothing to copy"):
        copied(tmp_path / "nothing", tmp_path / "target")


@pytest.mark.group("postgres")
def test_a_cluster_with_a_live_node_is_not_touched(
    data: Path, new_target: Callable[[str], str], tmp_path: Path
) -> None:
    import psycopg

    target = new_target("database")
    copied(data, target)
    with psycopg.connect(target, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO partibus_cluster.node (host, port, version) VALUES ('10.0.0.1', 5675, '0')"
        )
        connection.execute(
            "CREATE OR REPLACE FUNCTION partibus_cluster.is_alive(heartbeat timestamptz,"
            " lease_ms integer) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
    with pytest.raises(StoreUnavailable, match=r"has live nodes \(10.0.0.1:5675\): stop them"):
        copied(target, tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.group("postgres")
def test_an_empty_database_is_no_source(new_target: Callable[[str], str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no cluster: there is nothing to copy"):
        copied(new_target("database"), tmp_path / "target")


@pytest.mark.group("postgres")
def test_a_late_writer_changes_nothing_and_a_new_one_is_noticed(
    data: Path, new_target: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from partibus.store.postgres.store import PostgresStore

    cluster = new_target("database")
    copied(data, cluster)
    news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def writer() -> PostgresStore:
        store = PostgresStore(cluster, 0, notify=news.put, takes_over=False)
        list(store.open().records)
        return store

    late = writer()
    copied(cluster, tmp_path / "back")
    answers: list[BusError | None] = []
    late.append([Record(1, 1, b"late")], answers.append)
    while not answers:
        news.get()()
    assert isinstance(answers[0], StoreUnavailable)
    late.close()

    take = copying.LaneReading.snapshot

    def interfered(lane: copying.LaneReading) -> importing.Snapshot:
        writer().close()
        return take(lane)

    monkeypatch.setattr(copying.LaneReading, "snapshot", interfered)
    with pytest.raises(StoreUnavailable, match="was opened by a server while it was copied"):
        copied(cluster, tmp_path / "other")
    with pytest.raises(StoreCorrupt, match="not complete"):
        refuse_served(str(tmp_path / "other"))


# --- backups of databases -----------------------------------------------------------------------


@pytest.mark.group("postgres")
def test_a_dump_of_the_database_is_a_backup_of_the_cluster(
    data: Path, new_target: Callable[[str], str], tmp_path: Path
) -> None:
    from support.postgres import binaries

    tools = binaries()
    assert tools is not None
    cluster, restored = new_target("database"), new_target("database")
    copied(data, cluster)
    dump = tmp_path / "bus.dump"
    subprocess.run([tools / "pg_dump", "-Fc", "-f", dump, cluster], check=True)
    subprocess.run([tools / "pg_restore", "--no-owner", "-d", restored, dump], check=True)
    assert same(data, restored)


@pytest.mark.group("postgres")
async def test_a_lane_that_went_back_is_not_copied_until_somebody_accepts_it(
    data: Path, new_target: Callable[[str], str], tmp_path: Path
) -> None:
    from partibus.control.postgres import lane_seen
    from partibus.control.postgres.session import ControlSession
    from partibus.server.nodes.operations import cluster_service
    from partibus.store.postgres.importing import lane_end

    cluster = new_target("database")
    await asyncio.to_thread(copied, data, cluster)
    end = lane_end(cluster, 1)
    assert end is not None
    session = ControlSession(cluster, "test")
    had = lane_seen.LaneEnd(end[0], end[1] + 100)
    await session.run(partial(lane_seen.note, ends={1: had}))
    await session.close()
    with pytest.raises(StoreCorrupt, match=r"lane 1 .* went back in time: .* cluster accept 1`"):
        await asyncio.to_thread(copied, cluster, tmp_path / "back")
    async with cluster_service(cluster) as service:
        await service.accept(1)
        with pytest.raises(ArgumentError, match="nothing to accept for lane 1"):
            await service.accept(1)
    await asyncio.to_thread(copied, cluster, tmp_path / "back")
    assert await asyncio.to_thread(same, data, tmp_path / "back")
