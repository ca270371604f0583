"""A change costs what it changes: rows read, steps of the database, records walked over."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog import change_log, database
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.database import CatalogDatabase
from partibus.control.catalog.digest import teach
from partibus.control.catalog.record import Change
from partibus.domain.entity import QueueSpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import EntityExists, EntityNotFound, StoreCorrupt
from partibus.domain.limits import STANDARD
from partibus.domain.rights import Rights

ENTITIES = 2_000
STEPS_MAX = 2_000
"""One change takes some hundred steps of SQLite's machine; one pass over all entities takes tens of
thousands."""


class Unwalkable(dict[Any, Any]):
    """A mapping in which things are found, but which nobody may walk over."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("a change walked over all entities")

    values = items = keys = __iter__  # type: ignore[assignment]


class Cost:
    """What one process reads and does while something happens."""

    def __init__(self, catalog: Catalog) -> None:
        self.rows = 0
        self.steps = 0
        connection = catalog._database._connection
        connection.row_factory = self._row
        connection.set_progress_handler(self._step, 1)
        for index in (catalog._entities._by_key, catalog._entities._by_id):
            assert len(index) > ENTITIES // 2
        catalog._entities._by_key = Unwalkable(catalog._entities._by_key)
        catalog._entities._by_id = Unwalkable(catalog._entities._by_id)

    def _row(self, cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        self.rows += 1
        return row

    def _step(self) -> int:
        self.steps += 1
        return 0


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file: Path = tmp_path_factory.mktemp("catalog") / "catalog.db"
    catalog = Catalog(file, profile=STANDARD)
    with catalog.batch():
        for number in range(ENTITIES - 1):
            catalog.create(f"q{number}", QueueSpec())
        catalog.create("t", TopicSpec())
        catalog.put_policy("", AccessPolicy("gone", "key", "second", Rights.SEND))
    catalog.close()
    return file


def _policy(key: str) -> AccessPolicy:
    return AccessPolicy("p", key, "second", Rights.SEND)


@pytest.mark.parametrize(
    "change",
    [
        lambda catalog: catalog.create("new", QueueSpec()),
        lambda catalog: catalog.update("q7", QueueSpec(max_delivery_count=3)),
        lambda catalog: catalog.delete("q8"),
        lambda catalog: catalog.create("t/Subscriptions/s", SubscriptionSpec()),
        lambda catalog: catalog.delete("t"),
        lambda catalog: catalog.put_policy("", _policy("first")),
        lambda catalog: catalog.delete_policy("", "gone"),
    ],
    ids=["create", "update", "delete", "subscribe", "delete topic", "policy", "no policy"],
)
def test_a_change_costs_what_it_changes_in_every_process(
    full: Path, change: Callable[[Catalog], object]
) -> None:
    writer, follower = (Catalog(full, profile=STANDARD) for _ in range(2))
    costs = [Cost(writer), Cost(follower)]
    heard: list[Change] = []
    follower.subscribe(heard.append)
    change(writer)
    follower.refresh()
    assert heard
    for cost in costs:
        assert cost.rows < 20
        assert cost.steps < STEPS_MAX
    writer.close()
    follower.close()


def test_a_refused_change_is_undone_without_reading_all_anew(full: Path) -> None:
    catalog = Catalog(full, profile=STANDARD)
    cost = Cost(catalog)
    with pytest.raises(EntityExists), catalog.batch():
        catalog.update("q1", QueueSpec(max_delivery_count=4))
        catalog.create("brief", QueueSpec())
        catalog.put_policy("q1", _policy("lost"))
        catalog.create("Q2", QueueSpec())
    assert cost.rows < 20
    assert catalog.lookup("brief") is None
    assert catalog.entity("q1").queue.max_delivery_count == 10
    assert catalog.policies("q1") == ()
    catalog.close()


def test_an_own_change_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    writer, follower = Catalog(file), Catalog(file)
    for number in range(50):
        writer.create(f"q{number}", QueueSpec())
    follower.refresh()
    rows: list[object] = []
    follower.put_idle_times({1: 60_000})
    writer._database._connection.row_factory = lambda cursor, row: rows.append(row) or row
    assert writer.refresh() == []
    assert len(rows) == 1, "the data version alone"
    writer.close()
    follower.close()


def test_whoever_has_missed_too_much_reads_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "CHANGES_KEPT", 3)
    file = tmp_path / "catalog.db"
    writer, late = Catalog(file), Catalog(file)
    writer.create("old", QueueSpec())
    late.refresh()
    heard: list[tuple[str, str]] = []
    late.subscribe(lambda change: heard.append((change.kind.value, change.path)))
    writer.put_policy("", _policy("first"))
    writer.delete("old")
    for number in range(5):
        writer.create(f"q{number}", QueueSpec())
    assert len(late.refresh()) == 7
    assert heard == [
        ("deleted", "old"),
        *(("created", f"q{number}") for number in range(5)),
        ("policies", ""),
    ]
    assert late.entities() == writer.entities()
    writer.create("after", QueueSpec())
    assert [change.path for change in late.refresh()] == ["after"]
    writer.close()
    late.close()


def test_the_generation_is_followed_change_by_change(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    writer, follower = Catalog(file), Catalog(file)
    known: list[int] = []
    follower.subscribe(lambda change: known.append(follower.generation))
    for number in range(3):
        writer.create(f"q{number}", QueueSpec())
        follower.refresh()
        assert known[-1] == writer.generation == writer.identity.generation()
    with pytest.raises(EntityExists):
        writer.create("q0", QueueSpec())
    assert writer.generation == follower.generation
    writer.close()
    follower.close()


def test_what_others_write_right_after_a_change_is_heard_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Emptying the log of the database takes a sync, in which others may write."""
    file = tmp_path / "catalog.db"
    writer, other = Catalog(file), Catalog(file)
    empty = CatalogDatabase._empty_log

    def overtaken(database: CatalogDatabase) -> None:
        empty(database)
        if database is writer._database and other.lookup("theirs") is None:
            other.create("theirs", QueueSpec())

    monkeypatch.setattr(CatalogDatabase, "_empty_log", overtaken)
    writer.create("ours", QueueSpec())
    assert [change.path for change in writer.refresh()] == ["theirs"]
    assert writer.lookup("theirs") is not None
    writer.close()
    other.close()


def test_the_log_is_under_a_checksum_when_old_rows_have_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "CHANGES_KEPT", 3)
    file = tmp_path / "catalog.db"
    catalog = Catalog(file)
    for number in range(6):
        catalog.create(f"q{number}", QueueSpec())
    rows = catalog._database._connection.execute("SELECT count(*) FROM change").fetchone()
    assert rows == (3,)
    catalog.close()
    Catalog(file).close()
    connection = sqlite3.connect(file)
    teach(connection)
    with connection:
        (text,) = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE name = 'digest_change_update'"
        ).fetchone()
        connection.execute("DROP TRIGGER digest_change_update")
        connection.execute("UPDATE change SET entity_id = 1 WHERE change_id = 6")
        connection.execute(text)
    connection.close()
    with pytest.raises(StoreCorrupt, match="the table 'change' fails its checksum"):
        Catalog(file)


def _of_a_release_without_log(file: Path) -> None:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript(database._SCHEMA)
    connection.execute(f"PRAGMA application_id = {database._APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {database.UNSEALED_VERSION}")
    connection.close()


def test_a_catalog_without_log_is_followed_from_its_first_write_on(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    _of_a_release_without_log(file)
    writer, follower = Catalog(file), Catalog(file)
    with pytest.raises(EntityNotFound):
        writer.delete("none")
    writer.create("q", QueueSpec())
    assert [change.path for change in follower.refresh()] == ["q"]
    writer.create("r", QueueSpec())
    assert [change.path for change in follower.refresh()] == ["r"]
    follower.create("s", QueueSpec())
    writer.close()
    follower.close()
    assert [record.path for record in Catalog(file).entities()] == ["q", "r", "s"]
