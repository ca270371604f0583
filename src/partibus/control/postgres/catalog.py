"""The rows of a cluster's catalog in PostgreSQL: entities, their fragments, policies, the feed.

Owns what differs from SQLite; `control.catalog.rows` has the rest, and to the catalog, the only
caller, both look the same. Any node may write: it waits for its turn, then sees everything
that others have written. Every change gets the next number in the log, without gaps, because it is
assigned in that turn.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, LiteralString

from partibus.control.catalog.change_log import CHANGES_KEPT, ChangeRows, Row
from partibus.control.catalog.rows import CatalogRows
from partibus.control.postgres.catalog_identity import PostgresCatalogIdentity
from partibus.control.postgres.catalog_link import CatalogLink
from partibus.control.postgres.feed import CatalogFeed
from partibus.control.postgres.session import database_name, prepare

NOT_READ: Final = -1
"""Lower than any generation."""
ROWS_PER_STATEMENT: Final = 1000
"""So that no statement takes longer than `WORK_MS`, however large a catalog is."""


class PostgresChangeLog(ChangeRows):
    """The log in PostgreSQL."""

    __slots__ = ("_link",)

    def __init__(self, link: CatalogLink) -> None:
        super().__init__()
        self._link = link

    def _note(self, entity_id: int | None, scope: str | None) -> None:
        self._link.run(
            "WITH noted AS (INSERT INTO partibus_cluster.change (change_id, entity_id, scope)"
            " SELECT coalesce(max(change_id), 0) + 1, %s::bigint, %s::text"
            " FROM partibus_cluster.change RETURNING change_id)"
            " DELETE FROM partibus_cluster.change"
            " WHERE change_id <= (SELECT change_id FROM noted) - %s",
            (entity_id, scope, CHANGES_KEPT),
        )

    def _read(self, query: LiteralString, values: Row = ()) -> list[Row]:
        return self._link.run_shared(query, values).fetchall()


class PostgresCatalog(CatalogRows):
    """The rows of a catalog; `feed`, if given, saves asking the database whether others have
    written."""

    __slots__ = ("_link", "_version", "feed")

    def __init__(self, dsn: str) -> None:
        prepare(dsn)
        self._name = f"The {database_name(dsn)}"
        self._link = CatalogLink(dsn)
        self._run = self._link.run_shared
        self._version = NOT_READ
        self.feed: CatalogFeed | None = None
        """Follows the catalog without blocking, and knows its generation."""
        self.changes = PostgresChangeLog(self._link)
        self.identity = PostgresCatalogIdentity(self._link)
        self._found()

    def _found(self) -> None:
        """A new catalog gets a new namespace id."""
        if self.identity.namespace() is None:
            with self.transaction():
                if self.identity.namespace() is None:
                    self.identity.found()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def transaction(self) -> AbstractContextManager[None]:
        """All writes of the block are durable at its end, or none happened."""
        return self._link.transaction()

    def snapshot(self) -> AbstractContextManager[None]:
        """All reads of the block see the same state."""
        return self._link.snapshot()

    def has_news(self) -> bool:
        """Whether anything was written since the last call; a writer asks the database."""
        if self.feed is None or self._link.in_transaction:
            version = self.identity.generation()
        else:
            version = self.feed.generation
        before, self._version = self._version, version
        return version != before

    def look_again(self) -> None:
        """The new changes could not be processed: they stay new."""
        self._version = NOT_READ

    def copy_to(self, file: Path) -> None:
        """Nothing: the rows are protected by backups and replicas of the database."""

    def _insert(self, query: LiteralString, values: Row, key: LiteralString) -> int:
        row = self._link.run_shared(f"{query} RETURNING {key}", values).fetchone()
        assert row is not None
        return int(row[0])

    def _run_many(self, query: LiteralString, rows: Sequence[Row]) -> None:
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            self._link.run_many_shared(query, rows[start : start + ROWS_PER_STATEMENT])

    def insert_known_fragment(self, entity_id: int, fragment_id: int, store: int) -> None:
        super().insert_known_fragment(entity_id, fragment_id, store)
        self.identity.raise_fragment_sequence(fragment_id)
