"""Links follow what happens to their entity.

Owns what an entry of the catalog's change feed means for clients that are connected: links of a
deleted entity are detached, those that a new status forbids too, and the others get the new
properties. When policies change, every connection checks its grants again. Called by the gateway;
it must never read the catalog.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from partibus.amqp.link import Link
from partibus.control.catalog.record import Change, ChangeKind, EntityRecord
from partibus.domain.address import parse_address, path_key
from partibus.domain.errors import BusError, EntityNotFound
from partibus.gateway.jms.temporary import TemporaryLink
from partibus.gateway.links.attach import LinkOwner
from partibus.gateway.links.inbound import InboundLink
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.links.relay import RelayLink
from partibus.gateway.namespace import disabled
from partibus.gateway.transactions.coordinator import CoordinatorLink

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection


def follow(change: Change, connections: Iterable["ClientConnection"]) -> None:
    """Notify the links that a change concerns."""
    for connection in list(connections):
        if change.kind is ChangeKind.POLICIES:
            connection.recheck_grants()
        elif change.kind is ChangeKind.UPDATED and change.after is not None:
            _updated(connection, change.after)
        elif change.kind is ChangeKind.DELETED:
            _deleted(connection, change.path)


def _deleted(connection: "ClientConnection", path: str) -> None:
    """Detach the links of a deleted entity, including those of its management node (ERR-1)."""
    for link, owner in _links_of(connection, path):
        _end(connection, link, owner, EntityNotFound.named(path))
    positions = connection.peek_positions
    for key in [key for key in positions if path_key(key[0]) == path_key(path)]:
        del positions[key]
    # Policies of the entity were deleted with it.
    connection.recheck_grants()


def _updated(connection: "ClientConnection", record: EntityRecord) -> None:
    """Detach the links that a status forbids (STS-6); the others get the new properties."""
    status = record.spec.status
    for link, owner in _links_of(connection, record.path):
        if isinstance(owner, InboundLink):
            if status.allows_send:
                owner.follow_entity()
            else:
                _end(connection, link, owner, disabled(record.path, "sending"))
        elif isinstance(owner, OutboundLink) and not status.allows_receive:
            _end(connection, link, owner, disabled(record.path, "receiving"))


def _end(connection: "ClientConnection", link: Link, owner: LinkOwner, error: BusError) -> None:
    if isinstance(owner, InboundLink):
        owner.refuse_all(error)
    connection.drop(link, error)


def _links_of(connection: "ClientConnection", path: str) -> list[tuple[Link, LinkOwner]]:
    key = path_key(path)
    return [(link, owner) for link, owner in connection.links if is_of(owner, key)]


def is_of(owner: LinkOwner, key: str) -> bool:
    """Whether a link is to the entity with this key, its sub-queues or its management node."""
    if isinstance(owner, InboundLink | OutboundLink):
        path = path_key(owner.path)
    elif isinstance(owner, CoordinatorLink | RelayLink | TemporaryLink):
        return False
    else:
        path = path_key(owner.node.path)
    # Most links are to other entities: only a likely one is parsed.
    return path == key or (
        path.startswith(f"{key}/") and path_key(parse_address(path).entity_path) == key
    )
