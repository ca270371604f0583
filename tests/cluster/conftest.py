"""Clusters of real nodes over a real database: one for quiet tests, fresh ones for the rest."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from support.cluster import TestCluster
    from support.postgres import PostgresServer

DECLARED = """
[[queue]]
name = "parts"
enable_partitioning = true
lock_duration = "PT5S"
max_delivery_count = 1000

[[queue]]
name = "plain"
lock_duration = "PT5S"
max_delivery_count = 1000

[[queue]]
name = "sessions"
requires_session = true

[[topic]]
name = "news"

[[topic.subscription]]
name = "all"
"""
_numbers = count(1)


def make(directory: Path, postgres: "PostgresServer", nodes: int) -> "TestCluster":
    from support.cluster import TestCluster

    name = f"bus_{next(_numbers)}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    config = directory / "namespace.toml"
    config.write_text(DECLARED, encoding="utf-8")
    database = postgres.dsn.rpartition("/")[0] + f"/{name}"
    return TestCluster(directory, database, config, nodes)


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, postgres: "PostgresServer"
) -> Iterator["TestCluster"]:
    """Three nodes that no test of the module maltreats."""
    with make(tmp_path_factory.mktemp("cluster"), postgres, 3) as cluster:
        yield cluster


@pytest.fixture
def new_cluster(
    tmp_path: Path, postgres: "PostgresServer"
) -> Iterator[Callable[[int], "TestCluster"]]:
    """Makes a cluster whose nodes a test may kill."""
    with ExitStack() as stack:
        yield lambda nodes: stack.enter_context(make(tmp_path, postgres, nodes))
