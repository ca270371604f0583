"""Whether the connections that databases take are enough is said when a node joins."""

from dataclasses import replace

import psycopg
import pytest

from partibus.control.postgres.lease_rows import NODES_MAX
from partibus.server.config import ServeSettings
from partibus.server.nodes.capacity import PER_LANE, PER_NODE, SHARED, needed, warn_of_shortage
from partibus.server.nodes.settings import LANES_PER_DATABASE, settle
from support.repository import ROOT


def settings(cluster: str, *stores: str, lanes: int) -> ServeSettings:
    return settle(replace(ServeSettings(), cluster=cluster, store_places=stores, lanes=lanes))


def test_lanes_need_connections_where_they_are_and_nodes_where_the_leases_are() -> None:
    one, two = "postgresql://one/bus", "postgresql://two/bus"
    assert needed(settings(one, one, two, lanes=5), 3) == {
        one: 3 * PER_LANE + 3 * SHARED + 3 * PER_NODE,
        two: 2 * PER_LANE + 3 * SHARED,
    }
    assert needed(settings(one, two, lanes=4), 2) == {
        two: 4 * PER_LANE + 2 * SHARED,
        one: 2 * PER_NODE,
    }


@pytest.mark.group("postgres")
async def test_a_shortage_is_said_and_refuses_nothing(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with psycopg.connect(database) as connection:
        row = connection.execute("SHOW max_connections").fetchone()
    assert row is not None
    lanes = int(row[0]) // PER_LANE
    await warn_of_shortage(settings(database, lanes=1), 1)
    assert not caplog.records
    away = "postgresql://partibus@127.0.0.1:1/away"
    await warn_of_shortage(settings(database, away, database, lanes=3 * lanes), 2)
    (record,) = caplog.records
    assert "Raise max_connections of the database" in record.getMessage()


def test_the_page_on_sizing_has_the_numbers_of_the_code() -> None:
    page = (ROOT / "docs" / "guides" / "sizing.md").read_text(encoding="utf-8")
    assert f"a cluster takes **{NODES_MAX} live nodes** at most" in page
    assert f"{PER_LANE} for each of its lanes, at most" in page
    assert f"and {SHARED} for each node" in page
    assert f"{PER_NODE} more for each node" in page
    assert f"{LANES_PER_DATABASE} for each database by default" in page
