"""Writes the contents of another store as a lane of a database; see `compaction.importing`.

Owns the statements: each stretch becomes a table as compaction makes them, which counts as garbage
until one transaction at the end makes all of them, the pages, the states and the new tail of the
lane valid together. An interrupted copy leaves an empty lane. The lane begins with an epoch that no
writer of the source had, so that no lock token of the source is valid here. Blocks.
"""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

import psycopg
from psycopg import sql

from partibus.domain.errors import ConfigError, StoreUnavailable
from partibus.store.compaction.importing import (
    FIRST_GENERATION,
    Bodies,
    Snapshot,
    Stretch,
    with_checksum,
)
from partibus.store.pages import PageSource
from partibus.store.postgres.connection import Connection
from partibus.store.postgres.lane import CheckpointWriter, Lane
from partibus.store.postgres.schema import SCHEMA, migrate, segment_table
from partibus.store.postgres.store import FIRST_POSITION
from partibus.store.record import BODY_CRC_BYTES

COPY_BYTES: Final = 4 << 20
"""What one statement writes: none may take longer than `lane.STATEMENT_MS`."""
EPOCH_BITS: Final = 29
"""Shifted by 32 bits it is the start of lock tokens, which stay below 2^62."""


def lanes_there(dsn: str, wanted: Iterable[int]) -> dict[int, str]:
    """Which of these lanes a database has, each with the name of its last writer."""
    with closing(Lane(dsn, 0, "", takes_over=True).connect("import")) as connection:
        found = connection.execute("SELECT to_regclass('partibus.lane')").fetchone()
        if found is None or found[0] is None:
            return {}
        rows = connection.execute(
            "SELECT lane, owner FROM partibus.lane WHERE lane = ANY(%s)", (list(wanted),)
        )
        return dict(rows.fetchall())


def lane_end(dsn: str, number: int) -> tuple[bytes, int] | None:
    """The id of a lane's log, and its end; None when there is no such lane."""
    lane = Lane(dsn, number, "", takes_over=True)
    with closing(lane.connect("read")) as connection:
        try:
            row = connection.execute(
                "SELECT log_id, tail FROM partibus.lane WHERE lane = %s", (number,)
            ).fetchone()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            return None
        except psycopg.Error as error:
            raise StoreUnavailable(f"The {lane.name} cannot be read: {error}.") from error
    return None if row is None else (row[0], row[1])


def erase_lane(dsn: str, number: int) -> None:
    """Remove a lane with all its tables."""
    lane = Lane(dsn, number, "", takes_over=True)
    with closing(lane.connect("import")) as connection:
        migrate(connection)
        rows = connection.execute(
            "SELECT table_name FROM partibus.garbage WHERE lane = %s", (number,)
        )
        tables = [name for (name,) in rows]
        segments = lane.segments(connection)
        tables += [segment_table(number, row.base, row.revision) for row in segments]
        for table in tables:
            connection.execute(
                sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(SCHEMA, table))
            )
        with connection.transaction():
            for name in ("garbage", "segment", "state", "page", "lane"):
                delete = sql.SQL("DELETE FROM {} WHERE lane = %s")
                connection.execute(delete.format(sql.Identifier(SCHEMA, name)), (number,))


class DatabaseImport:
    """A lane that is created and filled."""

    def __init__(self, dsn: str, number: int, owner: str) -> None:
        self._lane = Lane(dsn, number, owner, takes_over=True)
        self._connection: Connection = self._lane.connect("import")
        self._made: list[Stretch] = []
        try:
            row = self._lane.take_over(self._connection, secrets.token_bytes(16), FIRST_POSITION)
            if row.tail != FIRST_POSITION or row.checkpoint != FIRST_POSITION:
                raise ConfigError(
                    f"The {self._lane.name} is not empty. Copy into a database without lanes; "
                    "nothing was copied."
                )
            self._lane.drop_garbage(self._connection)
        except psycopg.Error as error:
            self.close()
            raise self._failed(error) from error
        except BaseException:
            self.close()
            raise

    def write(self, stretch: Stretch, bodies: Bodies) -> None:
        """Write a table, which does not count yet."""
        try:
            self._lane.begin_kept(self._connection, stretch.base, FIRST_GENERATION)
            for rows in _by_size(bodies):
                self._add(stretch.base, rows)
        except psycopg.Error as error:
            raise self._failed(error) from error
        self._made.append(stretch)

    def _add(self, base: int, rows: list[tuple[int, bytes]]) -> None:
        statement = sql.SQL("COPY {} (position, epoch, payload) FROM STDIN (FORMAT BINARY)").format(
            self._lane.table(base, FIRST_GENERATION)
        )
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(["int8", "int8", "bytea"])
            for position, body in rows:
                place = position - BODY_CRC_BYTES
                copy.write_row((place, self._lane.epoch, with_checksum(body)))

    def finish(self, snapshot: Snapshot) -> None:
        """Make all of it the content of the lane, in one transaction."""
        try:
            with self._connection.transaction():
                self._lane.check_held(self._connection)
                self._adopt_tables()
                writer = CheckpointWriter(self._connection, self._lane.number)
                for pages in _by_size(_encoded(snapshot.pages)):
                    writer.add_pages(pages)
                writer.put_states(snapshot.states)
                self._connection.execute(
                    "UPDATE partibus.lane SET epoch = %s, tail = %s, checkpoint = %s"
                    " WHERE lane = %s",
                    (
                        1 + secrets.randbits(EPOCH_BITS),
                        snapshot.position,
                        snapshot.position,
                        self._lane.number,
                    ),
                )
        except psycopg.Error as error:
            raise self._failed(error) from error

    def _adopt_tables(self) -> None:
        number = self._lane.number
        for stretch in self._made:
            self._connection.execute(
                "INSERT INTO partibus.segment VALUES (%s, %s, %s, %s)",
                (number, stretch.base, FIRST_GENERATION, stretch.end),
            )
        self._connection.execute("DELETE FROM partibus.garbage WHERE lane = %s", (number,))

    def _failed(self, error: psycopg.Error) -> StoreUnavailable:
        return StoreUnavailable(f"The {self._lane.name} cannot be filled: {error}.")

    def close(self) -> None:
        """Release the lane."""
        self._connection.close()


def _encoded(pages: dict[int, PageSource]) -> Iterator[tuple[int, bytes]]:
    for number, source in pages.items():
        yield number, b"".join(source())


def _by_size(rows: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """As many as fit into one statement."""
    some: list[tuple[int, bytes]] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row[1])
        if size >= COPY_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some
