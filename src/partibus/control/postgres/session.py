"""A connection to the cluster's database that is made on use and never blocks for long.

Owns connecting, the time limit of a piece of work, and what happens when it takes longer: the
socket is shut down, so that a database that hangs is an error like one that is gone. A connection
on which anything failed is not used again. Passwords must never reach an error or the log. Used by
all of the control plane in PostgreSQL.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import psycopg
from psycopg import pq

from partibus.control.postgres.schema import migrate
from partibus.domain.errors import StoreUnavailable

CONNECT_S: Final = 2
"""For each of the hosts in an address; the minimum that the driver allows."""
WORK_MS: Final = 2000
"""Anything slower comes too late to renew a lease (`SERVE_MS`)."""
IDLE_MS: Final = 10_000
"""Within a transaction, for a node that hangs during its turn as writer. Longer than for a
statement: a configuration with thousands of entities is compared between two of them, and no lease
waits for it."""

AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]
SyncConnection = psycopg.Connection[tuple[Any, ...]]
T = TypeVar("T")


def database_name(dsn: str) -> str:
    """The name of a database in errors and in the log: its name and host, never a password."""
    parts = urlsplit(dsn)
    hosts = parts.netloc.rpartition("@")[2] or "localhost"
    return f"cluster database {parts.path.strip('/') or 'postgres'} on {hosts}"


def unreachable(dsn: str, error: BaseException) -> StoreUnavailable:
    """The error of a database that does not answer."""
    return StoreUnavailable(f"The {database_name(dsn)} does not answer: {error}. Try again.")


def connect(dsn: str, purpose: str) -> SyncConnection:
    """A blocking connection; every statement is a transaction unless one is begun."""
    try:
        return psycopg.connect(dsn, **_options(purpose))
    except psycopg.Error as error:
        raise unreachable(dsn, error) from error


def prepare(dsn: str) -> None:
    """Migrate the schema of the database to this release."""
    with contextlib.closing(connect(dsn, "migrate")) as connection:
        try:
            migrate(connection)
        except psycopg.Error as error:
            raise unreachable(dsn, error) from error


def _options(purpose: str) -> dict[str, Any]:
    return {
        "autocommit": True,
        "connect_timeout": CONNECT_S,
        "application_name": f"partibus-{purpose}",
        "options": f"-c statement_timeout={WORK_MS}"
        f" -c idle_in_transaction_session_timeout={IDLE_MS}",
        "tcp_user_timeout": WORK_MS,
        "keepalives_idle": 2,
        "keepalives_interval": 1,
        "keepalives_count": 2,
    }


class ControlSession:
    """One connection for consecutive pieces of work."""

    def __init__(self, dsn: str, purpose: str, work_ms: int = WORK_MS) -> None:
        self.dsn = dsn
        self._purpose = purpose
        self._work_s = work_ms / 1000
        self._connection: AsyncConnection | None = None
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do a piece of work; StoreUnavailable when the database failed or took too long. The
        outcome of the work is then unknown."""
        async with self._turn:
            connection = await self._get()
            task = asyncio.ensure_future(work(connection))
            try:
                await asyncio.wait({task}, timeout=self._work_s)
                if not task.done():
                    shut_down(connection.pgconn)
                return await task
            except psycopg.Error as error:
                await self._drop()
                raise unreachable(self.dsn, error) from error
            except asyncio.CancelledError:
                shut_down(connection.pgconn)
                with contextlib.suppress(psycopg.Error, asyncio.CancelledError):
                    await task
                await self._drop()
                raise

    async def close(self) -> None:
        """Close the connection; the next piece of work makes another."""
        async with self._turn:
            await self._drop()

    async def _get(self) -> AsyncConnection:
        connection = self._connection
        if connection is None or connection.closed:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    self.dsn, **_options(self._purpose)
                )
            except psycopg.Error as error:
                raise unreachable(self.dsn, error) from error
            self._connection = connection
        return connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                await connection.close()


async def stop_task(task: "asyncio.Task[None] | None") -> None:
    """End a task that works with the database, if there is one, and wait until it has ended."""
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def shut_down(wire: pq.abc.PGconn) -> None:
    """End the wait for an answer. Cancelling would ask the database, which may be what hangs."""
    with contextlib.suppress(psycopg.Error, OSError):
        stream = socket.socket(fileno=os.dup(wire.socket))
        with stream:
            stream.shutdown(socket.SHUT_RDWR)
