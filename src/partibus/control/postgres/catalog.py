"""The rows of a cluster's catalog in PostgreSQL: entities, their fragments, policies, the feed.

Owns the statements; `control.catalog_database` says what each method means, and to the catalog, the
only caller, both look the same. Any node may write: it waits for its turn, then sees everything
that others have written. Every change gets the next number in the log, without gaps, because it is
assigned in that turn. Must never check what is allowed, or notify anyone.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from psycopg import sql

from partibus.control.catalog_rows import (
    COLUMNS,
    EntityRow,
    FragmentRow,
    Row,
    decode_spec,
    encode_spec,
    policy_of,
    policy_row,
)
from partibus.control.change_log import CHANGES_KEPT, News, news_of
from partibus.control.policies import AccessPolicy
from partibus.control.postgres.catalog_identity import PostgresCatalogIdentity
from partibus.control.postgres.catalog_link import CatalogLink
from partibus.control.postgres.session import database_name, prepare
from partibus.domain.entity import EntityKind, EntitySpec

NOT_READ: Final = -1
"""Lower than any generation."""
ROWS_PER_STATEMENT: Final = 1000
"""So that no statement takes longer than `WORK_MS`, however large a catalog is."""


class KnownGeneration(Protocol):
    """Something that follows the catalog without blocking and knows its generation."""

    generation: int


class PostgresChangeLog:
    """The log of changes; `seen` is the last one that this process has read."""

    __slots__ = ("_link", "seen")

    def __init__(self, link: CatalogLink) -> None:
        self._link = link
        self.seen = 0

    def note_entity(self, entity_id: int) -> None:
        """An entity was created, changed or deleted in this transaction."""
        self._note(entity_id, None)

    def note_policies(self, scope: str) -> None:
        """The policies of a scope changed in this transaction."""
        self._note(None, scope)

    def _note(self, entity_id: int | None, scope: str | None) -> None:
        self._link.run(
            "WITH noted AS (INSERT INTO partibus_cluster.change (change_id, entity_id, scope)"
            " SELECT coalesce(max(change_id), 0) + 1, %s::bigint, %s::text"
            " FROM partibus_cluster.change RETURNING change_id)"
            " DELETE FROM partibus_cluster.change"
            " WHERE change_id <= (SELECT change_id FROM noted) - %s",
            (entity_id, scope, CHANGES_KEPT),
        )

    def last(self) -> int:
        """The number of the last change."""
        found = self._link.run("SELECT coalesce(max(change_id), 0) FROM partibus_cluster.change")
        (last,) = found.fetchone() or (0,)
        return int(last)

    def news(self) -> News | None:
        """What has changed since `seen`; None when that is no longer known."""
        rows = self._link.run(
            "SELECT change_id, entity_id, scope FROM partibus_cluster.change"
            " WHERE change_id > %s ORDER BY change_id",
            (self.seen,),
        ).fetchall()
        return news_of([(number, entity, scope) for number, entity, scope in rows], self.seen)


class PostgresCatalog:
    """The rows of a catalog; `feed`, if given, saves asking the database whether others have
    written."""

    __slots__ = ("_dsn", "_link", "_version", "changes", "feed", "identity")

    def __init__(self, dsn: str) -> None:
        prepare(dsn)
        self._dsn = dsn
        self._link = CatalogLink(dsn)
        self._version = NOT_READ
        self.feed: KnownGeneration | None = None
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
        """The news could not be processed: it stays new."""
        self._version = NOT_READ

    def copy_to(self, file: Path) -> None:
        """Nothing: the rows are protected by backups and replicas of the database."""

    # --- reading ------------------------------------------------------------------------

    def entities(self, wanted: int | None = None) -> Iterator[EntityRow]:
        """Every entity, oldest first, so that a topic comes before its subscriptions; or one."""
        rows = self._link.run(
            "SELECT entity_id, path, kind, spec, created_ms, updated_ms"
            " FROM partibus_cluster.entity WHERE %s::bigint IS NULL OR entity_id = %s"
            " ORDER BY entity_id",
            (wanted, wanted),
        )
        for entity_id, path, kind_name, text, created_ms, updated_ms in rows:
            kind = EntityKind(kind_name)
            spec = decode_spec(f"The {database_name(self._dsn)}", path, kind, text)
            yield entity_id, path, kind, spec, created_ms, updated_ms

    def fragments(self, wanted: int | None = None) -> Iterator[FragmentRow]:
        """(entity id, fragment id, store) in the order of the fragments, of all entities or one."""
        rows = self._link.run(
            "SELECT entity_id, fragment_id, store FROM partibus_cluster.fragment"
            " WHERE %s::bigint IS NULL OR entity_id = %s ORDER BY entity_id, ordinal",
            (wanted, wanted),
        )
        yield from rows.fetchall()

    def policies(self) -> Iterator[tuple[str, AccessPolicy]]:
        """(scope, policy), by scope and name."""
        rows = self._link.run(
            "SELECT scope, name, primary_key, secondary_key, rights FROM partibus_cluster.policy"
            " ORDER BY scope, name"
        )
        for scope, *fields in rows:
            yield scope, policy_of(*fields)

    def policies_of(self, scope: str) -> Iterator[AccessPolicy]:
        """The policies of one scope, by name."""
        rows = self._link.run(
            "SELECT name, primary_key, secondary_key, rights FROM partibus_cluster.policy"
            " WHERE scope = %s ORDER BY name",
            (scope,),
        )
        for fields in rows:
            yield policy_of(*fields)

    def idle_times(self) -> dict[int, int]:
        """By entity, how long it had been idle when that was last written."""
        return dict(
            self._link.run("SELECT entity_id, idle_ms FROM partibus_cluster.idle").fetchall()
        )

    def setting(self, name: str) -> str | None:
        """A setting that was fixed when the namespace was created."""
        found = self._link.run(
            "SELECT value FROM partibus_cluster.setting WHERE name = %s", (name,)
        )
        row = found.fetchone()
        return None if row is None else str(row[0])

    # --- writing, inside a transaction ----------------------------------------------------

    def put_idle_time(self, entity_id: int, idle_ms: int) -> None:
        """Write how long an entity has been idle; a deleted one is ignored."""
        self._link.run(
            "INSERT INTO partibus_cluster.idle"
            " SELECT entity_id, %s FROM partibus_cluster.entity WHERE entity_id = %s"
            " ON CONFLICT (entity_id) DO UPDATE SET idle_ms = excluded.idle_ms",
            (idle_ms, entity_id),
        )

    def put_setting(self, name: str, value: str) -> None:
        """Write a setting that never changes."""
        self._link.run(
            "INSERT INTO partibus_cluster.setting (name, value) VALUES (%s, %s)", (name, value)
        )

    def insert_entity(
        self, path: str, key: str, kind: EntityKind, spec: EntitySpec, now_ms: int
    ) -> int:
        """A new entity; returns its id, which no other entity had or will have."""
        found = self._link.run(
            "INSERT INTO partibus_cluster.entity"
            " (path, path_key, kind, spec, created_ms, updated_ms)"
            " VALUES (%s, %s, %s, %s, %s, %s) RETURNING entity_id",
            (path, key, kind.value, encode_spec(spec), now_ms, now_ms),
        )
        entity_id = _id(found.fetchone())
        self.changes.note_entity(entity_id)
        return entity_id

    def insert_fragment(self, entity_id: int, ordinal: int, store: int) -> int:
        """A new fragment; returns its id, which no other fragment had or will have."""
        found = self._link.run(
            "INSERT INTO partibus_cluster.fragment (entity_id, ordinal, store)"
            " VALUES (%s, %s, %s) RETURNING fragment_id",
            (entity_id, ordinal, store),
        )
        return _id(found.fetchone())

    def insert_known_fragment(self, entity_id: int, fragment_id: int, store: int) -> None:
        """The only fragment of an entity, which existed before it."""
        self._link.run(
            "INSERT INTO partibus_cluster.fragment (fragment_id, entity_id, ordinal, store)"
            " VALUES (%s, %s, 0, %s)",
            (fragment_id, entity_id, store),
        )
        self.identity.raise_fragment_sequence(fragment_id)

    def update_entity(self, entity_id: int, spec: EntitySpec, now_ms: int) -> None:
        """Replace the entity's spec."""
        self._link.run(
            "UPDATE partibus_cluster.entity SET spec = %s, updated_ms = %s WHERE entity_id = %s",
            (encode_spec(spec), now_ms, entity_id),
        )
        self.changes.note_entity(entity_id)

    def delete_entity(self, entity_id: int, key: str) -> None:
        """Remove an entity with its fragments and policies; its lane has not dropped them yet."""
        self.identity.bury(entity_id)
        self._link.run("DELETE FROM partibus_cluster.entity WHERE entity_id = %s", (entity_id,))
        self._link.run("DELETE FROM partibus_cluster.policy WHERE scope = %s", (key,))
        self.changes.note_entity(entity_id)

    def put_policy(self, scope: str, policy: AccessPolicy) -> None:
        """Write a policy, new or replacing the one with its name."""
        self._link.run(
            "INSERT INTO partibus_cluster.policy (scope, name, primary_key, secondary_key, rights)"
            " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (scope, name) DO UPDATE SET"
            " primary_key = excluded.primary_key, secondary_key = excluded.secondary_key,"
            " rights = excluded.rights",
            policy_row(scope, policy),
        )
        self.changes.note_policies(scope)

    def delete_policy(self, scope: str, name: str) -> None:
        """Remove a policy."""
        self._link.run(
            "DELETE FROM partibus_cluster.policy WHERE scope = %s AND name = %s", (scope, name)
        )
        self.changes.note_policies(scope)

    # --- copying ------------------------------------------------------------------------

    def read_table(self, table: str) -> list[Row]:
        """Every row of a table, in the order of `COLUMNS`."""
        query = sql.SQL("SELECT {columns} FROM {table} ORDER BY 1")
        return self._link.run(_named(query, table)).fetchall()

    def replace_table(self, table: str, rows: Sequence[Row]) -> None:
        """Replace all rows of a table; inside a transaction."""
        self._link.run(_named(sql.SQL("DELETE FROM {table}"), table))
        places = sql.SQL(", ").join([sql.Placeholder()] * len(COLUMNS[table]))
        query = sql.SQL("INSERT INTO {table} ({columns}) VALUES ({places})")
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            part = rows[start : start + ROWS_PER_STATEMENT]
            self._link.run_many(_named(query, table, places=places), part)


def _named(query: sql.SQL, table: str, **more: sql.Composable) -> sql.Composed:
    columns = sql.SQL(", ").join(map(sql.Identifier, COLUMNS[table]))
    name = sql.Identifier("partibus_cluster", table)
    return query.format(table=name, columns=columns, **more)


def _id(row: Row | None) -> int:
    assert row is not None
    return int(row[0])
