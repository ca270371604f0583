"""A connection to the database of lanes that never waits forever.

Owns how it is made and its time limits: to connect, for a statement by the server's clock, and for
an answer by ours, since a server that hangs keeps no limit while its machine still acknowledges
packets. A connection without an answer is closed, and every later use of it fails. Knows no lanes.
Called by the threads of a store.
"""

import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg

CONNECT_S: Final = 5
ASK_S: Final = 2
"""The limit for a connection that only asks whether the database answers."""
STATEMENT_MS: Final = 10_000
"""The limit for a statement: after this the lane is down, and is probed."""
ANSWER_S: Final = STATEMENT_MS / 1000 + 2
"""The limit for an answer, beyond the server's own limit."""

SILENCE_MS: Final = 4_000
"""A connection is lost after this long without a sign of the other machine."""

_UNANSWERED: Final = ("08", "57")
"""Classes of errors that leave open what became of a statement: the connection was lost, or an
operator ended it."""

Connection = psycopg.Connection[tuple[Any, ...]]
T = TypeVar("T")


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose statements always end, with or without an answer."""

    def wait(self, gen: "Generator[Any, Any, T]", *times: Any, **more: Any) -> T:
        """Wait for the answer to a statement; the driver itself has no limit."""
        try:
            return super().wait(_bounded(gen, time.monotonic() + ANSWER_S), *times, **more)
        except NotAnswered:
            self.pgconn.finish()
            raise


class NotAnswered(psycopg.OperationalError):
    """The database did not answer."""


def _bounded(gen: "Generator[Any, Any, T]", until: float) -> "Generator[Any, Any, T]":
    """Pass on what the driver waits for, with a limit; it checks several times a second."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > until:
                raise NotAnswered(f"the database has not answered for {ANSWER_S:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer


def connect(
    dsn: str,
    application: str,
    prepare_threshold: int | None,
    plans: str = "auto",
    lock_ms: int = 0,
    within_s: int = CONNECT_S,
) -> Connection:
    """A new connection for one thread; every statement is a transaction. A statement that waits
    longer than `lock_ms` for a lock is refused, unless that is 0."""
    return BoundedConnection.connect(
        dsn,
        autocommit=True,
        connect_timeout=within_s,
        application_name=application,
        options=f"-c statement_timeout={STATEMENT_MS} -c plan_cache_mode={plans}"
        f" -c idle_in_transaction_session_timeout={STATEMENT_MS}"
        " -c tcp_keepalives_idle=3 -c tcp_keepalives_interval=1"
        " -c tcp_keepalives_count=3" + (f" -c lock_timeout={lock_ms}" if lock_ms else ""),
        tcp_user_timeout=SILENCE_MS,
        keepalives_idle=SILENCE_MS // 2000,
        keepalives_interval=1,
        keepalives_count=SILENCE_MS // 2000,
        prepare_threshold=prepare_threshold,
    )


def close_quietly(connection: Connection | None) -> None:
    """Close a connection in whatever state it is, if there is one."""
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()


def is_answer(error: Exception) -> bool:
    """Whether the database has said no: then nothing of the transaction is there, and never will
    be. A lost connection says nothing."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return state is not None and not state.startswith(_UNANSWERED)


def answers(dsn: str) -> bool:
    """Whether the database accepts a connection from here now."""
    try:
        connect(dsn, "partibus-ask", None, within_s=ASK_S).close()
    except psycopg.Error:
        return False
    return True
