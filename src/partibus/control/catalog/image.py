"""The catalog as bytes, at one moment, while others read and write it.

Owns a separate connection to the file, which neither waits for others nor blocks them. It verifies
nothing: that happens when the bytes are opened as a catalog. Called by the backups.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from partibus.control.catalog.identity import CatalogIdentity
from partibus.domain.errors import StoreUnavailable


@dataclass(slots=True, frozen=True)
class CatalogImage:
    """The content of a catalog file, and its identity."""

    content: bytes
    namespace: str
    generation: int


def catalog_image(file: Path) -> CatalogImage:
    """The current content of the catalog; StoreUnavailable when it cannot be read."""
    try:
        connection = sqlite3.connect(
            f"{file.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None
        )
    except sqlite3.Error as error:
        raise StoreUnavailable(f"The catalog cannot be read: {error}.") from error
    try:
        connection.execute("BEGIN")
        identity = CatalogIdentity(connection)
        namespace = identity.namespace() or b""
        generation = identity.generation()
        return CatalogImage(connection.serialize(), namespace.hex(), generation)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"The catalog cannot be read: {error}.") from error
    finally:
        connection.close()
