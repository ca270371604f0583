"""The catalog of a cluster: several nodes write and follow, and the database goes away."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from partibus.control.access import policies
from partibus.control.access.policies import AccessPolicy, ensure_root_policy
from partibus.control.catalog.catalog import LOCK_PREFIX, PARTITIONS, Catalog
from partibus.control.catalog.copying import copy_catalog
from partibus.control.catalog.database import CatalogDatabase
from partibus.control.postgres.catalog import PostgresCatalog
from partibus.control.postgres.catalog_link import CATALOG_LOCK
from partibus.control.postgres.feed import CatalogFeed
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import CatalogBusy, ConfigError, StoreUnavailable
from partibus.domain.limits import PREMIUM
from partibus.domain.rights import Rights
from support.postgres import PostgresServer

pytestmark = pytest.mark.group("postgres")

SENDER = AccessPolicy("sender", "k1", "k2", Rights.SEND)


def opened(database: str, stores: int = 2) -> Catalog:
    return Catalog(rows=PostgresCatalog(database), stores=stores)


def test_every_node_sees_one_namespace(database: str) -> None:
    one, two = opened(database), opened(database)
    assert one.identity.namespace() == two.identity.namespace()
    assert one.identity.namespace() is not None
    one.close()
    two.close()


def test_nodes_that_open_a_new_catalog_at_once_agree_on_its_namespace(database: str) -> None:
    found: list[bytes | None] = []

    def look() -> None:
        catalog = opened(database)
        found.append(catalog.identity.namespace())
        catalog.close()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_of_nodes_that_start_at_once_one_fixes_the_settings(database: str) -> None:
    one, two = (Catalog(rows=PostgresCatalog(database), profile=PREMIUM) for _ in range(2))
    one.fix_lock_prefix()
    # The other one looked before that.
    assert two._fix(LOCK_PREFIX, "1") == str(one.lock_prefix)
    assert two.lock_prefix == one.lock_prefix
    one.fix_partitions(2)
    assert two._fix(PARTITIONS, "4") == "2"
    with pytest.raises(ConfigError, match="created with 2"):
        two.fix_partitions(4)
    one.close()
    two.close()


def test_of_nodes_that_start_at_once_one_chooses_the_root_key(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = opened(database), opened(database)

    def while_the_other_starts() -> str:
        monkeypatch.undo()
        with pytest.raises(CatalogBusy):  # which its node tries again
            ensure_root_policy(two, loopback_only=False)
        return policies.new_key()

    monkeypatch.setattr(policies, "new_key", while_the_other_starts)
    chosen = ensure_root_policy(one, loopback_only=False)
    later = ensure_root_policy(two, loopback_only=False)
    assert chosen.has_new_key
    assert not later.has_new_key
    assert later.policy == chosen.policy
    one.close()
    two.close()


def test_one_node_writes_at_a_time(database: str) -> None:
    catalog = opened(database)
    with psycopg.connect(database) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (CATALOG_LOCK,))
        with pytest.raises(CatalogBusy):
            catalog.create("a", QueueSpec())
    assert catalog.lookup("a") is None
    catalog.create("a", QueueSpec())
    catalog.close()


def test_nodes_that_write_at_once_lose_nothing(database: str) -> None:
    def write(prefix: str) -> None:
        catalog = opened(database)
        for number in range(10):
            while catalog.lookup(f"{prefix}{number}") is None:
                try:
                    catalog.create(f"{prefix}{number}", QueueSpec())
                except CatalogBusy:
                    continue
        catalog.close()

    threads = [threading.Thread(target=write, args=(prefix,)) for prefix in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    catalog = opened(database)
    assert len(catalog.entities()) == 30
    ids = [f.fragment_id for record in catalog.entities() for f in record.fragments]
    assert len(ids) == len(set(ids))
    assert catalog.generation == 30
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT change_id FROM partibus_cluster.change ORDER BY 1")
        assert [number for (number,) in rows] == list(range(1, 31))
    catalog.close()


def test_a_node_that_is_far_behind_reads_everything(database: str) -> None:
    one, two = opened(database), opened(database)
    one.create("a", QueueSpec())
    with psycopg.connect(database) as connection:  # as when more has happened than is kept
        connection.execute("UPDATE partibus_cluster.change SET change_id = 20001")
    one.create("b", QueueSpec())
    assert [change.path for change in two.refresh()] == ["a", "b"]
    one.close()
    two.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may end."""
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


def test_a_lost_database_refuses_writes_and_is_used_again(own_server: PostgresServer) -> None:
    catalog = opened(own_server.dsn)
    catalog.create("a", QueueSpec())
    own_server.kill()
    with pytest.raises(StoreUnavailable, match="Try again"):
        catalog.create("b", QueueSpec())
    assert catalog.lookup("b") is None
    assert catalog.lookup("a") is not None, "answers come from memory"
    own_server.start()
    catalog.create("b", QueueSpec())
    catalog.close()


def test_a_connection_that_was_cut_is_made_anew(database: str, postgres: PostgresServer) -> None:
    catalog = opened(database)
    with psycopg.connect(postgres.dsn) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'partibus-catalog' AND datname = %s",
            (database.rpartition("/")[2],),
        )
    catalog.create("a", QueueSpec())
    catalog.close()


def test_a_database_that_hangs_does_not_hold_the_node_up(own_server: PostgresServer) -> None:
    catalog = opened(own_server.dsn)
    catalog.create("a", QueueSpec())
    own_server.pause()
    with pytest.raises(StoreUnavailable):
        catalog.create("b", QueueSpec())
    own_server.resume()
    catalog.create("b", QueueSpec())
    catalog.close()


async def test_a_node_follows_by_the_feed_alone(database: str) -> None:
    writer = opened(database)
    rows = PostgresCatalog(database)
    reader = Catalog(rows=rows, stores=2)
    news = asyncio.Event()
    feed = CatalogFeed(database, news.set)
    await feed.start()
    rows.feed = feed
    assert reader.refresh() == []
    for number in range(3):
        writer.create(f"q{number}", QueueSpec())
        await news.wait()
        news.clear()
        assert [change.path for change in reader.refresh()] == [f"q{number}"]
    await feed.stop()
    writer.close()
    reader.close()


async def test_the_feed_goes_on_when_the_database_was_away(own_server: PostgresServer) -> None:
    writer = opened(own_server.dsn)
    news = asyncio.Event()
    feed = CatalogFeed(own_server.dsn, news.set)
    await feed.start()
    own_server.kill()
    own_server.start()
    writer.create("a", QueueSpec())
    await news.wait()
    assert feed.generation == 1
    await feed.stop()
    writer.close()


async def test_news_that_could_not_be_taken_over_stay_new(database: str) -> None:
    writer = opened(database)
    calls = 0
    taken = asyncio.Event()

    def take() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise StoreUnavailable("not now")
        taken.set()

    feed = CatalogFeed(database, take)
    await feed.start()
    writer.create("a", QueueSpec())
    await taken.wait()
    assert calls == 2
    await feed.stop()
    writer.close()


def fill(catalog: Catalog) -> None:
    catalog.create("gone", QueueSpec(enable_partitioning=True, fragments=4))
    catalog.create("a", QueueSpec(max_delivery_count=7))
    catalog.create("t", TopicSpec())
    catalog.create("t/subscriptions/s", SubscriptionSpec())
    catalog.put_policy("a", SENDER)
    catalog.put_policy("", SENDER)
    catalog.put_idle_times({catalog.entity("a").entity_id: 5000})
    catalog.delete("gone")
    catalog.create("last", QueueSpec())
    catalog.delete("last")
    catalog.fix_lock_prefix()


def says(catalog: Catalog) -> tuple[object, ...]:
    identity = catalog.identity
    return (
        catalog.entities(),
        catalog.policies("a"),
        catalog.policies(),
        catalog.idle_times(),
        catalog.lock_prefix,
        identity.namespace(),
        identity.tombstones(),
        identity.stores(),
    )


def test_a_catalog_of_one_machine_becomes_that_of_a_cluster_and_back(
    database: str, tmp_path: Path
) -> None:
    single = Catalog(tmp_path / "catalog.db", stores=2)
    fill(single)
    follower = opened(database)
    source, target = CatalogDatabase(tmp_path / "catalog.db"), PostgresCatalog(database)
    assert copy_catalog(source, target) == 3
    follower.refresh()
    cluster = opened(database)
    assert says(cluster) == says(follower) == says(single)
    assert cluster.generation > single.generation
    used = single.create("new", QueueSpec())
    assert cluster.create("new", QueueSpec()).entity_id == used.entity_id
    assert cluster.entity("new").fragments == used.fragments
    back = CatalogDatabase(tmp_path / "back.db")
    assert copy_catalog(target, back) == 4
    assert says(Catalog(tmp_path / "back.db", stores=2)) == says(cluster)
    for rows in (source, target, back, cluster, follower):
        rows.close()


def test_a_large_catalog_is_copied_whole(database: str, tmp_path: Path) -> None:
    single = Catalog(tmp_path / "catalog.db")
    with single.batch():
        for number in range(1_100):
            single.create(f"q{number}", QueueSpec())
    source, target = CatalogDatabase(tmp_path / "catalog.db"), PostgresCatalog(database)
    assert copy_catalog(source, target) == 1_100
    cluster = opened(database)
    assert cluster.entities() == single.entities()
    for rows in (source, target, cluster):
        rows.close()


def test_a_catalog_that_is_not_empty_is_not_overwritten(database: str, tmp_path: Path) -> None:
    single, cluster = Catalog(tmp_path / "catalog.db", stores=2), opened(database)
    single.create("a", QueueSpec())
    cluster.create("b", QueueSpec())
    source, target = CatalogDatabase(tmp_path / "catalog.db"), PostgresCatalog(database)
    with pytest.raises(ConfigError, match="nothing was copied"):
        copy_catalog(source, target)
    again = opened(database)
    assert [record.path for record in again.entities()] == ["b"]
    for rows in (source, target, cluster, again):
        rows.close()


def test_what_fails_midway_leaves_an_empty_catalog(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    single = Catalog(tmp_path / "catalog.db", stores=2)
    single.create("a", QueueSpec())
    source, target = CatalogDatabase(tmp_path / "catalog.db"), PostgresCatalog(database)
    namespace = target.identity.namespace()

    def fail(least: int) -> None:
        raise sqlite3.Error

    monkeypatch.setattr(type(target.identity), "raise_fragment_sequence", lambda *_: fail(0))
    with pytest.raises(sqlite3.Error):
        copy_catalog(source, target)
    assert target.read_table("entity") == []
    assert target.identity.namespace() == namespace
    source.close()
    target.close()
