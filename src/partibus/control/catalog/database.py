"""The catalog's rows in SQLite.

Owns the schema, its version, and the file; `rows` has the statements. Writes are durable
when a transaction ends (write-ahead log, synchronous=FULL), and then also in the main file, since
SQLite mistakes a damaged log for a shorter one. Everything is verified when it is read at the
opening (`digest`). The file contains keys, so only its owner can read it.
"""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final, LiteralString

from partibus.control.access.policies import AccessPolicy
from partibus.control.catalog import change_log, digest, identity
from partibus.control.catalog.change_log import ChangeLog, Row
from partibus.control.catalog.digest import CatalogDamaged
from partibus.control.catalog.identity import CatalogIdentity
from partibus.control.catalog.rows import CatalogRows, policy_of
from partibus.control.catalog.sealed import SealedCatalog
from partibus.domain.errors import (
    BusError,
    CatalogBusy,
    ConfigError,
    StoreCorrupt,
    StoreUnavailable,
)
from partibus.files.private import make_private_directory, open_private, write_private

_log: Final = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 2
"""Differs from the first version in more than one bit."""
UNSEALED_VERSION: Final = 1
"""Without digests, namespace id and tombstones; upgraded with its first write."""
BUSY_TIMEOUT_MS: Final = 250
"""How long a write waits for another process, whose writes take a few milliseconds. Callers that
can wait without blocking others try again."""
_APPLICATION_ID: Final = 0x50425553  # "PBUS", so that a foreign database is recognised

UNSEALED_LATER_TABLES: Final = 2
"""Those of the later tables that the previous release also reads and creates."""
OWN_TABLES: Final = 2
"""sqlite_sequence and digest."""
WAY_OUT: Final = (
    "Restore the file from a copy, or stop the server and run `partibus store repair`; nothing was "
    "changed."
)

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
_LATER_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS idle (entity_id INTEGER PRIMARY KEY REFERENCES entity"
    " ON DELETE CASCADE, idle_ms INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    change_log.TABLE,
    *identity.TABLES,
)


class CatalogDatabase(CatalogRows):
    """One open database, on disk or in memory."""

    __slots__ = ("_connection", "_encrypted", "_is_sealed", "_version")

    def __init__(
        self,
        file: Path | None,
        encrypted: SealedCatalog | None = None,
        copy_of: Path | None = None,
    ) -> None:
        named = copy_of or file
        self._name = str(named) if named is not None else "the catalog in memory"
        self._encrypted = encrypted
        self._connection = _connect(file if encrypted is None else encrypted.working)
        self._run = self._connection.execute
        self.changes = ChangeLog(self._connection)
        self._version = 0
        self._is_sealed = True
        """Whether digests are kept; earlier releases kept none."""
        self.identity = CatalogIdentity(self._connection)
        try:
            self._prepare()
        except sqlite3.Error as error:
            self.close()
            raise ConfigError(
                f"{self._name} cannot be opened as a catalog: {error}. {WAY_OUT}"
            ) from error
        except (CatalogDamaged, UnicodeError, OverflowError) as error:
            self.close()
            raise StoreCorrupt(f"{self._name} is damaged: {error}. {WAY_OUT}") from error
        except BusError:
            self.close()
            raise

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA foreign_keys = ON")
        run("PRAGMA synchronous = FULL")
        run(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        digest.teach(self._connection)
        (version,) = run("PRAGMA user_version").fetchone()
        (application,) = run("PRAGMA application_id").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables == 0:
            run("PRAGMA journal_mode = WAL")
            self._make()
        elif application != _APPLICATION_ID:
            raise ConfigError(
                f"{self._name} is the database of another program; move it elsewhere."
            )
        elif version not in (SCHEMA_VERSION, UNSEALED_VERSION):
            raise ConfigError(
                f"{self._name} has schema version {version}; this release reads "
                f"{SCHEMA_VERSION}. Use the release that wrote it, or a newer one."
            )
        else:
            self._is_sealed = version == SCHEMA_VERSION
            self._check()

    def _make(self) -> None:
        """Create an empty catalog with a new namespace id."""
        with self.transaction():
            (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            if tables:  # another process was faster
                return
            for statement in _SCHEMA.split(";")[:-1]:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            self._seal()
            self.identity.found()

    def _check(self) -> None:
        """Verify what was written; tables that are new in this release are added."""
        with self.snapshot():
            if self._is_sealed:
                digest.verify(self._connection)
            else:
                for statement in _LATER_TABLES[:UNSEALED_LATER_TABLES]:
                    self._connection.execute(statement)
            query = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"
            (before,) = self._connection.execute(query).fetchone()
        expected = _SCHEMA.count("CREATE TABLE") + len(_LATER_TABLES) + OWN_TABLES
        if self._is_sealed and before < expected:
            with self.transaction():
                self._seal()

    def _seal(self) -> None:
        """Upgrade the schema to this release, with digests of every table."""
        run = self._connection.execute
        for statement in _LATER_TABLES:
            run(statement)
        digest.seal(self._connection)
        run(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._is_sealed = True

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes of the block are durable at its end, or none happened."""
        turn = nullcontext() if self._encrypted is None else self._encrypted.turn()
        with turn, self._own_transaction():
            yield

    @contextmanager
    def _own_transaction(self) -> Iterator[None]:
        try:
            self._begin()
            was_sealed = self._is_sealed
            try:
                if not was_sealed:
                    self._seal()
                yield
                if self._encrypted is not None:  # durable before the copy in memory has it
                    self._encrypted.keep(self._connection.serialize())
                self._connection.execute("COMMIT")
            except BaseException:
                self._is_sealed = was_sealed
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            # Clients read the error, so it must not contain the path of the file.
            _log.error("%s cannot be written: %s", self._name, error)
            raise StoreUnavailable(f"The catalog cannot be written: {error}. Try again.") from error
        self._empty_log()

    def _empty_log(self) -> None:
        """Move the log into the main file, unless it is being read."""
        run = self._connection.execute
        run("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.Error):
            run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        run(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _begin(self) -> None:
        """Become the only writer among all processes that have the file open."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise CatalogBusy from error
            raise

    def copy_to(self, file: Path) -> None:
        """Write all of it to another file, completely or not at all, unless it is already there."""
        if not self._encrypted and copied_generation(file) == self.identity.generation():
            return
        content = in_one_file(self._connection.serialize())
        try:
            if self._encrypted is None:
                write_private(file, content)
            else:
                self._encrypted.keep_as(file, content)
        except OSError as error:
            raise StoreUnavailable(f"{file} cannot be written: {error}.") from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads of the block see the same state."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def has_news(self) -> bool:
        """Whether another process has written since the last call."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        before, self._version = self._version, version
        return bool(version != before)

    def look_again(self) -> None:
        """The new changes could not be processed: they stay new."""
        self._version = 0

    def _insert(self, query: LiteralString, values: Row, key: LiteralString) -> int:
        number = self._connection.execute(query, values).lastrowid
        assert number is not None, key
        return number

    def _run_many(self, query: str, rows: Sequence[Row]) -> None:
        self._connection.executemany(query, rows)


def read_policies(
    file: Path, scope: str, encrypted: SealedCatalog | None = None
) -> list[AccessPolicy]:
    """The policies of a scope in a catalog that may be in use; it must never be written here."""
    if not file.is_file():
        raise ConfigError(f"{file} does not exist: {file.parent} is not a data directory.")
    connection: sqlite3.Connection | None = None
    try:
        if encrypted is None:
            connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
        else:
            connection = sqlite3.connect(":memory:")
            connection.deserialize(in_one_file(encrypted.opened(encrypted.image())))
        rows = connection.execute(
            "SELECT name, primary_key, secondary_key, rights FROM policy WHERE scope = ?", (scope,)
        ).fetchall()
    except sqlite3.Error as error:
        raise ConfigError(f"{file} cannot be read as a catalog: {error}.") from error
    finally:
        if connection is not None:
            connection.close()
    return [policy_of(*row) for row in rows]


def _connect(file: Path | None) -> sqlite3.Connection:
    if file is None:
        return sqlite3.connect(":memory:", isolation_level=None)
    try:
        make_private_directory(file.parent)
        open_private(file).close()
        return sqlite3.connect(file, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(f"{file} cannot be opened: {error}.") from error


def in_one_file(content: bytes) -> bytes:
    """Mark a database as one without a log file: the two version bytes of its header."""
    return content[:18] + b"\x01\x01" + content[20:]


def copied_generation(file: Path) -> int:
    """The generation of a copy; lower than any when it cannot be read."""
    if not file.exists():
        return -1
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    try:
        return CatalogIdentity(connection).generation()
    except sqlite3.Error:
        return -1
    finally:
        connection.close()
