"""A connection of one thread to the database of a lane.

Owns when it is opened and closed, not what is sent over it. Used by the threads that read, write
checkpoints and compact.
"""

from partibus.store.postgres.connection import Connection, close_quietly
from partibus.store.postgres.lane import Lane


class LaneConnection:
    """A connection of one thread, made when it is first used and again after it was dropped."""

    def __init__(self, lane: Lane, purpose: str) -> None:
        self._lane = lane
        self._purpose = purpose
        self._connection: Connection | None = None

    def get(self) -> Connection:
        """The open connection; raises StoreUnavailable when the database is unreachable."""
        if self._connection is None or self._connection.closed:
            self._connection = self._lane.connect(self._purpose)
        return self._connection

    def drop(self) -> None:
        """Close it, whatever its state."""
        connection, self._connection = self._connection, None
        close_quietly(connection)
