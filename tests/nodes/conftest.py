"""Clusters of real nodes over a real database: one for quiet tests, fresh ones for the rest."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.nodes.cluster import TestCluster
    from support.postgres import PostgresServer


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, postgres: "PostgresServer"
) -> Iterator["TestCluster"]:
    """Three nodes that no test of the module maltreats."""
    from support.nodes.cluster import new_cluster

    with new_cluster(tmp_path_factory.mktemp("cluster"), postgres, 3) as cluster:
        yield cluster


@pytest.fixture
def new_cluster(
    tmp_path: Path, postgres: "PostgresServer"
) -> Iterator[Callable[[int], "TestCluster"]]:
    """Makes a cluster whose nodes a test may kill."""
    from support.nodes import cluster

    with ExitStack() as stack:
        yield lambda nodes: stack.enter_context(cluster.new_cluster(tmp_path, postgres, nodes))
