"""A database of a cluster is lost: the cluster's own, or one of several that hold messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from adversity.waiting import wait_until
from support.json_admin import JsonAdmin
from support.nodes.traffic import Traffic

if TYPE_CHECKING:
    from support.nodes.cluster import TestCluster
    from support.postgres import PostgresServer

pytestmark = pytest.mark.group("postgres")


@pytest.fixture
def own() -> Iterator["PostgresServer"]:
    """A database server that the test may end."""
    from support.postgres import PostgresServer

    server = PostgresServer()
    server.start()
    yield server
    server.remove()


def states(cluster: "TestCluster", node: int = 0) -> list[str]:
    return [store["state"] for store in JsonAdmin(cluster.nodes[node]).stores()]


@pytest.mark.rule("PAV-1", "SEED-40")
def test_a_lost_database_takes_down_its_own_lanes_only(
    tmp_path: Path, postgres: "PostgresServer", own: "PostgresServer"
) -> None:
    from support.nodes.cluster import new_cluster

    with new_cluster(tmp_path, postgres, 2, (own.dsn, postgres.dsn)) as cluster:
        one, two = cluster.nodes
        with Traffic("parts", one, two) as traffic:
            traffic.flows()
            own.kill()
            # Lanes 0, 2 and 4 are in the database that is gone; the others go on.
            wait_until(lambda: states(cluster)[1::2] == ["up"] * 3, "the other lanes are up")
            traffic.flows(60)
            own.start()
            wait_until(lambda: states(cluster) == ["up"] * 6, "all lanes are served again")
            traffic.flows(60)
            traffic.check()


def test_without_the_cluster_s_database_lanes_rest_until_it_is_back(
    tmp_path: Path, own: "PostgresServer"
) -> None:
    from support.nodes.cluster import new_cluster

    with new_cluster(tmp_path, own, 2) as cluster:
        one, two = cluster.nodes
        with Traffic("parts", one, two) as traffic:
            traffic.flows()
            offset = one.log.stat().st_size
            own.kill()
            wait_until(
                lambda: one.log_text(offset).count("is no longer served here") >= 3,
                "it has given its lanes up",
            )
            own.start()
            traffic.flows(60)
            traffic.check()
