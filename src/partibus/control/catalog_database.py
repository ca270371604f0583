"""The catalog's rows in SQLite: entities, their fragments, and policies.

Owns the schema, its version, and the way between rows and records. It never checks what is
allowed and never tells anyone: `control.catalog` does both and is the only caller. Writes
are durable when a transaction ends (write-ahead log, synchronous=FULL). The file holds keys,
so it is readable by its owner only.
"""

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from partibus.control.change_log import SCHEMA as CHANGE_SCHEMA
from partibus.control.change_log import ChangeLog
from partibus.control.policies import AccessPolicy
from partibus.domain.entity import (
    EntityKind,
    EntitySpec,
    QueueSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.errors import CatalogBusy, ConfigError, StoreUnavailable
from partibus.domain.rights import names_of_rights, rights_from_names

_log: Final = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 1
BUSY_TIMEOUT_MS: Final = 250
"""How long a write waits for another process: theirs take some milliseconds. Whoever can wait
without keeping others waiting tries again."""
_ID_MAX: Final = 2**63 - 1
_APPLICATION_ID: Final = 0x50425553  # "PBUS", so that a foreign database is recognised

# AUTOINCREMENT keeps the ids of deleted rows out of use for good.
_SCHEMA: Final = """
CREATE TABLE entity (
    entity_id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    path_key TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    spec TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL
);
CREATE TABLE fragment (
    fragment_id INTEGER PRIMARY KEY AUTOINCREMENT,
    entity_id INTEGER NOT NULL REFERENCES entity ON DELETE CASCADE,
    ordinal INTEGER NOT NULL,
    store INTEGER NOT NULL,
    UNIQUE (entity_id, ordinal)
);
CREATE TABLE policy (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    primary_key TEXT NOT NULL,
    secondary_key TEXT NOT NULL,
    rights TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;
"""
# Beside the first schema, which stays readable for the release before: that never looks here.
_LATER_TABLES: Final = """
CREATE TABLE IF NOT EXISTS idle (
    entity_id INTEGER PRIMARY KEY REFERENCES entity ON DELETE CASCADE,
    idle_ms INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
"""
_SPEC_TYPES: Final[dict[EntityKind, type[EntitySpec]]] = {
    EntityKind.QUEUE: QueueSpec,
    EntityKind.TOPIC: TopicSpec,
    EntityKind.SUBSCRIPTION: SubscriptionSpec,
}

EntityRow = tuple[int, str, EntityKind, EntitySpec, int, int]
FragmentRow = tuple[int, int, int]


class CatalogDatabase:
    """One open database, on disk or in memory."""

    __slots__ = ("_connection", "_name", "_version", "changes")

    def __init__(self, file: Path | None) -> None:
        self._name = str(file) if file is not None else "the catalog in memory"
        self._connection = _connect(file)
        self.changes = ChangeLog(self._connection)
        self._version = 0
        try:
            self._prepare()
        except sqlite3.Error as error:
            self.close()
            raise ConfigError(f"{self._name} cannot be opened as a catalog: {error}.") from error
        except ConfigError:
            self.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        (version,) = run("PRAGMA user_version").fetchone()
        (application,) = run("PRAGMA application_id").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables == 0:
            run("PRAGMA journal_mode = WAL")
            self._connection.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA application_id = {_APPLICATION_ID};"
                f" PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        elif application != _APPLICATION_ID:
            raise ConfigError(f"{self._name} is a database of another program; move it away.")
        elif version != SCHEMA_VERSION:
            raise ConfigError(
                f"{self._name} has schema version {version}, this release reads "
                f"{SCHEMA_VERSION}; use the release that wrote it, or a newer one."
            )
        self._connection.executescript(_LATER_TABLES + CHANGE_SCHEMA)

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes of the block are durable at its end, or none happened."""
        try:
            self._begin()
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            # Clients read the error, and the place of the file is none of their business.
            _log.error("%s cannot be written: %s", self._name, error)
            raise StoreUnavailable(f"The catalog cannot be written: {error}. Try again.") from error

    def _begin(self) -> None:
        """Become the one writer among all processes that have the file open."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise CatalogBusy from error
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads of the block see the same moment."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def has_news(self) -> bool:
        """Whether another process has written since this was last asked."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        before, self._version = self._version, version
        return bool(version != before)

    def look_again(self) -> None:
        """What is new could not be taken over: it stays new."""
        self._version = 0

    # --- reading ------------------------------------------------------------------------

    def entities(self, wanted: int | None = None) -> Iterator[EntityRow]:
        """Every entity, oldest first, so that a topic comes before its subscriptions; or one."""
        rows = self._connection.execute(
            "SELECT entity_id, path, kind, spec, created_ms, updated_ms FROM entity"
            " WHERE entity_id BETWEEN ? AND ? ORDER BY entity_id",
            _id_range(wanted),
        )
        for entity_id, path, kind_name, text, created_ms, updated_ms in rows:
            kind = EntityKind(kind_name)
            yield entity_id, path, kind, self._decode(path, kind, text), created_ms, updated_ms

    def _decode(self, path: str, kind: EntityKind, text: str) -> EntitySpec:
        try:
            return msgspec.json.decode(text, type=_SPEC_TYPES[kind])
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{self._name}: the entity '{path}' is unreadable: {error}"
            ) from error

    def fragments(self, wanted: int | None = None) -> Iterator[FragmentRow]:
        """(entity id, fragment id, store) in the order of the fragments, of all entities or one."""
        yield from self._connection.execute(
            "SELECT entity_id, fragment_id, store FROM fragment"
            " WHERE entity_id BETWEEN ? AND ? ORDER BY entity_id, ordinal",
            _id_range(wanted),
        )

    def policies(self) -> Iterator[tuple[str, AccessPolicy]]:
        """(scope, policy), by scope and name."""
        rows = self._connection.execute(
            "SELECT scope, name, primary_key, secondary_key, rights FROM policy"
            " ORDER BY scope, name"
        )
        for scope, *fields in rows:
            yield scope, _policy(*fields)

    def policies_of(self, scope: str) -> Iterator[AccessPolicy]:
        """The policies of one scope, by name."""
        rows = self._connection.execute(
            "SELECT name, primary_key, secondary_key, rights FROM policy WHERE scope = ?"
            " ORDER BY name",
            (scope,),
        )
        for fields in rows:
            yield _policy(*fields)

    def idle_times(self) -> dict[int, int]:
        """By entity, for how long nobody had used it when that was last written."""
        return dict(self._connection.execute("SELECT entity_id, idle_ms FROM idle"))

    def setting(self, name: str) -> str | None:
        """What was fixed when the namespace was made."""
        row = self._connection.execute("SELECT value FROM setting WHERE name = ?", (name,))
        found = row.fetchone()
        return None if found is None else str(found[0])

    # --- writing, inside a transaction ----------------------------------------------------

    def put_idle_time(self, entity_id: int, idle_ms: int) -> None:
        """Write for how long an entity has been idle; one that is gone is passed over."""
        self._connection.execute(
            "INSERT OR REPLACE INTO idle SELECT entity_id, ? FROM entity WHERE entity_id = ?",
            (idle_ms, entity_id),
        )

    def put_setting(self, name: str, value: str) -> None:
        """Fix something for good."""
        self._connection.execute("INSERT INTO setting (name, value) VALUES (?, ?)", (name, value))

    def insert_entity(
        self, path: str, key: str, kind: EntityKind, spec: EntitySpec, now_ms: int
    ) -> int:
        """A new entity; returns its id, which no other entity had or will have."""
        cursor = self._connection.execute(
            "INSERT INTO entity (path, path_key, kind, spec, created_ms, updated_ms)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (path, key, kind.value, _encode(spec), now_ms, now_ms),
        )
        assert cursor.lastrowid is not None
        self.changes.note_entity(cursor.lastrowid)
        return cursor.lastrowid

    def insert_fragment(self, entity_id: int, ordinal: int, store: int) -> int:
        """A new fragment; returns its id, which no other fragment had or will have."""
        cursor = self._connection.execute(
            "INSERT INTO fragment (entity_id, ordinal, store) VALUES (?, ?, ?)",
            (entity_id, ordinal, store),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def update_entity(self, entity_id: int, spec: EntitySpec, now_ms: int) -> None:
        """Put another spec in the place of the entity's own."""
        self._connection.execute(
            "UPDATE entity SET spec = ?, updated_ms = ? WHERE entity_id = ?",
            (_encode(spec), now_ms, entity_id),
        )
        self.changes.note_entity(entity_id)

    def delete_entity(self, entity_id: int, key: str) -> None:
        """Remove an entity with its fragments and policies."""
        self._connection.execute("DELETE FROM entity WHERE entity_id = ?", (entity_id,))
        self._connection.execute("DELETE FROM policy WHERE scope = ?", (key,))
        self.changes.note_entity(entity_id)

    def put_policy(self, scope: str, policy: AccessPolicy) -> None:
        """Write a policy, new or in the place of the one with its name."""
        self._connection.execute(
            "INSERT OR REPLACE INTO policy (scope, name, primary_key, secondary_key, rights)"
            " VALUES (?, ?, ?, ?, ?)",
            (
                scope,
                policy.name,
                policy.primary_key,
                policy.secondary_key,
                " ".join(names_of_rights(policy.rights)),
            ),
        )
        self.changes.note_policies(scope)

    def delete_policy(self, scope: str, name: str) -> None:
        """Remove a policy."""
        self._connection.execute("DELETE FROM policy WHERE scope = ? AND name = ?", (scope, name))
        self.changes.note_policies(scope)


def read_policies(file: Path, scope: str) -> list[AccessPolicy]:
    """The policies of a scope in a catalog that may be in use; nothing is written to it."""
    if not file.is_file():
        raise ConfigError(f"{file} does not exist: {file.parent} is not a data directory.")
    connection: sqlite3.Connection | None = None
    try:
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
        rows = connection.execute(
            "SELECT name, primary_key, secondary_key, rights FROM policy WHERE scope = ?", (scope,)
        ).fetchall()
    except sqlite3.Error as error:
        raise ConfigError(f"{file} cannot be read as a catalog: {error}.") from error
    finally:
        if connection is not None:
            connection.close()
    return [
        AccessPolicy(name, primary, secondary, rights_from_names(rights.split()))
        for name, primary, secondary, rights in rows
    ]


def _connect(file: Path | None) -> sqlite3.Connection:
    if file is None:
        return sqlite3.connect(":memory:", isolation_level=None)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        return sqlite3.connect(file, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(f"{file} cannot be opened: {error}.") from error


def _id_range(wanted: int | None) -> tuple[int, int]:
    """All ids, or one."""
    return (0, _ID_MAX) if wanted is None else (wanted, wanted)


def _policy(name: str, primary_key: str, secondary_key: str, rights: str) -> AccessPolicy:
    return AccessPolicy(name, primary_key, secondary_key, rights_from_names(rights.split()))


def _encode(spec: EntitySpec) -> str:
    return msgspec.json.encode(spec).decode()
