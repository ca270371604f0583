"""Which namespace a catalog is of, which stores belong to it, and what is on its way out.

Owns the namespace id (random, made with the catalog), the generation (one more with every
change of the namespace, which stores note, so that an older catalog is recognised), the stores
that were begun, and the tombstones: fragments whose entity was deleted and whose store has not
said so yet. It compares nothing: the server does, with what the stores say of themselves.
Called by the catalog and, through it, by the start of the server and the offline verbs.
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
        """The id; None in a catalog of a release that knew none."""
        value = self._setting(NAMESPACE)
        return None if value is None else bytes.fromhex(value)

    def generation(self) -> int:
        """How many changes the namespace has seen since it has an id."""
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
        """The numbers of the stores that were begun: each of them must be there."""
        if not self._has("store"):
            return []
        return [n for (n,) in self.connection.execute("SELECT number FROM store ORDER BY number")]

    def tombstones(self) -> dict[int, int]:
        """By fragment that is to be dropped, its store."""
        if not self._has("tombstone"):
            return {}
        return dict(self.connection.execute("SELECT fragment_id, store FROM tombstone"))

    # --- writing ------------------------------------------------------------------------

    def found(self) -> None:
        """Give the namespace its id."""
        self._put(NAMESPACE, secrets.token_bytes(NAMESPACE_BYTES).hex())

    def advance(self, least: int = 0) -> int:
        """The next generation, and not before `least`; answers it."""
        generation = max(self.generation() + 1, least)
        self._put(GENERATION, str(generation))
        return generation

    # Neither sequence nor digest can be written by hand: a row that is gone again can.

    def raise_entity_sequence(self, least: int) -> None:
        """Use no id up to `least` for an entity any more."""
        if self.entity_sequence() < least:
            self._insert_nameless_entity(least)
            self.connection.execute("DELETE FROM entity WHERE entity_id = ?", (least,))

    def raise_fragment_sequence(self, least: int) -> None:
        """Use no id up to `least` for a fragment any more."""
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
        """A store was begun and says of itself that it is this one."""
        self.connection.execute("INSERT OR IGNORE INTO store (number) VALUES (?)", (number,))

    def remove_store(self, number: int) -> None:
        """A store need not be there any more."""
        self.connection.execute("DELETE FROM store WHERE number = ?", (number,))

    def bury(self, entity_id: int) -> None:
        """The fragments of an entity are to be dropped."""
        self.connection.execute(
            "INSERT OR REPLACE INTO tombstone (fragment_id, store)"
            " SELECT fragment_id, store FROM fragment WHERE entity_id = ?",
            (entity_id,),
        )

    def unbury(self, fragment_ids: Iterable[int]) -> None:
        """Stores have said that these are dropped."""
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
