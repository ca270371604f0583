"""The log of each lane as its database has it: one chain, written by one writer after the other.

Owns the proof that there were never two writers: entries follow each other without a hole or an
overlap, each with an epoch that is no lower than the one before, and each epoch begins with the
empty entry of its takeover. Reads the tables and nothing else.
"""

from itertools import pairwise
from typing import NamedTuple

import psycopg
from psycopg import sql

from partibus.store.postgres.schema import SCHEMA, segment_table
from partibus.store.record import ENTRY_HEADER_BYTES


class Link(NamedTuple):
    """One row of a log."""

    position: int
    epoch: int
    length: int


def check_chains(dsn: str) -> dict[int, int]:
    """Check every lane of a database; answers the epoch of each."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        lanes = connection.execute("SELECT lane, epoch, tail FROM partibus.lane").fetchall()
        for lane, epoch, tail in lanes:
            check_chain(lane, epoch, tail, _links(connection, lane))
    return {lane: epoch for lane, epoch, _ in lanes}


def _links(connection: "psycopg.Connection[tuple[int, ...]]", lane: int) -> list[Link]:
    bases = connection.execute(
        "SELECT base FROM partibus.segment WHERE lane = %s AND generation = 0 ORDER BY base",
        (lane,),
    ).fetchall()
    links: list[Link] = []
    for (base,) in bases:
        table = sql.Identifier(SCHEMA, segment_table(lane, base, 0))
        rows = sql.SQL("SELECT position, epoch, length(payload) FROM {} ORDER BY position")
        links += [Link(*row) for row in connection.execute(rows.format(table))]
    return links


def check_chain(lane: int, epoch: int, tail: int, links: list[Link]) -> None:
    """One lane; the last row ends where the lane does."""
    for before, after in pairwise(links):
        is_next = before.position + before.length == after.position
        assert is_next, f"lane {lane}: {after} does not follow {before}"
        assert before.epoch <= after.epoch, f"lane {lane}: {after} is of a writer before {before}"
        is_takeover = after.length == ENTRY_HEADER_BYTES
        assert before.epoch == after.epoch or is_takeover, (
            f"lane {lane}: {after} was written before its writer had taken over from {before}"
        )
    if links:
        last = links[-1]
        assert last.position + last.length == tail, f"lane {lane} ends at {tail}, not with {last}"
        assert last.epoch <= epoch, f"lane {lane} has epoch {epoch}, and {last}"
