"""A cluster of real nodes over a real database, for streams that outlive its nodes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.groups import absent_groups

if TYPE_CHECKING:
    from spark.nodes.stand import Stand
    from support.postgres import PostgresServer

collect_ignore_glob = ["test_*.py"] if {"spark", "postgres"} & absent_groups().keys() else []


@pytest.fixture(scope="session")
def whole_stand(
    tmp_path_factory: pytest.TempPathFactory, postgres: "PostgresServer"
) -> Iterator["Stand"]:
    from spark.nodes.stand import new_stand

    with new_stand(tmp_path_factory.mktemp("stand"), postgres) as stand:
        yield stand


@pytest.fixture
def stand(whole_stand: "Stand") -> Iterator["Stand"]:
    """Three nodes; whatever a test does to them is mended when it ends."""
    yield whole_stand
    whole_stand.heal()
