"""A database of its own for each test, in the server that all tests share."""

from collections.abc import Iterator
from itertools import count

import psycopg
import pytest

from support.postgres import PostgresServer

_numbers = count(1)


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    name = f"cluster_{next(_numbers)}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield postgres.dsn.replace("/postgres", f"/{name}")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
