"""The schema of the control plane: made once, however many nodes begin, and never set back."""

import asyncio
from contextlib import closing

import psycopg
import pytest

from partibus.control.postgres import schema
from partibus.control.postgres.session import connect, prepare
from partibus.domain.errors import ConfigError, StoreUnavailable

pytestmark = pytest.mark.group("postgres")


async def test_several_nodes_may_make_it_at_once(database: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(prepare, database) for _ in range(5)))
    with closing(connect(database, "test")) as connection:
        rows = connection.execute(
            "SELECT version FROM partibus_cluster.schema_version ORDER BY version"
        )
        assert [number for (number,) in rows] == list(range(1, len(schema.MIGRATIONS) + 1))


def test_a_newer_schema_is_refused_with_the_way_out(database: str) -> None:
    prepare(database)
    newer = len(schema.MIGRATIONS) + 1
    with closing(connect(database, "test")) as connection:
        connection.execute("INSERT INTO partibus_cluster.schema_version VALUES (%s)", (newer,))
    with pytest.raises(ConfigError, match=f"version {newer}.*Run the newer release"):
        prepare(database)


def test_a_step_that_fails_leaves_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (*schema.MIGRATIONS, "CREATE TABLE partibus_cluster.more (); SELECT 1 / 0")
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(StoreUnavailable, match="division by zero"):
        prepare(database)
    with closing(connect(database, "test")) as connection:
        row = connection.execute("SELECT to_regnamespace('partibus_cluster')").fetchone()
        assert row == (None,)


def test_an_older_schema_is_brought_to_this_release(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(database)
    later = (*schema.MIGRATIONS, "CREATE TABLE partibus_cluster.more ()")
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    prepare(database)
    prepare(database)
    with psycopg.connect(database) as connection:
        connection.execute("SELECT 1 FROM partibus_cluster.more")


def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(StoreUnavailable, match=r"cluster database bus on 127\.0\.0\.1:1") as found:
        prepare("postgresql://me:secret@127.0.0.1:1/bus")
    assert "secret" not in str(found.value)
