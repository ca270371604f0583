"""How far each lane of a cluster had come, recorded in the control plane.

Owns the statements, and the rule that a note never goes back while the log is the same. A note
contains only what was durable in the lane's own database, so a lane that ends before its note has
lost acknowledged data: its database was restored from a backup, or has failed over to a standby
that lacked it. Called by nodes, by copies and by the operations on a cluster.
"""

from collections.abc import Mapping
from typing import NamedTuple

from partibus.control.postgres.session import AsyncConnection


class LaneEnd(NamedTuple):
    """Which log a lane has, and up to where it is durable."""

    log_id: bytes
    position: int


async def note(connection: AsyncConnection, ends: Mapping[int, LaneEnd]) -> None:
    """Record how far lanes have come."""
    await connection.execute(
        "INSERT INTO partibus_cluster.lane_seen AS seen"
        " SELECT * FROM unnest(%s::integer[], %s::bytea[], %s::bigint[])"
        " ON CONFLICT (lane) DO UPDATE SET log_id = excluded.log_id, position = excluded.position"
        " WHERE seen.log_id <> excluded.log_id OR seen.position < excluded.position",
        (list(ends), [end.log_id for end in ends.values()], [e.position for e in ends.values()]),
    )


async def noted(connection: AsyncConnection) -> dict[int, LaneEnd]:
    """The last note of every lane."""
    cursor = await connection.execute(
        "SELECT lane, log_id, position FROM partibus_cluster.lane_seen"
    )
    return {lane: LaneEnd(log_id, position) for lane, log_id, position in await cursor.fetchall()}


async def forget(connection: AsyncConnection, lane: int) -> bool:
    """An operator has accepted a lane, however old it is; False when there was no note."""
    cursor = await connection.execute(
        "DELETE FROM partibus_cluster.lane_seen WHERE lane = %s", (lane,)
    )
    return bool(cursor.rowcount)
