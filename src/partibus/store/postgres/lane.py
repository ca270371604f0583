"""One lane in a PostgreSQL database: the statements, and what makes them safe.

Owns compare-and-append: an entry becomes durable only in one transaction with the move of the
lane's tail, and that move succeeds only with the epoch of this writer and the tail it knows. A
takeover raises the epoch under the row lock, so that a statement of an earlier writer, or of a lost
connection of this one, changes nothing afterwards. Blocks; each connection belongs to one thread.
Encodes nothing. Called by the threads of `store.PostgresStore`.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, LiteralString, NamedTuple

import psycopg
from psycopg import sql

from partibus.domain.errors import StoreUnavailable
from partibus.store.fault_injection import LaneFaults
from partibus.store.interface import Ref
from partibus.store.lane.commit import Fenced
from partibus.store.postgres.address import lane_name
from partibus.store.postgres.connection import Connection, connect
from partibus.store.postgres.schema import SCHEMA, migrate, segment_table

LOCK_MS: Final = 3_000
"""How long a start waits for a server that is stopping, or whose end was not noticed yet."""
ROW_LOCK_MS: Final = 1_000
"""How long a takeover waits for an earlier writer's statement before it ends that."""
ROOM_BYTES: Final = 4 << 20
"""What must fit before a lane whose database was full accepts messages again."""
ROWS_PER_FETCH: Final = 16
SHARED_NAME: Final = "partibus-appends "
"""How the connection is listed on which a server appends to several lanes; its owner follows."""
LANE_LOCK: Final = 0x6C616E65
"""The first half of the key of the advisory locks; the number of the lane is the second."""


class SegmentRow(NamedTuple):
    """A table with entries of a lane, or with what compaction left of them."""

    base: int
    revision: int
    kept_until: int | None
    """The end of the compacted stretch of the log; None when it was not compacted."""


class LaneRow(NamedTuple):
    """What the database knows of a lane."""

    log_id: bytes
    epoch: int
    tail: int
    checkpoint: int


class Lane:
    """The statements for one lane; `epoch` is that of this writer."""

    def __init__(
        self, dsn: str, number: int, owner: str, takes_over: bool, faults: LaneFaults | None = None
    ) -> None:
        self._dsn = dsn
        self.number = number
        self._owner = owner
        self._takes_over = takes_over
        """Whether this writer may raise the epoch by itself after a failure; otherwise it runs
        under a lease, and only the holder of the lease opens the lane again."""
        self.faults = faults
        """None unless the server runs with faults."""
        self.epoch = 0
        self.is_superseded = False
        """Whether the database has refused this writer, because a later one took over."""

    @property
    def name(self) -> str:
        """Its name in errors and in the log; without the password of the address."""
        return lane_name(self._dsn, self.number)

    def connect(self, purpose: str) -> Connection:
        """A new connection for one thread; every statement is a transaction."""
        if self.faults is not None and purpose == "append":
            self.faults.check()
        # Reads are one very frequent statement: planning it every time took half its cost.
        plans = "force_generic_plan" if purpose == "read" else "auto"
        try:
            # The appending connection prepares its one statement itself (see `prepare_append`).
            threshold = None if purpose == "append" else 1
            return connect(self._dsn, _application(purpose, self.number), threshold, plans)
        except psycopg.Error as error:
            raise StoreUnavailable(f"The {self.name} cannot be reached: {error}") from error

    # --- ownership --------------------------------------------------------------------------

    def take_over(self, connection: Connection, log_id: bytes, first: int) -> LaneRow:
        """Become the one writer of the lane; creates it when it is new."""
        migrate(connection)
        if self._takes_over:
            self._lock(connection)
        try:
            row = self._raise_epoch(connection, log_id, first)
        except psycopg.errors.LockNotAvailable:
            # An earlier writer may be stuck within a checkpoint, which holds the row.
            self._end_others(connection)
            row = self._raise_epoch(connection, log_id, first)
        self.epoch = row.epoch
        return row

    def _raise_epoch(self, connection: Connection, log_id: bytes, first: int) -> LaneRow:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {ROW_LOCK_MS}")
            connection.execute(
                "INSERT INTO partibus.lane VALUES (%s, %s, 0, %s, %s, '') ON CONFLICT DO NOTHING",
                (self.number, log_id, first, first),
            )
            # Waits for the checkpoint of an earlier writer (see `checkpoint`).
            connection.execute(
                "SELECT 1 FROM partibus.lane WHERE lane = %s FOR UPDATE", (self.number,)
            )
            row = connection.execute(
                "UPDATE partibus.lane SET epoch = epoch + 1, owner = %s WHERE lane = %s"
                " RETURNING log_id, epoch, tail, checkpoint",
                (self._owner, self.number),
            ).fetchone()
        assert row is not None
        return LaneRow(*row)

    def _end_others(self, connection: Connection) -> None:
        """End the statements of earlier writers of the lane in the database."""
        purposes = ("append", "checkpoint", "compact")
        names = [_application(purpose, self.number) for purpose in purposes]
        connection.execute(
            "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"
            " WHERE (application_name = ANY(%s) OR application_name ="
            " (SELECT left(%s || owner, 63) FROM partibus.lane WHERE lane = %s))"
            " AND datname = current_database() AND pid <> pg_backend_pid()",
            (names, SHARED_NAME, self.number),
        )

    def check_epoch(self, connection: Connection) -> int:
        """The end of the lane; raises `Fenced` when another writer has raised the epoch."""
        statement = "SELECT epoch, tail FROM partibus.lane WHERE lane = %s"
        row = connection.execute(statement, (self.number,)).fetchone()
        if row is None or row[0] != self.epoch:
            raise self.fenced()
        return int(row[1])

    def take_back(
        self, connection: Connection, durable: int, lost_backend: int, is_certain: bool
    ) -> None:
        """Continue after a failure with unknown outcome: nothing after `durable` was acknowledged,
        so it is deleted. Raises `Fenced` when another writer has the lane. Under a lease its holder
        opens the lane again, unless nothing was in flight: then it is unchanged."""
        tail = self.check_epoch(connection)
        if not self._takes_over:
            if is_certain and tail == durable:
                return
            raise Fenced(f"The {self.name} failed; the holder of its lease has to open it again.")
        self._end_backend(connection, lost_backend)
        self._lock(connection)
        epoch = self._cut_back(connection, durable)
        if epoch is None:
            raise self.fenced()
        self.epoch = epoch

    def _end_backend(self, connection: Connection, backend: int) -> None:
        """End a lost connection that the server has not noticed, and that holds the lock."""
        connection.execute(
            "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE pid = %s"
            " AND application_name = %s",
            (backend, _application("append", self.number)),
        )

    def _cut_back(self, connection: Connection, durable: int) -> int | None:
        """Raise the epoch and delete everything after `durable`; None when the lane is not ours."""
        with connection.transaction():
            row = connection.execute(
                "UPDATE partibus.lane SET epoch = epoch + 1, tail = %s"
                " WHERE lane = %s AND epoch = %s AND tail >= %s RETURNING epoch",
                (durable, self.number, self.epoch, durable),
            ).fetchone()
            for segment in self.segments(connection) if row is not None else ():
                if not segment.revision:
                    delete = sql.SQL("DELETE FROM {} WHERE position >= %s")
                    connection.execute(delete.format(self.table(segment.base)), (durable,))
        return None if row is None else int(row[0])

    def prove_room(self, connection: Connection) -> None:
        """Raises `DiskFull` unless there is room for a good many messages; writes nothing
        lasting."""
        with connection.transaction(force_rollback=True):
            connection.execute("CREATE TEMPORARY TABLE partibus_room (data bytea)")
            incompressible = secrets.token_bytes(ROOM_BYTES)
            connection.execute("INSERT INTO partibus_room VALUES (%s)", (incompressible,))

    def _lock(self, connection: Connection) -> None:
        """One server at a time tries; the epoch is what makes this safe."""
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = {LOCK_MS}")
                connection.execute("SELECT pg_advisory_lock(%s, %s)", (LANE_LOCK, self.number))
        except psycopg.errors.LockNotAvailable as error:
            raise StoreUnavailable(
                f"The {self.name} is in use by another server. Stop that server, or give each its "
                "own database."
            ) from error

    def fenced(self) -> Fenced:
        """The error of a writer that was superseded."""
        self.is_superseded = True
        return Fenced(
            f"The {self.name} was taken over by another server, or its database went back to an "
            "earlier state."
        )

    def check_held(self, connection: Connection) -> None:
        """Raises `Fenced` unless this is the writer, which it then stays until the transaction
        ends: a takeover waits for it, appends do not."""
        held = "SELECT 1 FROM partibus.lane WHERE lane = %s AND epoch = %s FOR KEY SHARE"
        if connection.execute(held, (self.number, self.epoch)).fetchone() is None:
            raise self.fenced()

    # --- the log ----------------------------------------------------------------------------

    def add_segment(self, connection: Connection, base: int) -> None:
        """A table for the entries from `base` on; it may already exist."""
        with connection.transaction():
            connection.execute(
                "INSERT INTO partibus.segment SELECT lane, %s FROM partibus.lane"
                " WHERE lane = %s AND epoch = %s ON CONFLICT DO NOTHING",
                (base, self.number, self.epoch),
            )
            self._create(connection, self.table(base))

    def _create(self, connection: Connection, table: sql.Identifier) -> None:
        create = sql.SQL(
            "CREATE TABLE IF NOT EXISTS {table} (position bigint PRIMARY KEY,"
            " epoch bigint NOT NULL, payload bytea NOT NULL)"
            " WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false)"
        )
        external = sql.SQL("ALTER TABLE {table} ALTER COLUMN payload SET STORAGE EXTERNAL")
        connection.execute(create.format(table=table))
        connection.execute(external.format(table=table))

    def drop_segments(self, connection: Connection, segments: Iterable[tuple[int, int]]) -> None:
        """Free the space of entries that are not needed, by base and revision."""
        for base, revision in segments:
            with connection.transaction():
                self.check_held(connection)
                self._drop(connection, self.table(base, revision))
                connection.execute(
                    "DELETE FROM partibus.segment"
                    " WHERE lane = %s AND base = %s AND generation = %s",
                    (self.number, base, revision),
                )
                self._unmark(connection, base, revision)

    def drop_garbage(self, connection: Connection) -> None:
        """Drop the tables that an interrupted compaction left; the lane was just opened."""
        rows = connection.execute(
            "SELECT table_name FROM partibus.garbage WHERE lane = %s", (self.number,)
        ).fetchall()
        for (name,) in rows:
            self._drop(connection, sql.Identifier(SCHEMA, name))
        connection.execute("DELETE FROM partibus.garbage WHERE lane = %s", (self.number,))

    def _drop(self, connection: Connection, table: sql.Identifier) -> None:
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))

    def segments(self, connection: Connection) -> list[SegmentRow]:
        """The tables of the lane, in the order of the log."""
        rows = connection.execute(
            "SELECT base, generation, kept_until FROM partibus.segment WHERE lane = %s"
            " ORDER BY base",
            (self.number,),
        ).fetchall()
        return [SegmentRow(*row) for row in rows]

    def prepare_append(self, connection: Connection, base: int) -> bytes:
        """The name of a statement that makes an entry durable in the segment `base`.

        It takes the end of the entry, its position and its bytes; it changes a row only when the
        lane has this epoch and ends at that position."""
        prepare = sql.SQL("PREPARE append (bigint, bigint, bytea) AS ")
        connection.execute("DEALLOCATE ALL")
        connection.execute(prepare + self._append(base))
        return b"append"

    def append_query(self, connection: Connection, base: int) -> bytes:
        """What `prepare_append` prepares, for another connection."""
        return self._append(base).as_bytes(connection)

    def _append(self, base: int) -> sql.Composed:
        lane, epoch = sql.Literal(self.number), sql.Literal(self.epoch)
        return sql.SQL(
            "WITH moved AS (UPDATE partibus.lane SET tail = $1"
            " WHERE lane = {lane} AND epoch = {epoch} AND tail = $2 RETURNING 1)"
            " INSERT INTO {table} SELECT $2, {epoch}, $3 FROM moved"
        ).format(lane=lane, epoch=epoch, table=self.table(base))

    def entries(self, connection: Connection, base: int, start: int) -> Iterator[tuple[int, bytes]]:
        """Position and bytes of the rows of a segment in order, from the one that contains
        `start`."""
        with connection.transaction(), connection.cursor("tail", binary=True) as cursor:
            cursor.itersize = ROWS_PER_FETCH
            cursor.execute(
                sql.SQL(
                    "SELECT position, payload FROM {table} WHERE position >= coalesce("
                    "(SELECT max(position) FROM {table} WHERE position <= %s), %s)"
                    " ORDER BY position"
                ).format(table=self.table(base)),
                (start, start),
            )
            yield from cursor

    def read(
        self, connection: Connection, segment: tuple[int, int], stretches: Sequence[Ref]
    ) -> list[bytes]:
        """The log from each position up to another, as far as it exists."""
        rows = connection.execute(
            sql.SQL(
                "SELECT r.i, substring(e.payload"
                " FROM greatest(r.start - e.position, 0)::integer + 1"
                " FOR (r.stop - greatest(r.start, e.position))::integer)"
                " FROM unnest(%s::bigint[], %s::bigint[]) WITH ORDINALITY AS r(start, stop, i),"
                " LATERAL (SELECT position, payload FROM {table} WHERE position < r.stop"
                " AND position >= coalesce((SELECT max(position) FROM {table}"
                " WHERE position <= r.start), r.start)) AS e ORDER BY r.i, e.position"
            ).format(table=self.table(*segment)),
            ([start for start, _ in stretches], [stop for _, stop in stretches]),
            binary=True,
        ).fetchall()
        found: list[list[bytes]] = [[] for _ in stretches]
        for number, piece in rows:
            found[number - 1].append(piece)
        return [pieces[0] if len(pieces) == 1 else b"".join(pieces) for pieces in found]

    def table(self, base: int, revision: int = 0) -> sql.Identifier:
        """The table of a segment."""
        return sql.Identifier(SCHEMA, segment_table(self.number, base, revision))

    # --- compaction -------------------------------------------------------------------------

    def rows_behind(
        self, connection: Connection, segment: tuple[int, int], position: int, count: int
    ) -> list[tuple[int, bytes]]:
        """The next rows of a segment: no transaction stays open while it is read slowly."""
        statement = sql.SQL(
            "SELECT position, payload FROM {} WHERE position > %s ORDER BY position LIMIT %s"
        ).format(self.table(*segment))
        return connection.execute(statement, (position, count), binary=True).fetchall()

    def kept_places(
        self, connection: Connection, segment: tuple[int, int]
    ) -> list[tuple[int, int]]:
        """Where the bodies of a compacted segment are, with their checksums and lengths."""
        statement = sql.SQL(
            "SELECT position, octet_length(payload) FROM {} ORDER BY position"
        ).format(self.table(*segment))
        return connection.execute(statement, binary=True).fetchall()

    def begin_kept(self, connection: Connection, base: int, revision: int) -> None:
        """An empty table for what compaction keeps; it counts as garbage until `swap`."""
        table = self.table(base, revision)
        with connection.transaction():
            self.check_held(connection)
            self._discard(connection, [(base, revision)])
            self._drop(connection, table)
            self._create(connection, table)

    def keep(
        self,
        connection: Connection,
        source: tuple[int, int],
        target: tuple[int, int],
        refs: Sequence[Ref],
    ) -> None:
        """Copy bodies with their checksums from one table into another, within the database."""
        connection.execute(
            sql.SQL(
                "INSERT INTO {} SELECT r.place, e.epoch,"
                " substring(e.payload FROM (r.place - e.position + 1)::integer FOR r.length)"
                " FROM unnest(%s::bigint[], %s::integer[]) AS r(place, length),"
                " LATERAL (SELECT position, epoch, payload FROM {} WHERE position <= r.place"
                " ORDER BY position DESC LIMIT 1) AS e"
            ).format(self.table(*target), self.table(*source)),
            ([position for position, _ in refs], [length for _, length in refs]),
        )

    def swap(
        self,
        connection: Connection,
        sources: Sequence[tuple[int, int]],
        target: tuple[int, int],
        kept_until: int,
    ) -> None:
        """In one transaction: the new table becomes valid, and the old ones garbage."""
        base, revision = target
        with connection.transaction():
            self.check_held(connection)
            connection.execute(
                "DELETE FROM partibus.segment WHERE lane = %s AND base = ANY(%s)",
                (self.number, [base for base, _ in sources]),
            )
            connection.execute(
                "INSERT INTO partibus.segment VALUES (%s, %s, %s, %s)",
                (self.number, base, revision, kept_until),
            )
            self._unmark(connection, base, revision)
            self._discard(connection, sources)

    def _discard(self, connection: Connection, segments: Sequence[tuple[int, int]]) -> None:
        for base, revision in segments:
            connection.execute(
                "INSERT INTO partibus.garbage VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (self.number, segment_table(self.number, base, revision)),
            )

    def _unmark(self, connection: Connection, base: int, revision: int) -> None:
        """A table is no longer garbage: it is valid, or gone."""
        connection.execute(
            "DELETE FROM partibus.garbage WHERE lane = %s AND table_name = %s",
            (self.number, segment_table(self.number, base, revision)),
        )

    # --- checkpoints ------------------------------------------------------------------------

    def states(self, connection: Connection) -> dict[int, bytes]:
        """The states of all fragments as of the latest checkpoint."""
        return dict(
            connection.execute(
                "SELECT fragment, data FROM partibus.state WHERE lane = %s",
                (self.number,),
                binary=True,
            ).fetchall()
        )

    def pages(self, connection: Connection) -> list[tuple[int, int]]:
        """Number and length of every page of the latest checkpoint."""
        return connection.execute(
            "SELECT number, octet_length(data) FROM partibus.page WHERE lane = %s", (self.number,)
        ).fetchall()

    def page(self, connection: Connection, number: int) -> bytes | None:
        """A page of the latest checkpoint."""
        row = connection.execute(
            "SELECT data FROM partibus.page WHERE lane = %s AND number = %s",
            (self.number, number),
            binary=True,
        ).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def checkpoint(self, connection: Connection, position: int) -> Iterator["CheckpointWriter"]:
        """Write a checkpoint completely or not at all.

        The key-share lock lets appends move the tail, and makes a takeover wait: so a checkpoint
        never becomes durable after the lane has another writer.
        """
        with connection.transaction():
            self.check_held(connection)
            yield CheckpointWriter(connection, self.number)
            connection.execute(
                "UPDATE partibus.lane SET checkpoint = %s WHERE lane = %s", (position, self.number)
            )


class CheckpointWriter:
    """Writes within the transaction of a checkpoint."""

    def __init__(self, connection: Connection, lane: int) -> None:
        self._connection = connection
        self._lane = lane

    def put_states(self, states: dict[int, bytes]) -> None:
        """Replace those of the previous checkpoint."""
        self._connection.execute("DELETE FROM partibus.state WHERE lane = %s", (self._lane,))
        statement = "COPY partibus.state (lane, fragment, data) FROM STDIN (FORMAT BINARY)"
        self._copy(statement, states.items())

    def add_pages(self, pages: Iterable[tuple[int, bytes]]) -> None:
        """Pages that no checkpoint has written yet."""
        self._copy("COPY partibus.page (lane, number, data) FROM STDIN (FORMAT BINARY)", pages)

    def drop_pages(self, numbers: list[int]) -> None:
        """Pages that no state refers to any more."""
        self._connection.execute(
            "DELETE FROM partibus.page WHERE lane = %s AND number = ANY(%s)", (self._lane, numbers)
        )

    def _copy(self, statement: LiteralString, rows: Iterable[tuple[int, bytes]]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int4", "int8", "bytea"])
            for number, data in rows:
                copy.write_row((self._lane, number, data))


def _application(purpose: str, lane: int) -> str:
    """How a connection is listed in `pg_stat_activity`."""
    return f"partibus-{purpose}-{lane}"
