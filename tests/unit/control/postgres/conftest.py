"""A database of its own for each test, in the server that all tests share."""

from collections.abc import Iterator

import pytest

from support.postgres import PostgresServer, temporary_database


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    with temporary_database(postgres.dsn) as made:
        yield made
