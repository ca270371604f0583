"""The rows of the catalog in either database: entities, their fragments, and policies.

Owns the statements that SQLite (`database`) and PostgreSQL (`control.postgres`) share, and
the conversion between a row's text and its meaning. Must never check what is allowed, or notify
anyone: `control.catalog` does both and is the only caller.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, LiteralString

import msgspec

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog.change_log import ChangeRows, Row, Run
from partibus.control.catalog.identity import IdentityRows
from partibus.domain.entity import (
    SPECS,
    EntityKind,
    EntitySpec,
)
from partibus.domain.errors import ConfigError
from partibus.domain.rights import names_of_rights, rights_from_names

EntityRow = tuple[int, str, EntityKind, EntitySpec, int, int]
FragmentRow = tuple[int, int, int]
_ID_MAX: Final = 2**63 - 1

COLUMNS: Final = {
    "setting": ("name", "value"),
    "entity": ("entity_id", "path", "path_key", "kind", "spec", "created_ms", "updated_ms"),
    "fragment": ("fragment_id", "entity_id", "ordinal", "store"),
    "policy": ("scope", "name", "primary_key", "secondary_key", "rights"),
    "idle": ("entity_id", "idle_ms"),
    "store": ("number",),
    "tombstone": ("fragment_id", "store"),
}
"""Every table except the log of changes, in an order in which references find their row."""


class CatalogRows(ABC):
    """One open database: the statements that both understand.

    They are written as SQLite reads them, which calls its database `main`; PostgreSQL translates
    (`CatalogLink.run_shared`).
    """

    __slots__ = ("_name", "_run", "changes", "identity")

    _name: str
    """The database, in errors."""
    _run: Run
    changes: ChangeRows
    identity: IdentityRows

    @abstractmethod
    def close(self) -> None:
        """Close the database; a second call does nothing."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All writes of the block are durable at its end, or none happened."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """All reads of the block see the same state."""

    @abstractmethod
    def has_news(self) -> bool:
        """Whether another process has written since the last call."""

    @abstractmethod
    def look_again(self) -> None:
        """The new changes could not be processed: they stay new."""

    @abstractmethod
    def copy_to(self, file: Path) -> None:
        """Write all of it to another file, if the database is not protected by other means."""

    @abstractmethod
    def _insert(self, query: LiteralString, values: Row, key: LiteralString) -> int:
        """Insert a row without its key; returns the key."""

    @abstractmethod
    def _run_many(self, query: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row."""

    # --- reading ------------------------------------------------------------------------

    def entities(self, wanted: int | None = None) -> Iterator[EntityRow]:
        """Every entity, oldest first, so that a topic comes before its subscriptions; or one."""
        rows = self._run(
            "SELECT entity_id, path, kind, spec, created_ms, updated_ms FROM main.entity"
            " WHERE entity_id BETWEEN ? AND ? ORDER BY entity_id",
            _id_range(wanted),
        )
        for entity_id, path, kind_name, text, created_ms, updated_ms in rows.fetchall():
            kind = EntityKind(kind_name)
            spec = decode_spec(self._name, path, kind, text)
            yield entity_id, path, kind, spec, created_ms, updated_ms

    def fragments(self, wanted: int | None = None) -> Iterator[FragmentRow]:
        """(entity id, fragment id, store) in the order of the fragments, of all entities or one."""
        rows = self._run(
            "SELECT entity_id, fragment_id, store FROM main.fragment"
            " WHERE entity_id BETWEEN ? AND ? ORDER BY entity_id, ordinal",
            _id_range(wanted),
        )
        yield from rows.fetchall()

    def policies(self) -> Iterator[tuple[str, AccessPolicy]]:
        """(scope, policy), by scope and name."""
        rows = self._run(
            "SELECT scope, name, primary_key, secondary_key, rights FROM main.policy"
            " ORDER BY scope, name"
        )
        for scope, *fields in rows.fetchall():
            yield scope, policy_of(*fields)

    def policies_of(self, scope: str) -> Iterator[AccessPolicy]:
        """The policies of one scope, by name."""
        rows = self._run(
            "SELECT name, primary_key, secondary_key, rights FROM main.policy WHERE scope = ?"
            " ORDER BY name",
            (scope,),
        )
        for fields in rows.fetchall():
            yield policy_of(*fields)

    def idle_times(self) -> dict[int, int]:
        """By entity, how long it had been idle when that was last written."""
        return dict(self._run("SELECT entity_id, idle_ms FROM main.idle").fetchall())

    def setting(self, name: str) -> str | None:
        """A setting that was fixed when the namespace was created."""
        return self.identity.setting(name)

    # --- writing, inside a transaction ----------------------------------------------------

    def put_idle_time(self, entity_id: int, idle_ms: int) -> None:
        """Write how long an entity has been idle; a deleted one is ignored."""
        self._run(
            "INSERT INTO main.idle SELECT entity_id, ? FROM main.entity WHERE entity_id = ?"
            " ON CONFLICT (entity_id) DO UPDATE SET idle_ms = excluded.idle_ms",
            (idle_ms, entity_id),
        )

    def put_setting(self, name: str, value: str) -> None:
        """Write a setting that never changes."""
        self._run("INSERT INTO main.setting (name, value) VALUES (?, ?)", (name, value))

    def insert_entity(
        self, path: str, key: str, kind: EntityKind, spec: EntitySpec, now_ms: int
    ) -> int:
        """A new entity; returns its id, which no other entity had or will have."""
        entity_id = self._insert(
            "INSERT INTO main.entity (path, path_key, kind, spec, created_ms, updated_ms)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (path, key, kind.value, encode_spec(spec), now_ms, now_ms),
            "entity_id",
        )
        self.changes.note_entity(entity_id)
        return entity_id

    def insert_fragment(self, entity_id: int, ordinal: int, store: int) -> int:
        """A new fragment; returns its id, which no other fragment had or will have."""
        return self._insert(
            "INSERT INTO main.fragment (entity_id, ordinal, store) VALUES (?, ?, ?)",
            (entity_id, ordinal, store),
            "fragment_id",
        )

    def insert_known_fragment(self, entity_id: int, fragment_id: int, store: int) -> None:
        """The only fragment of an entity, which existed before it."""
        self._run(
            "INSERT INTO main.fragment (fragment_id, entity_id, ordinal, store)"
            " VALUES (?, ?, 0, ?)",
            (fragment_id, entity_id, store),
        )

    def update_entity(self, entity_id: int, spec: EntitySpec, now_ms: int) -> None:
        """Replace the entity's spec."""
        self._run(
            "UPDATE main.entity SET spec = ?, updated_ms = ? WHERE entity_id = ?",
            (encode_spec(spec), now_ms, entity_id),
        )
        self.changes.note_entity(entity_id)

    def delete_entity(self, entity_id: int, key: str) -> None:
        """Remove an entity with its fragments and policies; its store has not dropped them yet."""
        self.identity.bury(entity_id)
        self._run("DELETE FROM main.entity WHERE entity_id = ?", (entity_id,))
        self._run("DELETE FROM main.policy WHERE scope = ?", (key,))
        self.changes.note_entity(entity_id)

    def put_policy(self, scope: str, policy: AccessPolicy) -> None:
        """Write a policy, new or replacing the one with its name."""
        self._run(
            "INSERT INTO main.policy (scope, name, primary_key, secondary_key, rights)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (scope, name) DO UPDATE SET"
            " primary_key = excluded.primary_key, secondary_key = excluded.secondary_key,"
            " rights = excluded.rights",
            policy_row(scope, policy),
        )
        self.changes.note_policies(scope)

    def delete_policy(self, scope: str, name: str) -> None:
        """Remove a policy."""
        self._run("DELETE FROM main.policy WHERE scope = ? AND name = ?", (scope, name))
        self.changes.note_policies(scope)

    # --- copying ------------------------------------------------------------------------

    def read_table(self, table: str) -> list[Row]:
        """Every row of a table, in the order of `COLUMNS`."""
        columns = ", ".join(COLUMNS[table])
        query = f"SELECT {columns} FROM main.{table} ORDER BY 1"  # noqa: S608
        return self._run(query).fetchall()

    def replace_table(self, table: str, rows: Sequence[Row]) -> None:
        """Replace all rows of a table; inside a transaction."""
        self._run(f"DELETE FROM main.{table}")  # noqa: S608
        columns, places = ", ".join(COLUMNS[table]), ", ".join("?" * len(COLUMNS[table]))
        self._run_many(f"INSERT INTO main.{table} ({columns}) VALUES ({places})", rows)  # noqa: S608


def encode_spec(spec: EntitySpec) -> str:
    """A spec as the text of a row."""
    return msgspec.json.encode(spec).decode()


def decode_spec(place: str, path: str, kind: EntityKind, text: str) -> EntitySpec:
    """The spec in a row of an entity; `place` names the database in the error."""
    try:
        return msgspec.json.decode(text, type=SPECS[kind])
    except msgspec.DecodeError as error:
        raise ConfigError(f"{place}: the entity '{path}' is unreadable: {error}") from error


def policy_row(scope: str, policy: AccessPolicy) -> Row:
    """A policy as a row."""
    rights = " ".join(names_of_rights(policy.rights))
    return scope, policy.name, policy.primary_key, policy.secondary_key, rights


def policy_of(name: str, primary_key: str, secondary_key: str, rights: str) -> AccessPolicy:
    """The policy in a row, without its scope."""
    return AccessPolicy(name, primary_key, secondary_key, rights_from_names(rights.split()))


def _id_range(wanted: int | None) -> tuple[int, int]:
    """All ids, or one."""
    return (0, _ID_MAX) if wanted is None else (wanted, wanted)
