"""A database of its own for each test that asks for one."""

import itertools
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from support.postgres import PostgresServer

_numbers = itertools.count(1)


@pytest.fixture
def database(postgres: "PostgresServer") -> str:
    """The address of an empty database."""
    name = f"nodes_{next(_numbers)}"
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.dsn.rpartition("/")[0] + f"/{name}"
