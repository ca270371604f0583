"""A lane whose owner hangs is freed for its next owner.

Owns the end of connections of an earlier writer, which hold the lock of the lane in its database. A
process that is stopped, or a machine that is cut off, keeps its connections for as long as the
database has not noticed. Whoever calls this holds the lease of the lane; what the earlier writer
has under way is stopped by the epoch anyway. Blocks; called by the lane keeping beside the loop.
"""

from partibus.store.postgres.lane import LANE_LOCK, Lane


def free_lane(address: str, number: int) -> None:
    """End the connections that hold the lock of a lane; StoreUnavailable without the database."""
    connection = Lane(address, number, "", takes_over=False).connect("takeover")
    with connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 1000) FROM pg_locks"
            " JOIN pg_database ON pg_locks.database = pg_database.oid"
            " WHERE datname = current_database() AND locktype = 'advisory' AND granted"
            " AND classid = %s::bigint::oid AND objid = %s::bigint::oid AND objsubid = 2",
            (LANE_LOCK, number),
        )
    connection.close()
