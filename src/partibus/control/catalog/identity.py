"""The namespace of a catalog, the stores that belong to it, and the fragments being deleted.

Owns the namespace id (random, made with the catalog), the generation (one more with every change of
the namespace, which stores record, so that an older catalog is recognised), the stores in use, and
the tombstones: fragments whose entity was deleted and whose store has not confirmed it yet. The
server compares these with what the stores record about themselves. The statements are those of
both databases (`rows`); a subclass has what differs. Called by the catalog and,
through it, by the start of the server and the offline verbs.
"""

import secrets
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

from partibus.control.catalog.change_log import Run

NAMESPACE_BYTES: Final = 16
NAMESPACE: Final = "namespace"
GENERATION: Final = "generation"

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS store (number INTEGER PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS tombstone"
    " (fragment_id INTEGER PRIMARY KEY, store INTEGER NOT NULL)",
)


class IdentityRows(ABC):
    """The catalog's own part in the identity of a data directory; writes in a transaction."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    # --- reading ------------------------------------------------------------------------

    def namespace(self) -> bytes | None:
        """The id; None in a catalog of a release without ids."""
        value = self.setting(NAMESPACE)
        return None if value is None else bytes.fromhex(value)

    def generation(self) -> int:
        """How many changes the namespace has had since it has an id."""
        return int(self.setting(GENERATION) or 0)

    @abstractmethod
    def entity_sequence(self) -> int:
        """The highest id that an entity ever had."""

    @abstractmethod
    def fragment_sequence(self) -> int:
        """The highest id that a fragment ever had."""

    def stores(self) -> list[int]:
        """The numbers of the stores in use: each of them must exist."""
        rows = self._run("SELECT number FROM main.store ORDER BY number").fetchall()
        return [number for (number,) in rows]

    def tombstones(self) -> dict[int, int]:
        """The store of each fragment that is to be dropped."""
        return dict(self._run("SELECT fragment_id, store FROM main.tombstone").fetchall())

    def setting(self, name: str) -> str | None:
        """A setting of the namespace."""
        row = self._run("SELECT value FROM main.setting WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    # --- writing ------------------------------------------------------------------------

    def found(self) -> None:
        """Give the namespace its id."""
        self._put(NAMESPACE, secrets.token_bytes(NAMESPACE_BYTES).hex())

    def advance(self, least: int = 0) -> int:
        """Raise the generation, to at least `least`; returns it."""
        generation = max(self.generation() + 1, least)
        self._put(GENERATION, str(generation))
        return generation

    @abstractmethod
    def raise_entity_sequence(self, least: int) -> None:
        """Never use an id up to `least` for an entity again."""

    @abstractmethod
    def raise_fragment_sequence(self, least: int) -> None:
        """Never use an id up to `least` for a fragment again."""

    def add_store(self, number: int) -> None:
        """A store is in use and has recorded its number."""
        self._run("INSERT INTO main.store (number) VALUES (?) ON CONFLICT DO NOTHING", (number,))

    def remove_store(self, number: int) -> None:
        """A store no longer has to exist."""
        self._run("DELETE FROM main.store WHERE number = ?", (number,))

    def bury(self, entity_id: int) -> None:
        """The fragments of an entity are to be dropped."""
        self._run(
            "INSERT INTO main.tombstone (fragment_id, store)"
            " SELECT fragment_id, store FROM main.fragment WHERE entity_id = ?"
            " ON CONFLICT (fragment_id) DO UPDATE SET store = excluded.store",
            (entity_id,),
        )

    @abstractmethod
    def unbury(self, fragment_ids: Iterable[int]) -> None:
        """Stores have confirmed that these are dropped."""

    def _put(self, name: str, value: str) -> None:
        self._run(
            "INSERT INTO main.setting (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )


class CatalogIdentity(IdentityRows):
    """The identity of a catalog in SQLite."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection.execute)
        self._connection = connection

    def entity_sequence(self) -> int:
        return self._sequence("entity")

    def fragment_sequence(self) -> int:
        return self._sequence("fragment")

    def _sequence(self, table: str) -> int:
        row = self._run("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return 0 if row is None else int(row[0])

    # A catalog of an earlier release has neither table until it is written.

    def stores(self) -> list[int]:
        return super().stores() if self._has("store") else []

    def tombstones(self) -> dict[int, int]:
        return super().tombstones() if self._has("tombstone") else {}

    def _has(self, table: str) -> bool:
        query = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
        return self._run(query, (table,)).fetchone() is not None

    # Neither sequence nor digest can be written directly: insert a row and delete it again.

    def raise_entity_sequence(self, least: int) -> None:
        if self.entity_sequence() < least:
            self._insert_nameless_entity(least)
            self._run("DELETE FROM entity WHERE entity_id = ?", (least,))

    def raise_fragment_sequence(self, least: int) -> None:
        if self.fragment_sequence() >= least:
            return
        self._insert_nameless_entity(0)
        self._run(
            "INSERT INTO fragment (fragment_id, entity_id, ordinal, store) VALUES (?, 0, 0, 0)",
            (least,),
        )
        self._run("DELETE FROM entity WHERE entity_id = 0")

    def _insert_nameless_entity(self, entity_id: int) -> None:
        self._run(
            "INSERT INTO entity (entity_id, path, path_key, kind, spec, created_ms, updated_ms)"
            " VALUES (?, '', '', '', '', 0, 0)",
            (entity_id,),
        )

    def unbury(self, fragment_ids: Iterable[int]) -> None:
        self._connection.executemany(
            "DELETE FROM tombstone WHERE fragment_id = ?", [(number,) for number in fragment_ids]
        )
