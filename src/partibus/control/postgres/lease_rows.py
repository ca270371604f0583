"""The statements about nodes and lanes: leases in the database.

Owns the rule that a lease is live while its owner's heartbeat is younger than `LEASE_MS` by the
clock of the database. Each function is one round trip, and a change wakes the followers in the same
transaction. A heartbeat that is further in the future than a lease lasts counts as old: the
database has failed over to a machine whose clock is behind. Called with a connection by the
ownership of a node and by the operations on the cluster.
"""

from typing import Any, Final, NamedTuple

from partibus.control.lease_view import LeaseTable
from partibus.control.ownership import LEASE_MS, NodeAddress
from partibus.control.postgres.session import AsyncConnection
from partibus.domain.errors import ConfigError

CHANNEL: Final = "partibus_lanes"
FORGET_HOURS: Final = 24
"""A node without a heartbeat for this long is removed when another joins."""

NODES_MAX: Final = 100
"""Every node connects to every other one and follows every lane; see docs/guides/sizing.md."""

_WAKE: Final = "SELECT pg_notify('partibus_lanes', '')"


class NodeRow(NamedTuple):
    """A node, live or not."""

    number: int
    address: NodeAddress
    alive: bool
    draining: bool
    heartbeat_age_ms: int
    unreachable: frozenset[int] = frozenset()
    """Lanes whose database it cannot reach."""


class LaneRow(NamedTuple):
    """A lane, its database, and its owner, whose lease may have lapsed."""

    number: int
    database: int
    owner: int | None
    since_ms: int | None = None
    """How long this has been so; None when it never had an owner."""


class Renewal(NamedTuple):
    """The answer to a renewal; a different renewal means that nodes came or went."""

    is_known: bool
    """False for a node that was evicted."""
    alive: int
    total: int
    """A checksum of the numbers of the live nodes: it changes even when one goes while another
    comes."""


class LeaseRows(NamedTuple):
    """One reading of the tables."""

    nodes: list[NodeRow]
    lanes: list[LaneRow]

    def table(self) -> LeaseTable:
        """The form that the view of a node uses."""
        alive = {row.number: row.address for row in self.nodes if row.alive}
        draining = frozenset(row.number for row in self.nodes if row.alive and row.draining)
        owners = {row.number: row.owner if row.owner in alive else None for row in self.lanes}
        unreachable = {r.number: r.unreachable for r in self.nodes if r.alive and r.unreachable}
        return LeaseTable(alive, draining, owners, unreachable)


async def join(connection: AsyncConnection, address: NodeAddress) -> int:
    """A new node; returns its number, which no other node had or will have."""
    async with connection.transaction():
        await connection.execute(
            "DELETE FROM partibus_cluster.node"
            " WHERE heartbeat < clock_timestamp() - make_interval(hours => %s)",
            (FORGET_HOURS,),
        )
        await _refuse_too_many(connection)
        cursor = await connection.execute(
            "INSERT INTO partibus_cluster.node (host, port, version, name) VALUES (%s, %s, %s, %s)"
            " RETURNING number",
            tuple(address),
        )
        row = await cursor.fetchone()
        await connection.execute(_WAKE)
    assert row is not None
    return int(row[0])


async def _refuse_too_many(connection: AsyncConnection) -> None:
    """Two nodes that join at the same moment may both be admitted: the limit is not a safety
    matter."""
    cursor = await connection.execute(
        "SELECT count(*) FROM partibus_cluster.node WHERE partibus_cluster.is_alive(heartbeat, %s)",
        (LEASE_MS,),
    )
    alive = (await cursor.fetchone() or (0,))[0]
    if alive >= NODES_MAX:
        raise ConfigError(
            f"The cluster has {alive} live nodes; the maximum is {NODES_MAX}, since every node is "
            "connected to every other. Stop a node first, use larger machines, or put entities "
            "that do not need each other into a second cluster."
        )


async def renew(connection: AsyncConnection, node: int) -> Renewal:
    """Write the heartbeat of a node, and read which nodes are alive. One row is returned, however
    large the cluster is, because every node does this each second."""
    async with connection.pipeline():
        renewed = await connection.execute(
            "UPDATE partibus_cluster.node SET heartbeat = clock_timestamp() WHERE number = %s"
            " RETURNING number",
            (node,),
        )
        found = await connection.execute(
            "SELECT count(*), coalesce(sum(number), 0)::bigint FROM partibus_cluster.node"
            " WHERE partibus_cluster.is_alive(heartbeat, %s)",
            (LEASE_MS,),
        )
    alive, total = await found.fetchone() or (0, 0)
    return Renewal(await renewed.fetchone() is not None, alive, total)


async def look(connection: AsyncConnection) -> LeaseRows:
    """Read the tables."""
    async with connection.pipeline():
        found = await _ask(connection)
    return await _fetch(*found)


async def _ask(connection: AsyncConnection) -> tuple[Any, Any]:
    nodes = await connection.execute(
        "SELECT number, host, port, version, name, partibus_cluster.is_alive(heartbeat, %s),"
        " draining, (extract(epoch FROM clock_timestamp() - heartbeat) * 1000)::bigint,"
        " unreachable"
        " FROM partibus_cluster.node ORDER BY number",
        (LEASE_MS,),
    )
    lanes = await connection.execute(
        "SELECT number, database, owner,"
        " (extract(epoch FROM clock_timestamp() - since) * 1000)::bigint"
        " FROM partibus_cluster.lane ORDER BY number"
    )
    return nodes, lanes


async def _fetch(nodes: Any, lanes: Any) -> LeaseRows:
    rows = [
        NodeRow(number, NodeAddress(*address), alive, draining, age_ms, frozenset(away))
        for number, *address, alive, draining, age_ms, away in await nodes.fetchall()
    ]
    return LeaseRows(rows, [LaneRow(*row) for row in await lanes.fetchall()])


async def acquire(connection: AsyncConnection, node: int, lane: int) -> bool:
    """Take a lane whose lease is free or has lapsed, for a node with a live heartbeat."""
    cursor = await connection.execute(
        "WITH taken AS (UPDATE partibus_cluster.lane SET owner = %(node)s,"
        "  since = clock_timestamp() WHERE number = %(lane)s"
        "  AND (owner IS NULL OR owner = %(node)s OR NOT EXISTS ("
        "   SELECT 1 FROM partibus_cluster.node AS holder WHERE holder.number = lane.owner"
        "   AND partibus_cluster.is_alive(holder.heartbeat, %(lease)s)))"
        "  AND EXISTS (SELECT 1 FROM partibus_cluster.node AS taker WHERE taker.number = %(node)s"
        "   AND partibus_cluster.is_alive(taker.heartbeat, %(lease)s)) RETURNING number)"
        " SELECT pg_notify('partibus_lanes', '') FROM taken",
        {"node": node, "lane": lane, "lease": LEASE_MS},
    )
    return cursor.rowcount == 1


async def release(connection: AsyncConnection, node: int, lanes: list[int]) -> None:
    """Release those of the lanes that the node owns."""
    await connection.execute(
        "WITH freed AS (UPDATE partibus_cluster.lane SET owner = NULL, since = clock_timestamp()"
        " WHERE number = ANY(%s) AND owner = %s RETURNING number)"
        " SELECT pg_notify('partibus_lanes', '') FROM freed LIMIT 1",
        (lanes, node),
    )


async def remove(connection: AsyncConnection, node: int) -> bool:
    """A node leaves, or is evicted: its lanes are free at once. False when there is no such
    node."""
    cursor = await connection.execute(
        "WITH gone AS (DELETE FROM partibus_cluster.node WHERE number = %s RETURNING number)"
        " SELECT pg_notify('partibus_lanes', '') FROM gone",
        (node,),
    )
    return cursor.rowcount == 1


async def set_draining(connection: AsyncConnection, node: int, draining: bool) -> bool:
    """Have a node give its lanes away, or take lanes again; False when there is no such node."""
    cursor = await connection.execute(
        "WITH changed AS (UPDATE partibus_cluster.node SET draining = %s WHERE number = %s"
        " RETURNING number) SELECT pg_notify('partibus_lanes', '') FROM changed",
        (draining, node),
    )
    return cursor.rowcount == 1


async def report_unreachable(connection: AsyncConnection, node: int, lanes: list[int]) -> None:
    """A node cannot reach exactly these lanes now."""
    await connection.execute(
        "WITH changed AS (UPDATE partibus_cluster.node SET unreachable = %s WHERE number = %s"
        " RETURNING number) SELECT pg_notify('partibus_lanes', '') FROM changed",
        (lanes, node),
    )


async def add_lanes(connection: AsyncConnection, lanes: int, databases: int) -> None:
    """Create lanes up to this many, the new ones spread over the databases in turn."""
    async with connection.transaction():
        await connection.execute(
            "INSERT INTO partibus_cluster.lane (number, database)"
            " SELECT number, number %% %s FROM generate_series(0, %s - 1) AS number"
            " ON CONFLICT DO NOTHING",
            (databases, lanes),
        )
        await connection.execute(_WAKE)


async def wake(connection: AsyncConnection) -> None:
    """Have every node read the tables now."""
    await connection.execute(_WAKE)
