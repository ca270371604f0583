"""Catalogs that a test opened are closed after it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from partibus.control import catalog
from partibus.control.catalog_database import CatalogDatabase
from partibus.control.catalog_sealed import SealedCatalog


@pytest.fixture(autouse=True)
def close_catalogs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened: list[CatalogDatabase] = []

    def open_database(file: Path | None, encrypted: SealedCatalog | None = None) -> CatalogDatabase:
        opened.append(CatalogDatabase(file, encrypted))
        return opened[-1]

    monkeypatch.setattr(catalog, "CatalogDatabase", open_database)
    yield
    for database in opened:
        database.close()
