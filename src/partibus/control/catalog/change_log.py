"""The numbered log of changes to the catalog, for the processes that did not make them.

Owns the table `change`: one row for every entity that was created, changed or deleted and for every
scope whose policies changed, written in the transaction of the change itself. The numbers have no
gaps, so a reader that knows its last number reads exactly what is new, and notices if it has missed
rows that are no longer kept. It says what changed, not how: an entity that is no longer in its
table was deleted. Called by the catalog's database and the catalog.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, LiteralString, NamedTuple, Protocol

CHANGES_KEPT: Final = 10_000
"""Far more than happen between two readings, one second apart; beyond that everything is read
again."""

TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS change"
    " (change_id INTEGER PRIMARY KEY AUTOINCREMENT, entity_id INTEGER, scope TEXT)"
)

Row = tuple[Any, ...]


class Found(Protocol):
    """What a statement has found, in either database."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


Run = Callable[..., Found]
"""Run a statement in SQLite's words, with its values."""


class NewChanges(NamedTuple):
    """What has changed, up to a number: entities by id, oldest first, and scopes of policies."""

    last: int

    entity_ids: Sequence[int]
    scopes: Sequence[str]


class ChangeRows(ABC):
    """The log in one open database; `seen` is the last change that this process has read."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = 0

    def note_entity(self, entity_id: int) -> None:
        """An entity was created, changed or deleted in this transaction."""
        self._note(entity_id, None)

    def note_policies(self, scope: str) -> None:
        """The policies of a scope changed in this transaction."""
        self._note(None, scope)

    def last(self) -> int:
        """The number of the last change; 0 in a catalog of a release without a log."""
        rows = self._read("SELECT coalesce(max(change_id), 0) FROM main.change")
        return int(rows[0][0]) if rows else 0

    def new_changes(self) -> NewChanges | None:
        """What has changed since `seen`; None when that is no longer known. The caller then sets
        `seen` to its last number."""
        rows = self._read(
            "SELECT change_id, entity_id, scope FROM main.change WHERE change_id > ?"
            " ORDER BY change_id",
            (self.seen,),
        )
        return None if rows is None else changes_of(rows, self.seen)

    @abstractmethod
    def _note(self, entity_id: int | None, scope: str | None) -> None:
        """Write the next row, and drop what is no longer kept."""

    @abstractmethod
    def _read(self, query: LiteralString, values: Row = ()) -> list[Any] | None:
        """Rows of the log; None in a catalog of a release without one, until it is written."""


class ChangeLog(ChangeRows):
    """The log in SQLite."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def _note(self, entity_id: int | None, scope: str | None) -> None:
        run = self._connection.execute
        number = run(
            "INSERT INTO change (entity_id, scope) VALUES (?, ?)", (entity_id, scope)
        ).lastrowid
        assert number is not None
        run("DELETE FROM change WHERE change_id <= ?", (number - CHANGES_KEPT,))

    def _read(self, query: LiteralString, values: Row = ()) -> list[Any] | None:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.OperationalError:
            known = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'change'"
            if self._connection.execute(known).fetchone() is not None:
                raise
            return None


def changes_of(rows: Sequence[tuple[int, int | None, str | None]], seen: int) -> NewChanges | None:
    """The changes in the rows after `seen`; None when some of them are no longer kept."""
    if not rows:
        return NewChanges(seen, (), ())
    if rows[0][0] != seen + 1:
        return None
    return NewChanges(
        rows[-1][0],
        sorted({entity_id for _, entity_id, _ in rows if entity_id is not None}),
        list(dict.fromkeys(scope for _, _, scope in rows if scope is not None)),
    )
