"""Catalogs that a test opened are closed after it; many tests run over both databases.

A test of the modules in `BOTH` runs twice: over SQLite, and over PostgreSQL, where a file of the
test stands for a database of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from partibus.control.catalog import catalog
from partibus.control.catalog.database import CatalogDatabase
from partibus.control.catalog.rows import CatalogRows
from partibus.control.catalog.sealed import SealedCatalog
from support.postgres import temporary_database

BOTH = {"test_catalog", "test_refresh", "test_partitions", "test_policies", "test_apply"}
SQLITE_ALONE = {
    "test_the_file_is_its_owners_alone",
    "test_the_database_is_set_to_lose_nothing",
    "test_one_writes_at_a_time",
    "test_a_write_that_fails_leaves_nothing_behind",
}

Open = Callable[[Path | None, SealedCatalog | None], CatalogRows]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".")[2]
    if name in BOTH and metafunc.function.__name__ not in SQLITE_ALONE:
        engines = ["sqlite", pytest.param("postgres", marks=pytest.mark.group("postgres"))]
        metafunc.parametrize("engine", engines, indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(autouse=True)
def close_catalogs(
    request: pytest.FixtureRequest, engine: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    opened: list[CatalogRows] = []
    with ExitStack() as stack:
        make: Open = CatalogDatabase
        if engine == "postgres":
            make = databases(request.getfixturevalue("postgres").dsn, stack)

        def open_rows(file: Path | None, encrypted: SealedCatalog | None = None) -> CatalogRows:
            opened.append(make(file, encrypted))
            return opened[-1]

        monkeypatch.setattr(catalog, "CatalogDatabase", open_rows)
        yield
        for rows in opened:
            rows.close()


def databases(dsn: str, stack: ExitStack) -> Open:
    """Catalogs in databases that are removed at the end, one for each file."""
    from partibus.control.postgres.catalog import PostgresCatalog

    known: dict[Path, str] = {}

    def place(file: Path | None) -> str:
        if file is not None and file in known:
            return known[file]
        made = stack.enter_context(temporary_database(dsn))
        if file is not None:
            known[file] = made
        return made

    return lambda file, encrypted: PostgresCatalog(place(file))
