"""Rows of several lanes in one transaction: what waits in all lanes of a database is one commit.

Owns the thread that commits for the lanes of one process in one database, and its connection. It
takes what waits in each lane, and all callbacks go to the loop as one. Each row is still its lane's
compare-and-append, so that a lane with another writer changes nothing and holds up none beside it.
A transaction that the database refuses is undone as a whole, and then each lane tries alone, on its
own thread, which also has to deal with every failure. Knows neither entries nor positions.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from partibus.store.callbacks import report
from partibus.store.interface import Notify
from partibus.store.lane.commit import CommitThread, PendingEntry
from partibus.store.postgres.connection import (
    CONNECT_S,
    Connection,
    close_quietly,
    connect,
    is_answer,
)
from partibus.store.postgres.lane import SHARED_NAME
from partibus.store.postgres.pipeline import StatementPipeline

if TYPE_CHECKING:
    from partibus.store.postgres.appending import LaneWriter

LOCK_MS: Final = 100
"""How long a row that somebody else holds may hold up the other lanes."""
BUSY_BYTES: Final = 32 << 10
"""A transaction with more than this is one of many: more is coming."""
GATHER_S: Final = 0.002
"""How long lanes may add to the transaction after such a one: fewer and larger rows cost node and
database less. A sender that waits for each answer is not delayed, since its transactions are
small."""
IDLE_S: Final = 10.0
_TYPES: Final = (20, 20, 17)
"""bigint, bigint, bytea: the parameters of the statement that appends."""


class SharedRow(NamedTuple):
    """A row of one lane on its way."""

    lane: int
    statement: bytes
    parameters: tuple[bytes, bytes, bytes]


class Loan(NamedTuple):
    """What one lane has in the transaction."""

    lender: CommitThread
    writer: "LaneWriter"
    group: list[PendingEntry]
    row: SharedRow


class SharedAppends:
    """The lanes of one process in one database."""

    def __init__(self, dsn: str, owner: str, notify: Notify) -> None:
        self._dsn = dsn
        self._application = f"{SHARED_NAME}{owner}"
        self._notify = notify
        self._members: set[object] = set()
        self._calling: list[tuple[CommitThread, LaneWriter]] = []
        self._wake = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None
        # Of the thread:
        self._connection: Connection | None = None
        self._prepared: dict[int, bytes] = {}
        self._retry_s = 0.0
        """Not before then is a database tried again that could not be reached."""
        self._is_busy = False
        """Whether the last transaction was large."""

    def join(self, member: object) -> None:
        """A lane is going to append; the first one starts the thread."""
        with self._wake:
            self._members.add(member)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lanes-append", daemon=True)
                self._thread.start()

    def leave(self, member: object) -> None:
        """It does so no more; the thread ends with the last one."""
        with self._wake:
            self._members.discard(member)
            self._wake.notify()

    def call(self, lender: CommitThread, writer: "LaneWriter") -> None:
        """Something waits in a lane."""
        with self._wake:
            self._calling.append((lender, writer))
            if len(self._calling) == 1:
                self._wake.notify()

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        while (calling := self._take()) is not None:
            loans = self._borrow(calling)
            self._is_busy = sum([len(loan.row.parameters[2]) for loan in loans]) > BUSY_BYTES
            if loans:
                self._settle(loans, self._commit([loan.row for loan in loans]))

    def _take(self) -> "list[tuple[CommitThread, LaneWriter]] | None":
        """The lanes in which something waits; None when there are no lanes any more."""
        with self._wake:
            while not self._calling and self._members:
                self._wake.wait(IDLE_S)
            if not self._calling:
                self._drop()  # before another thread can begin
                self._thread = None
                return None
            if self._is_busy:
                self._wake.wait(GATHER_S)
            calling, self._calling = self._calling, []
            return calling

    def _borrow(self, calling: "list[tuple[CommitThread, LaneWriter]]") -> list[Loan]:
        """Sorted by lane, so that no two servers wait for each other's rows in a circle."""
        loans: list[Loan] = []
        for lender, writer in calling:
            group = lender.borrow()
            if group:
                loans.append(Loan(lender, writer, group, writer.row(group)))
            else:
                lender.give_back()
        return sorted(loans, key=_lane_of)

    def _commit(self, rows: list[SharedRow]) -> Sequence[int | None] | Exception:
        """How many rows each has changed, durably; None where surely nothing was changed and the
        lane has to try alone; an error when nobody knows."""
        try:
            pipeline = self._connected()
            if pipeline is None:
                return [None] * len(rows)
            return self._append(pipeline, rows)
        except Exception as error:
            self._drop()
            return [None] * len(rows) if is_answer(error) else error

    def _append(self, pipeline: StatementPipeline, rows: list[SharedRow]) -> list[int]:
        """One transaction, in one round trip."""
        places: list[int] = []
        count = 0
        for row in rows:
            name = b"append_%d" % row.lane
            before = self._prepared.get(row.lane)
            if before != row.statement:
                count += pipeline.prepare(name, row.statement, _TYPES, before is not None)
                self._prepared[row.lane] = row.statement
            places.append(count)
            pipeline.add(name, *row.parameters)
            count += 1
        pipeline.end_transaction()
        changed = pipeline.receive_all(count)
        return [changed[place] for place in places]

    def _settle(self, loans: list[Loan], answers: Sequence[int | None] | Exception) -> None:
        """Report what is durable, all at once; then each lane goes on."""
        calls: list[Callable[[], None]] = []
        errors: list[Exception | None] = []
        for number, loan in enumerate(loans):
            if isinstance(answers, Exception):
                error: Exception | None = psycopg.OperationalError(str(answers))
            else:
                error = loan.writer.answered(loan.group, answers[number])
            errors.append(error)
            if error is None:
                calls.append(loan.lender.finished())
        report(self._notify, self._application, partial(_call_all, calls))
        for loan, error in zip(loans, errors, strict=True):
            loan.lender.give_back(error)

    def _connected(self) -> StatementPipeline | None:
        """None when the database cannot be reached."""
        if self._connection is not None:
            pipeline = StatementPipeline(self._connection)
            if pipeline.is_silent():
                return pipeline
            self._drop()
        if time.monotonic() < self._retry_s:
            return None
        try:
            self._connection = connect(
                self._dsn, self._application, None, "force_generic_plan", LOCK_MS
            )
        except psycopg.Error:
            self._retry_s = time.monotonic() + CONNECT_S
            self._drop()
            return None
        return StatementPipeline(self._connection)

    def _drop(self) -> None:
        """Let go of the connection, in whatever state it is."""
        connection, self._connection = self._connection, None
        self._prepared.clear()
        close_quietly(connection)


def _lane_of(loan: Loan) -> int:
    return loan.row.lane


def _call_all(calls: list[Callable[[], None]]) -> None:
    for each in calls:
        each()
