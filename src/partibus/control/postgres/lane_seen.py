"""How far each lane of a cluster had come, noted in the control plane.

Owns the statements, and the rule that a note never goes back while the log is the same one. A note
has only what the lane's own database had made durable, so a lane that ends before it has lost what
was acknowledged: its database was restored from a backup, or has failed over to a standby that
lacked it. Called by nodes, by copies and by the operations on a cluster.
"""

from collections.abc import Mapping
from typing import NamedTuple

from partibus.control.postgres.session import AsyncConnection


class LaneEnd(NamedTuple):
    """Which log a lane has, and up to where it is durable."""

    log_id: bytes
    position: int


async def note(connection: AsyncConnection, ends: Mapping[int, LaneEnd]) -> None:
    """Remember how far lanes have come."""
    await connection.execute(
        "INSERT INTO partibus_cluster.lane_seen AS seen"
        " SELECT * FROM unnest(%s::integer[], %s::bytea[], %s::bigint[])"
        " ON CONFLICT (lane) DO UPDATE SET log_id = excluded.log_id, position = excluded.position"
        " WHERE seen.log_id <> excluded.log_id OR seen.position < excluded.position",
        (list(ends), [end.log_id for end in ends.values()], [e.position for e in ends.values()]),
    )


async def noted(connection: AsyncConnection) -> dict[int, LaneEnd]:
    """How far every lane had come when it was last noted."""
    cursor = await connection.execute(
        "SELECT lane, log_id, position FROM partibus_cluster.lane_seen"
    )
    return {lane: LaneEnd(log_id, position) for lane, log_id, position in await cursor.fetchall()}


async def forget(connection: AsyncConnection, lane: int) -> bool:
    """Somebody has said that a lane is right, however old it is; False when nothing was noted."""
    cursor = await connection.execute(
        "DELETE FROM partibus_cluster.lane_seen WHERE lane = %s", (lane,)
    )
    return bool(cursor.rowcount)
