"""The catalog as bytes, as of one moment, while others read and write it.

Owns a look of its own at the file, which waits for nobody and keeps nobody waiting. It judges
nothing: whoever opens the bytes as a catalog has them verified. Called by the backups.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from partibus.control.catalog_identity import CatalogIdentity
from partibus.domain.errors import StoreUnavailable


@dataclass(slots=True, frozen=True)
class CatalogImage:
    """The content of a catalog file, and what it says of itself."""

    content: bytes
    namespace: str
    generation: int


def catalog_image(file: Path) -> CatalogImage:
    """What the catalog holds now; StoreUnavailable when it cannot be read."""
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
