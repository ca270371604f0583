"""A database of its own for each test that asks for one."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.postgres import PostgresServer


@pytest.fixture
def database(postgres: "PostgresServer") -> str:
    """The address of an empty database."""
    from support.postgres import new_database

    return new_database(postgres.dsn)
