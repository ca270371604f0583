"""Pipelined statements: sent one after the other, answered in the same order.

Owns the pipeline mode of one connection and the waiting for its socket. A statement that is sent is
a separate transaction, so that a failed one undoes none before it; statements that are added are
committed together. Knows neither lanes nor entries. Blocks; used by the thread that appends.

The driver's own pipeline waits for all answers at each transaction's end, so this one uses
`psycopg.pq`, the documented layer below it.
"""

import select
from collections.abc import Sequence
from socket import socketpair
from typing import Final

import psycopg
from psycopg import errors, pq

from partibus.store.postgres.connection import ANSWER_S, Connection

_GOOD: Final = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_BINARY: Final = pq.Format.BINARY
_OUT_OF_STEP: Final = "the answers of the database are out of step"


class StatementPipeline:
    """One connection; while statements are in flight, nothing else may use it."""

    def __init__(self, connection: Connection) -> None:
        self._pgconn = connection.pgconn

    def send(self, statement: bytes, *parameters: bytes) -> None:
        """Run a prepared statement, without waiting for those before it."""
        self.add(statement, *parameters)
        self.end_transaction()

    def add(self, statement: bytes, *parameters: bytes) -> None:
        """Run a prepared statement in the transaction that `end_transaction` ends."""
        self._enter()
        formats = [_BINARY] * len(parameters)
        self._pgconn.send_query_prepared(statement, parameters, formats, _BINARY)

    def prepare(self, name: bytes, query: bytes, types: Sequence[int], is_again: bool) -> int:
        """Prepare a statement under a name, which may have another; how many answers that makes."""
        self._enter()
        if is_again:
            self._pgconn.send_query_params(b"DEALLOCATE " + name, None)
        self._pgconn.send_prepare(name, query, types)
        return 2 if is_again else 1

    def end_transaction(self) -> None:
        """Have all that was added since the last one committed together, or nothing of it."""
        pgconn = self._pgconn
        pgconn.pipeline_sync()
        while pgconn.flush():
            if self._wait(writes=True)[pgconn.socket] & ~select.POLLOUT:
                pgconn.consume_input()

    def receive(self, wakeup: "Wakeup | None" = None) -> int | None:
        """How many rows the oldest statement in flight has changed; raises what it raised.

        Returns None when the wakeup came first: then nothing was received.
        """
        if wakeup is not None and self._is_woken(wakeup):
            return None
        result = self._next()
        while self._next() is not None:
            pass
        end = self._next()
        if result is None or end is None or end.status != pq.ExecStatus.PIPELINE_SYNC:
            raise psycopg.OperationalError(_OUT_OF_STEP)
        if result.status not in _GOOD:
            raise _error_of(result)
        return result.command_tuples or 0

    def receive_all(self, count: int) -> list[int]:
        """How many rows each statement of a transaction has changed, which is committed now.

        Raises what the first that failed has raised: then nothing of it is."""
        changed: list[int] = []
        error: psycopg.Error | None = None
        for _ in range(count):
            result = self._next()
            if result is None or self._next() is not None:
                raise psycopg.OperationalError(_OUT_OF_STEP)
            if error is None and result.status not in _GOOD:
                error = _error_of(result)
            changed.append(result.command_tuples or 0)
        end = self._next()
        if end is None or end.status != pq.ExecStatus.PIPELINE_SYNC:
            raise psycopg.OperationalError(_OUT_OF_STEP)
        if error is not None:
            raise error
        return changed

    def is_silent(self) -> bool:
        """Whether nothing came while nothing was asked: a lost connection has an end to read."""
        poll = select.poll()
        poll.register(self._pgconn.socket, select.POLLIN)
        return not poll.poll(0)

    def _enter(self) -> None:
        if self._pgconn.pipeline_status == pq.PipelineStatus.OFF:
            self._pgconn.enter_pipeline_mode()

    def rest(self) -> None:
        """Nothing is in flight: the connection may be used in other ways."""
        if self._pgconn.pipeline_status != pq.PipelineStatus.OFF:
            self._pgconn.exit_pipeline_mode()

    def _is_woken(self, wakeup: "Wakeup") -> bool:
        """Wait for the answer or for the wakeup."""
        pgconn = self._pgconn
        while pgconn.is_busy():
            if wakeup.fileno() in self._wait(wakeup=wakeup):
                wakeup.clear()
                return True
            pgconn.consume_input()
        return False

    def _next(self) -> "pq.abc.PGresult | None":
        pgconn = self._pgconn
        while pgconn.is_busy():
            self._wait()
            pgconn.consume_input()
        return pgconn.get_result()

    def _wait(self, *, writes: bool = False, wakeup: "Wakeup | None" = None) -> dict[int, int]:
        """Wait for the socket; returns which descriptors are ready, and for what."""
        poll = select.poll()
        poll.register(self._pgconn.socket, select.POLLIN | (select.POLLOUT if writes else 0))
        if wakeup is not None:
            poll.register(wakeup, select.POLLIN)
        ready = dict(poll.poll(1000 * ANSWER_S))
        if not ready:
            raise psycopg.OperationalError(f"the database has not answered for {ANSWER_S:g} s")
        return ready


class Wakeup:
    """Ends a wait for a socket from another thread."""

    def __init__(self) -> None:
        self._reader, self._writer = socketpair()
        self._reader.setblocking(False)

    def fileno(self) -> int:
        """What `select` waits for."""
        return self._reader.fileno()

    def set(self) -> None:
        """End the wait, or the next one."""
        self._writer.send(b"!")

    def clear(self) -> None:
        """The wait has ended."""
        self._reader.recv(64)

    def close(self) -> None:
        """Close both ends."""
        self._reader.close()
        self._writer.close()


def _error_of(result: "pq.abc.PGresult") -> psycopg.Error:
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    text = result.error_message.decode(errors="replace").strip()
    try:
        kind: type[psycopg.Error] = errors.lookup("" if state is None else state.decode())
    except KeyError:
        kind = psycopg.DatabaseError
    return kind(text)
