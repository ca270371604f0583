"""A lane in a simulated database: the statements of `store.postgres.lane`, carried out there.

Owns the form in which each statement goes to the database: as one piece of work, which takes a
round trip and may be lost before or after its execution. The store above it is the product's.
Replaces `Lane`, `StatementPipeline` and `Wakeup` while a world runs.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, cast

import psycopg

from partibus.domain.errors import StoreUnavailable
from partibus.simulation.cluster.database import DatabaseConnection, Request, Server
from partibus.simulation.cluster.lane_tables import LaneContent
from partibus.simulation.threads import Fiber, Threads
from partibus.simulation.world import World
from partibus.store.fault_injection import LaneFaults
from partibus.store.interface import Ref
from partibus.store.postgres.connection import Connection
from partibus.store.postgres.lane import (
    LOCK_MS,
    ROW_LOCK_MS,
    CheckpointWriter,
    Lane,
    LaneRow,
    SegmentRow,
)

_I64 = struct.Struct(">q")


class LaneServer(Server):
    """A database with lanes."""

    def __init__(self, world: World, threads: Threads, name: str) -> None:
        super().__init__(world, threads, name)
        self.lanes: dict[int, LaneContent] = {}
        self.on_taken: Callable[[], None] = _nothing
        """Called when a lane has a new writer."""

    def lane(self, number: int) -> LaneContent:
        """The tables of a lane, created on first use."""
        return self.lanes.setdefault(number, LaneContent(number))

    def refuse_full(self) -> None:
        """Nothing more can be written while there is no space."""
        if self.is_full:
            raise psycopg.errors.DiskFull("no space left on the device of the database")


class SimulatedLane(Lane):
    """Keeps the contract of `Lane`."""

    def __init__(
        self,
        servers: dict[str, LaneServer],
        dsn: str,
        number: int,
        owner: str,
        takes_over: bool,
        faults: LaneFaults | None = None,
    ) -> None:
        super().__init__(dsn, number, owner, takes_over, faults)
        self._server = servers[dsn]
        self._content = self._server.lane(number)

    def connect(self, purpose: str) -> Connection:
        threads = self._server.threads
        try:
            found = self._server.connect(threads.where(), f"{purpose}-{self.number}")
        except psycopg.Error as error:
            raise StoreUnavailable(f"The {self.name} cannot be reached: {error}") from error
        return cast(Connection, found)

    # --- ownership ----------------------------------------------------------------------------

    def _raise_epoch(self, connection: Connection, log_id: bytes, first: int) -> LaneRow:
        here = _of(connection)

        def take() -> LaneRow:
            row = self._content.raise_epoch(here, log_id, first)
            self._server.world.note(
                self._content.name, f"{here.host} raises the epoch to {row.epoch}"
            )
            self._server.on_taken()
            return row

        return here.call(take, changes=True, lock_us=ROW_LOCK_MS * 1000)

    def _end_others(self, connection: Connection) -> None:
        purposes = {f"{purpose}-{self.number}" for purpose in ("append", "checkpoint", "compact")}
        here = _of(connection)

        def end() -> None:
            for other in list(self._server.connections):
                if other.purpose in purposes and other is not here:
                    other.break_off()

        here.call(end)

    def check_epoch(self, connection: Connection) -> int:
        epoch, tail = _of(connection).call(lambda: (self._content.epoch, self._content.tail))
        if epoch != self.epoch:
            raise self.fenced()
        return tail

    def _end_backend(self, connection: Connection, backend: int) -> None:
        def end() -> None:
            for other in list(self._server.connections):
                if other.info.backend_pid == backend and other.purpose == f"append-{self.number}":
                    other.break_off()

        _of(connection).call(end)

    def _cut_back(self, connection: Connection, durable: int) -> int | None:
        work = partial(self._content.take_back, self.epoch, durable)
        return _of(connection).call(work, changes=True)

    def prove_room(self, connection: Connection) -> None:
        _of(connection).call(self._server.refuse_full)

    def _lock(self, connection: Connection) -> None:
        here = _of(connection)
        try:
            here.call(partial(self._content.lock, here), lock_us=LOCK_MS * 1000)
        except psycopg.errors.LockNotAvailable as error:
            raise StoreUnavailable(f"The {self.name} is in use by another server.") from error

    # --- the log ------------------------------------------------------------------------------

    def add_segment(self, connection: Connection, base: int) -> None:
        def add() -> None:
            self._server.refuse_full()
            self._content.add_segment(self.epoch, base)

        _of(connection).call(add, changes=True)

    def drop_segments(self, connection: Connection, segments: Iterable[tuple[int, int]]) -> None:
        for key in segments:
            self._require(connection, partial(self._content.drop, self.epoch, key))

    def _require(self, connection: Connection, work: "partial[bool]") -> None:
        """Execute something that only the writer of the lane may do."""
        if not _of(connection).call(work, changes=True):
            raise self.fenced()

    def drop_garbage(self, connection: Connection) -> None:
        _of(connection).call(self._content.drop_garbage, changes=True)

    def segments(self, connection: Connection) -> list[SegmentRow]:
        content = self._content
        return _of(connection).call(
            lambda: [content.segments[base] for base in sorted(content.segments)]
        )

    def prepare_append(self, connection: Connection, base: int) -> bytes:
        return self.append_query(connection, base)

    def append_query(self, connection: Connection, base: int) -> bytes:
        return _I64.pack(base) + _I64.pack(self.epoch) + _I64.pack(self.number)

    def entries(self, connection: Connection, base: int, start: int) -> Iterator[tuple[int, bytes]]:
        yield from _of(connection).call(lambda: self._content.rows((base, 0), start))

    def read(
        self, connection: Connection, segment: tuple[int, int], stretches: Sequence[Ref]
    ) -> list[bytes]:
        def read() -> list[bytes]:
            table = self._content.table(segment)
            return [table.stretch(start, stop) for start, stop in stretches]

        return _of(connection).call(read)

    # --- compaction ---------------------------------------------------------------------------

    def rows_behind(
        self, connection: Connection, segment: tuple[int, int], position: int, count: int
    ) -> list[tuple[int, bytes]]:
        return _of(connection).call(lambda: self._content.rows_behind(segment, position, count))

    def kept_places(
        self, connection: Connection, segment: tuple[int, int]
    ) -> list[tuple[int, int]]:
        def places() -> list[tuple[int, int]]:
            table = self._content.table(segment)
            return list(zip(table.positions, map(len, table.payloads), strict=True))

        return _of(connection).call(places)

    def begin_kept(self, connection: Connection, base: int, revision: int) -> None:
        key = (base, revision)
        self._require(connection, partial(self._content.begin_kept, self.epoch, key))

    def keep(
        self,
        connection: Connection,
        source: tuple[int, int],
        target: tuple[int, int],
        refs: Sequence[Ref],
    ) -> None:
        _of(connection).call(partial(self._content.keep, source, target, list(refs)), changes=True)

    def swap(
        self,
        connection: Connection,
        sources: Sequence[tuple[int, int]],
        target: tuple[int, int],
        kept_until: int,
    ) -> None:
        work = partial(self._content.swap, self.epoch, list(sources), target, kept_until)
        self._require(connection, work)

    # --- checkpoints --------------------------------------------------------------------------

    def states(self, connection: Connection) -> dict[int, bytes]:
        return _of(connection).call(lambda: dict(self._content.states))

    def pages(self, connection: Connection) -> list[tuple[int, int]]:
        return _of(connection).call(
            lambda: [(number, len(page)) for number, page in self._content.pages.items()]
        )

    def page(self, connection: Connection, number: int) -> bytes | None:
        return _of(connection).call(lambda: self._content.pages.get(number))

    @contextmanager
    def checkpoint(self, connection: Connection, position: int) -> Iterator[CheckpointWriter]:
        here, content = _of(connection), self._content
        if not here.call(partial(content.hold, here, self.epoch)):
            raise self.fenced()
        written = WrittenCheckpoint(here)
        yield cast(CheckpointWriter, written)  # on failure the connection ends, and its lock

        def commit() -> None:
            self._server.refuse_full()
            content.keep_checkpoint(position, written.gone, written.pages, written.states)
            content.let_go(here)

        here.call(commit, changes=True)


class WrittenCheckpoint:
    """The content of a checkpoint's transaction, each part with its own round trip."""

    def __init__(self, connection: DatabaseConnection) -> None:
        self._connection = connection
        self.states: dict[int, bytes] = {}
        self.pages: list[tuple[int, bytes]] = []
        self.gone: list[int] = []

    def put_states(self, states: dict[int, bytes]) -> None:
        self.states = dict(states)
        self._connection.call(_nothing)

    def add_pages(self, pages: Iterable[tuple[int, bytes]]) -> None:
        self.pages += pages
        self._connection.call(_nothing)

    def drop_pages(self, numbers: list[int]) -> None:
        self.gone += numbers
        self._connection.call(_nothing)


class SimulatedPipeline:
    """Pipelined statements, answered in order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = _of(connection)
        self._sent: deque[Request[list[int]]] = deque()
        self._added: list[Row] = []

    def send(self, statement: bytes, *parameters: bytes) -> None:
        self._added.append(_row(statement, *parameters))
        self.end_transaction()

    def prepare(self, name: bytes, query: bytes, types: Sequence[int], is_again: bool) -> int:
        self._connection.prepared[name] = query
        return 0

    def add(self, name: bytes, *parameters: bytes) -> None:
        self._added.append(_row(self._connection.prepared[name], *parameters))

    def end_transaction(self) -> None:
        server = self._connection.server
        assert isinstance(server, LaneServer)
        added, self._added = self._added, []
        work = partial(_append_all, server, added)
        self._sent.append(self._connection.send(work, changes=True))

    def receive_all(self, count: int) -> list[int]:
        request = self._sent.popleft()
        self._connection.wait(request)
        return request.take()

    def is_silent(self) -> bool:
        return not self._connection.closed

    def receive(self, wakeup: "SimulatedWakeup | None" = None) -> int | None:
        oldest = self._sent[0]
        is_woken = None
        if wakeup is not None:
            wakeup.fiber = self._connection.server.threads.current
            is_woken = wakeup.is_due
        if not self._connection.wait(oldest, is_woken):
            assert wakeup is not None
            wakeup.clear()
            return None
        self._sent.popleft()
        return oldest.take()[0]

    def rest(self) -> None:
        """Nothing is in flight."""


class SimulatedWakeup:
    """Ends a wait from another thread."""

    def __init__(self) -> None:
        self.fiber: Fiber | None = None
        self._is_set = False

    def is_due(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        if self.fiber is not None:
            self.fiber.threads.wake_soon(self.fiber)

    def clear(self) -> None:
        self._is_set = False

    def close(self) -> None:
        """Nothing to close."""


class Row(NamedTuple):
    """A row on its way into a lane."""

    number: int
    epoch: int
    base: int
    end: int
    position: int
    data: bytes


def _row(statement: bytes, *parameters: bytes) -> Row:
    base, epoch, number = (_I64.unpack_from(statement, at)[0] for at in (0, 8, 16))
    end, position = _I64.unpack(parameters[0])[0], _I64.unpack(parameters[1])[0]
    return Row(number, epoch, base, end, position, parameters[2])


def _append_all(server: LaneServer, rows: list[Row]) -> list[int]:
    """One transaction: a lane that has no such table is found before anything is changed."""
    server.refuse_full()
    for row in rows:
        if server.lane(row.number).epoch == row.epoch:
            server.lane(row.number).table((row.base, 0))
    return [_append(server, row) for row in rows]


def _append(server: LaneServer, row: Row) -> int:
    number, epoch, position = row.number, row.epoch, row.position
    added = server.lane(number).append(epoch, row.base, row.end, position, row.data)
    if not added:
        server.world.note(f"lane-{number}", f"refuses an entry of epoch {epoch} at {position}")
    return added


def connect_shared(
    servers: dict[str, LaneServer], dsn: str, application: str, *_: object
) -> Connection:
    """A connection that several lanes share; stands in for `connect`."""
    server = servers[dsn]
    return cast(Connection, server.connect(server.threads.where(), application))


def _of(connection: Connection) -> DatabaseConnection:
    """The simulated connection in place of the driver's."""
    return cast(DatabaseConnection, connection)


def _nothing() -> None:
    """A statement that takes effect when the transaction ends."""
