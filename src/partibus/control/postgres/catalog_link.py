"""The catalog's connection to the cluster's database: one at a time, for the thread of the catalog.

Owns the writer's turn among all nodes (an advisory lock that ends with its transaction), the time a
statement may take, and the mapping of failures: another node is writing (CatalogBusy), or the
database does not answer (StoreUnavailable) and the next call connects again. Blocks, for `WORK_MS`
at most, even when the database hangs. Called by the catalog's rows.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg import pq

from partibus.control.postgres import session
from partibus.domain.errors import CatalogBusy, StoreUnavailable

BUSY_MS: Final = 250
"""How long a write waits for another node, whose writes take a few milliseconds. Callers that can
wait without blocking others try again."""
# Any constant will do; it must be the same in every release.
CATALOG_LOCK: Final = 0x70636174

_log: Final = logging.getLogger(__name__)


class CatalogLink:
    """Statements and transactions on one connection, which is made when needed."""

    __slots__ = ("_connection", "_dsn")

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: session.SyncConnection | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether statements belong to a transaction or snapshot that was begun."""
        connection = self._connection
        return (
            connection is not None
            and connection.info.transaction_status != pq.TransactionStatus.IDLE
        )

    def run(
        self, query: LiteralString, values: Sequence[Any] = ()
    ) -> "psycopg.Cursor[tuple[Any, ...]]":
        """Run a statement; outside a transaction it is one by itself."""
        with self._guarded() as connection:
            return connection.execute(query, values)

    def run_shared(
        self, query: LiteralString, values: Sequence[Any] = ()
    ) -> "psycopg.Cursor[tuple[Any, ...]]":
        """Run a statement that is written for SQLite."""
        return self.run(_translated(query), values)

    def run_many_shared(self, query: LiteralString, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement that is written for SQLite, for each row."""
        with self._guarded() as connection:
            connection.cursor().executemany(_translated(query), rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Be the only writer: all of the block is durable at its end, or nothing."""
        with self._block("BEGIN"):
            self._take_turn()
            yield

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """All reads of the block see the same state."""
        if self.in_transaction:
            yield
            return
        with self._block("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    @contextlib.contextmanager
    def _block(self, begin: LiteralString) -> Iterator[None]:
        try:
            self._begin(begin)
            yield
            if self._connection is None:
                raise StoreUnavailable("The connection to the catalog was lost. Try again.")
            self.run("COMMIT")
        except BaseException:
            if self.in_transaction:
                with contextlib.suppress(StoreUnavailable):
                    self.run("ROLLBACK")
            raise

    def _begin(self, begin: LiteralString) -> None:
        """Begin; connects again if the connection was lost since its last use."""
        is_used = self._connection is not None
        try:
            self.run(begin)
        except StoreUnavailable:
            if not is_used:
                raise
            self.run(begin)

    def _take_turn(self) -> None:
        self.run(f"SET LOCAL lock_timeout = {BUSY_MS}")
        self.run("SELECT pg_advisory_xact_lock(%s)", (CATALOG_LOCK,))

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[session.SyncConnection]:
        """End a statement that takes too long by closing its socket: the database may hang, and a
        limit enforced by the database would hang with it."""
        if self._connection is None:
            self._connection = session.connect(self._dsn, "catalog")
        connection = self._connection
        watch = threading.Timer(session.WORK_MS / 1000, session.shut_down, (connection.pgconn,))
        watch.daemon = True
        watch.start()
        try:
            yield connection
        except psycopg.errors.LockNotAvailable as error:
            raise CatalogBusy from error
        except psycopg.Error as error:
            _log.info("the catalog cannot be used: %s", error)
            self.close()
            raise session.unreachable(self._dsn, error) from error
        finally:
            watch.cancel()


def _translated(query: LiteralString) -> LiteralString:
    return query.replace(" main.", " partibus_cluster.").replace("?", "%s")
