"""Whether the databases of a cluster allow as many connections as its nodes may need.

Owns the arithmetic of connections, which docs/guides/sizing.md explains, and the warning. It must
never refuse anything: lanes seldom need their maximum all at once. Called when a node has joined.
"""

import logging
from collections import Counter
from typing import Any, Final

from partibus.control.postgres.session import AsyncConnection, ControlSession, database_name
from partibus.domain.errors import StoreUnavailable
from partibus.server.config import ServeSettings

PER_LANE: Final = 4
"""To append, to read, to write checkpoints, to compact; all but the first are made when needed."""
SHARED: Final = 1
"""From each node to each database: to append to several of its lanes at once."""
PER_NODE: Final = 6
"""To the database of the cluster: leases, catalog, and to be woken by changes of each."""

_log: Final = logging.getLogger(__name__)


def needed(settings: ServeSettings, nodes: int) -> dict[str, int]:
    """By database, the connections of all lanes in it; for that of the cluster, also of the
    nodes."""
    assert settings.cluster is not None
    lanes = Counter(settings.store_places)
    found = {database: PER_LANE * count + SHARED * nodes for database, count in lanes.items()}
    found[settings.cluster] = found.get(settings.cluster, 0) + PER_NODE * nodes
    return found


async def warn_of_shortage(settings: ServeSettings, nodes: int) -> None:
    """Ask each database for its limit; one that does not answer now is skipped."""
    for database, count in needed(settings, nodes).items():
        session = ControlSession(database, "capacity")
        try:
            offered = await session.run(_offered)
        except StoreUnavailable:
            continue
        finally:
            await session.close()
        if offered < count:
            _log.warning(
                "the %s allows %d connections; %d nodes and the lanes in it may need %d. Raise "
                "max_connections of the database, or spread the lanes over more databases",
                database_name(database),
                offered,
                nodes,
                count,
            )


async def _offered(connection: AsyncConnection) -> int:
    """The connections left for users that are not superusers."""
    cursor = await connection.execute(
        "SELECT current_setting('max_connections')::integer"
        " - current_setting('superuser_reserved_connections')::integer"
    )
    row: tuple[Any, ...] | None = await cursor.fetchone()
    assert row is not None
    return int(row[0])
