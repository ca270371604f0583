"""Checksums of the catalog: they cover every row, and damage of a single bit is found.

Owns the table `digest`: for each table the exclusive or of the hashes of its rows, kept by triggers
in the same statement that writes a row, so that the cost is proportional to the change. There is
one more for the schema itself. SQLite checks its trees and its log, but neither its rows nor the
links between pages, so a flipped bit on the disk would go unnoticed without this. A program without
the function `fold_row` cannot write the catalog. Called by the database of the catalog when it is
made, opened and extended.
"""

import sqlite3
from hashlib import blake2b
from typing import Final

import msgspec

SCHEMA: Final = "sqlite_schema"
"""The name of the digest of the schema."""
_HASH_BYTES: Final = 8
_TABLE: Final = (
    "CREATE TABLE digest (name TEXT PRIMARY KEY, total INTEGER NOT NULL, last_id INTEGER NOT NULL)"
    " WITHOUT ROWID"
)

Value = str | int | float | bytes | None


class CatalogDamaged(Exception):
    """The file does not contain what was written to it; the text says where."""


def teach(connection: sqlite3.Connection) -> None:
    """Register the function that the triggers call."""
    connection.execute("PRAGMA trusted_schema = ON")  # some builds of SQLite switch it off
    connection.execute("PRAGMA recursive_triggers = ON")  # a replaced row is a deleted one
    connection.create_function("fold_row", -1, fold_row, deterministic=True)


def fold_row(total: int, *row: Value) -> int:
    """A total with one row added, or with one removed that was in it."""
    encoded = msgspec.msgpack.encode(row)
    hashed = blake2b(encoded, digest_size=_HASH_BYTES).digest()
    return total ^ int.from_bytes(hashed, "little", signed=True)


def seal(connection: sqlite3.Connection) -> None:
    """Start to keep digests of every table without one; inside a transaction."""
    run = connection.execute
    if not run("SELECT 1 FROM sqlite_schema WHERE name = 'digest'").fetchone():
        run(_TABLE)
    sealed = {str(name) for (name,) in run("SELECT name FROM digest")}
    for name in _tables(connection):
        if name not in sealed:
            _seal_table(connection, name)
    run(
        "INSERT OR REPLACE INTO digest (name, total, last_id) VALUES (?, ?, 0)",
        (SCHEMA, _schema_total(connection)),
    )


def verify(connection: sqlite3.Connection) -> None:
    """Raise CatalogDamaged unless everything written is there; inside a transaction."""
    try:
        for (finding,) in connection.execute("PRAGMA integrity_check(1)"):
            if finding != "ok":
                raise CatalogDamaged(str(finding).replace("\n", " "))
        _compare(connection)
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise CatalogDamaged(str(error)) from error


def _compare(connection: sqlite3.Connection) -> None:
    kept = {
        name: (total, last_id)
        for name, total, last_id in connection.execute("SELECT name, total, last_id FROM digest")
    }
    if kept.pop(SCHEMA, None) != (_schema_total(connection), 0):
        raise CatalogDamaged("the schema fails its checksum")
    if kept.keys() != set(_tables(connection)):
        raise CatalogDamaged("the table 'digest' does not match the other tables")
    for name, (total, last_id) in kept.items():
        if total != _table_total(connection, name):
            raise CatalogDamaged(f"the table '{name}' fails its checksum")
        if last_id != _last_id(connection, name):
            raise CatalogDamaged(f"the ids given to rows of '{name}' fail their check")


def _tables(connection: sqlite3.Connection) -> list[str]:
    """All tables of ours."""
    rows = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        " AND name <> 'digest' ORDER BY name"
    )
    return [str(name) for (name,) in rows]


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]


def _schema_total(connection: sqlite3.Connection) -> int:
    total = 0
    for row in connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"):
        total = fold_row(total, *row)
    return total


def _table_total(connection: sqlite3.Connection, table: str) -> int:
    columns = ", ".join(_columns(connection, table))
    total = 0
    for row in connection.execute(f"SELECT {columns} FROM {table}"):  # noqa: S608
        total = fold_row(total, table, *row)
    return total


def _key_of_ids(connection: sqlite3.Connection, table: str) -> str | None:
    """The column whose values are never reused, if a table has one."""
    query = "SELECT sql FROM sqlite_schema WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'"
    if connection.execute(query, (table,)).fetchone() is None:
        return None
    return _columns(connection, table)[0]


def _last_id(connection: sqlite3.Connection, table: str) -> int:
    if _key_of_ids(connection, table) is None:
        return 0
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
    row = found.fetchone()
    return 0 if row is None else int(row[0])


def _seal_table(connection: sqlite3.Connection, table: str) -> None:
    run = connection.execute
    run(
        "INSERT INTO digest (name, total, last_id) VALUES (?, ?, ?)",
        (table, _table_total(connection, table), _last_id(connection, table)),
    )
    columns = _columns(connection, table)
    old = f"'{table}', " + ", ".join(f"OLD.{column}" for column in columns)
    new = f"'{table}', " + ", ".join(f"NEW.{column}" for column in columns)
    key = _key_of_ids(connection, table)
    inserted = f"fold_row(total, {new})"
    if key is not None:
        inserted += f", last_id = max(last_id, NEW.{key})"
    totals = {
        "INSERT": inserted,
        "DELETE": f"fold_row(total, {old})",
        "UPDATE": f"fold_row(fold_row(total, {old}), {new})",
    }
    for event, total in totals.items():
        run(
            f"CREATE TRIGGER digest_{table}_{event.lower()} AFTER {event} ON {table} BEGIN"  # noqa: S608
            f" UPDATE digest SET total = {total} WHERE name = '{table}'; END"
        )
