"""What `serve --cluster` wires together: the cluster's database, the port of the nodes, leases.

Owns the wiring of a `ClusterMember` from the settings. Binds the port for the other nodes, so that
its number is known before the node is announced. Loads the driver of the database. Called by the
lifecycle.
"""

from functools import partial

from partibus import __version__
from partibus.cluster.node_group import NodeGroup
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.copying import refuse_half_copied
from partibus.control.ownership import NodeAddress
from partibus.control.postgres.catalog import PostgresCatalog
from partibus.control.postgres.feed import CatalogFeed
from partibus.control.postgres.lane_seen import LaneEnd
from partibus.control.postgres.lease_rows import add_lanes, look
from partibus.control.postgres.operations import ClusterOperations, status_of
from partibus.control.postgres.ownership import PostgresOwnership
from partibus.control.postgres.session import ControlSession, database_name
from partibus.domain.clock import Clock
from partibus.domain.errors import ConfigError
from partibus.server.config import ServeSettings
from partibus.server.nodes.capacity import warn_of_shortage
from partibus.server.nodes.certificates import node_name
from partibus.server.nodes.lane_notes import LaneNotes
from partibus.server.nodes.member import ClusterMember
from partibus.server.nodes.reach import Reach
from partibus.store.postgres.connection import answers
from partibus.store.postgres.importing import lane_end


def make_member(settings: ServeSettings, clock: Clock) -> ClusterMember:
    """This node as a member that has not joined yet."""
    assert settings.cluster is not None
    group = NodeGroup(settings.cluster_tls, settings.host, settings.peer_port)
    name = node_name(settings.cluster_tls)
    address = NodeAddress(settings.peer_host, group.transport.port, __version__, name)
    ownership = PostgresOwnership(settings.cluster, address, clock)
    group.nodes = lambda: {n: (a.host, a.port) for n, a in ownership.nodes().items()}
    group.names = lambda: {n: a.name for n, a in ownership.nodes().items()}
    opened = partial(_open_catalog, settings, clock)
    member = ClusterMember(ownership, group, opened, partial(_begin, settings, ownership))
    member.operations = ClusterOperations(settings.cluster)
    member.known_status = lambda: status_of(ownership.rows)
    member.reach = Reach(ownership, settings.store_places, answers)
    feed = CatalogFeed(settings.cluster, member.refresh)
    member.follow_by(feed, partial(opened, feed))
    member.notes = LaneNotes(settings.cluster, settings.store_name, partial(_end_of, settings))
    return member


def _end_of(settings: ServeSettings, lane: int) -> LaneEnd | None:
    found = lane_end(settings.store_databases[lane], lane)
    return None if found is None else LaneEnd(*found)


async def _begin(settings: ServeSettings, ownership: PostgresOwnership) -> None:
    """Join; a new cluster gets its lanes, and a node whose settings name other lanes is refused."""
    assert settings.cluster is not None
    await ownership.start()
    databases = len(set(settings.store_places))
    session = ControlSession(settings.cluster, "join")
    try:
        if not ownership.databases():
            await session.run(partial(add_lanes, lanes=settings.lanes, databases=databases))
        found = await session.run(look)
    finally:
        await session.close()
    if len(found.lanes) != settings.lanes or databases <= max(r.database for r in found.lanes):
        await ownership.stop()
        raise ConfigError(
            f"The cluster has {len(found.lanes)} lanes in "
            f"{1 + max(row.database for row in found.lanes)} database(s), and this node was "
            f"started with {settings.lanes} in {databases}. Give --store and --lanes as on the "
            "other nodes."
        )
    await warn_of_shortage(settings, len(ownership.nodes()))


def _open_catalog(
    settings: ServeSettings, clock: Clock, feed: CatalogFeed | None = None
) -> Catalog:
    assert settings.cluster is not None
    rows = PostgresCatalog(settings.cluster)
    try:
        refuse_half_copied(rows, database_name(settings.cluster))
    except BaseException:
        rows.close()
        raise
    rows.feed = feed
    return Catalog(profile=settings.profile, stores=settings.stores, clock=clock, rows=rows)
