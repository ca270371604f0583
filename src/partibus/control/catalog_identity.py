"""The namespace of a catalog, the stores that belong to it, and the fragments being deleted.

Owns the namespace id (random, made with the catalog), the generation (one more with every change of
the namespace, which stores record, so that an older catalog is recognised), the stores in use, and
the tombstones: fragments whose entity was deleted and whose store has not confirmed it yet. The
server compares these with what the stores record about themselves. Called by the catalog and,
through it, by the start of the server and the offline verbs.
"""

import secrets
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

NAMESPACE_BYTES: Final = 16
NAMESPACE: Final = "namespace"
GENERATION: Final = "generation"

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS store (number INTEGER PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS tombstone"
    " (fragment_id INTEGER PRIMARY KEY, store INTEGER NOT NULL)",
)


@dataclass(eq=False, slots=True)
class CatalogIdentity:
    """The catalog's own part in the identity of a data directory; writes in a transaction."""

    connection: sqlite3.Connection

    # --- reading ------------------------------------------------------------------------

    def namespace(self) -> bytes | None:
        """The id; None in a catalog of a release without ids."""
        value = self._setting(NAMESPACE)
        return None if value is None else bytes.fromhex(value)

    def generation(self) -> int:
        """How many changes the namespace has had since it has an id."""
        return int(self._setting(GENERATION) or 0)

    def entity_sequence(self) -> int:
        """The highest id that an entity ever had."""
        return self._sequence("entity")

    def fragment_sequence(self) -> int:
        """The highest id that a fragment ever had."""
        return self._sequence("fragment")

    def _sequence(self, table: str) -> int:
        row = self.connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        found = row.fetchone()
        return 0 if found is None else int(found[0])

    def stores(self) -> list[int]:
        """The numbers of the stores in use: each of them must exist."""
        if not self._has("store"):
            return []
        return [n for (n,) in self.connection.execute("SELECT number FROM store ORDER BY number")]

    def tombstones(self) -> dict[int, int]:
        """The store of each fragment that is to be dropped."""
        if not self._has("tombstone"):
            return {}
        return dict(self.connection.execute("SELECT fragment_id, store FROM tombstone"))

    # --- writing ------------------------------------------------------------------------

    def found(self) -> None:
        """Give the namespace its id."""
        self._put(NAMESPACE, secrets.token_bytes(NAMESPACE_BYTES).hex())

    def advance(self, least: int = 0) -> int:
        """Raise the generation, to at least `least`; returns it."""
        generation = max(self.generation() + 1, least)
        self._put(GENERATION, str(generation))
        return generation

    # Neither sequence nor digest can be written directly: insert a row and delete it again.

    def raise_entity_sequence(self, least: int) -> None:
        """Never use an id up to `least` for an entity again."""
        if self.entity_sequence() < least:
            self._insert_nameless_entity(least)
            self.connection.execute("DELETE FROM entity WHERE entity_id = ?", (least,))

    def raise_fragment_sequence(self, least: int) -> None:
        """Never use an id up to `least` for a fragment again."""
        if self.fragment_sequence() >= least:
            return
        self._insert_nameless_entity(0)
        self.connection.execute(
            "INSERT INTO fragment (fragment_id, entity_id, ordinal, store) VALUES (?, 0, 0, 0)",
            (least,),
        )
        self.connection.execute("DELETE FROM entity WHERE entity_id = 0")

    def _insert_nameless_entity(self, entity_id: int) -> None:
        self.connection.execute(
            "INSERT INTO entity (entity_id, path, path_key, kind, spec, created_ms, updated_ms)"
            " VALUES (?, '', '', '', '', 0, 0)",
            (entity_id,),
        )

    def add_store(self, number: int) -> None:
        """A store is in use and has recorded its number."""
        self.connection.execute("INSERT OR IGNORE INTO store (number) VALUES (?)", (number,))

    def remove_store(self, number: int) -> None:
        """A store no longer has to exist."""
        self.connection.execute("DELETE FROM store WHERE number = ?", (number,))

    def bury(self, entity_id: int) -> None:
        """The fragments of an entity are to be dropped."""
        self.connection.execute(
            "INSERT OR REPLACE INTO tombstone (fragment_id, store)"
            " SELECT fragment_id, store FROM fragment WHERE entity_id = ?",
            (entity_id,),
        )

    def unbury(self, fragment_ids: Iterable[int]) -> None:
        """Stores have confirmed that these are dropped."""
        self.connection.executemany(
            "DELETE FROM tombstone WHERE fragment_id = ?", [(number,) for number in fragment_ids]
        )

    def _put(self, name: str, value: str) -> None:
        self.connection.execute(
            "INSERT INTO setting (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def _setting(self, name: str) -> str | None:
        row = self.connection.execute("SELECT value FROM setting WHERE name = ?", (name,))
        found = row.fetchone()
        return None if found is None else str(found[0])

    def _has(self, table: str) -> bool:
        query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return self.connection.execute(query, (table,)).fetchone() is not None
