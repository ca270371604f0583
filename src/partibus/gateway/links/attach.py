"""What a client's attach asks for, and the object that serves the link.

Owns the decision whether a link is allowed: the address, the rights, the entity, the modes and
filters. Answers the attach itself; after that the object it made owns the link. Called once per
link.
"""

from typing import TYPE_CHECKING, Final, TypeAlias

from partibus.amqp.codec.text import is_text, text_of
from partibus.amqp.link import Link
from partibus.amqp.terminus import Coordinator, Source
from partibus.domain import errors
from partibus.domain.address import Address, parse_address
from partibus.domain.annotations import BATCH_SIZE_PROPERTY
from partibus.domain.entity import EntityKind
from partibus.domain.observing.notices import refused
from partibus.domain.rights import Rights
from partibus.gateway import namespace
from partibus.gateway.cbs import CbsNode
from partibus.gateway.error_mapping import amqp_error
from partibus.gateway.jms.browser import BrowserLink
from partibus.gateway.jms.consumer import ConsumerLink, is_queue_consumer
from partibus.gateway.jms.matching import Selector
from partibus.gateway.jms.provider import create_missing
from partibus.gateway.jms.selecting import SelectingLink
from partibus.gateway.jms.selector import selector_of
from partibus.gateway.jms.subscriber import SubscriberLink, unsubscribing
from partibus.gateway.jms.subscription import is_subscriber, subscription_of
from partibus.gateway.jms.temporary import TemporaryLink
from partibus.gateway.links.inbound import InboundLink
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.links.relay import RelayLink
from partibus.gateway.links.session import SessionLink
from partibus.gateway.links.session_filter import session_filter
from partibus.gateway.management import ManagementNode
from partibus.gateway.requests import RequestLink, ResponseLink
from partibus.gateway.transactions.coordinator import CoordinatorLink, require_transactions
from partibus.message.subqueues import subqueue_of

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

LinkOwner: TypeAlias = (
    InboundLink
    | OutboundLink
    | RequestLink
    | ResponseLink
    | CoordinatorLink
    | RelayLink
    | TemporaryLink
)

COPY: Final = "copy"
"""The distribution mode of a browser [3.5.7]."""
SETTLED: Final = 1
"""snd-settle-mode of a receive-and-delete link (amqp-contract 5.1)."""
REQUEST_BYTES_MIN: Final = 1024 * 1024
"""A management request may hold several messages, each within the entity's own limit."""
TRANSFER_DESTINATION_PROPERTY: Final = "com.microsoft:transfer-destination-address"


def attach(connection: "ClientConnection", link: Link) -> None:
    """Accept a link and set its owner, or refuse it with the reason."""
    try:
        _require_room(connection)
        owner = _receiver(connection, link) if link.is_sender else _sender(connection, link)
    except errors.BusError as error:
        if not (isinstance(error, errors.EntityNotFound) and _created_soon(connection, link)):
            refused("link refused", error, link=link.name, **connection.origin.facts())
            link.refuse(amqp_error(error, connection.host))
        return
    link.context = owner
    if not isinstance(owner, ResponseLink):
        owner.open()


def _created_soon(connection: "ClientConnection", link: Link) -> bool:
    """Whether a missing entity is created for this client, whose attach is then answered later."""
    try:
        return create_missing(connection, link)
    except errors.BusError:
        return False


def _sender(connection: "ClientConnection", link: Link) -> LinkOwner:
    """A link on which the client sends."""
    target = link.target
    if isinstance(target, Coordinator):
        require_transactions(connection)
        link.accept()
        return CoordinatorLink(connection, link)
    if target is not None and target.dynamic and target.address is None:
        return TemporaryLink(connection, link, target)
    if target is not None and target.address is None:
        link.accept(max_message_size=connection.gateway.profile.message_bytes_default)
        return RelayLink(connection, link)
    address = _address(target.address if target is not None else None, "target")
    if address.node == "cbs":
        link.accept()
        return CbsNode(connection, link, address)
    if address.node == "management":
        require_any_right(connection, address)
        entity = connection.gateway.namespace.resolve(address)
        link.accept(max_message_size=max(2 * entity.message_bytes_max, REQUEST_BYTES_MIN))
        return ManagementNode(connection, link, address, entity)
    entity = _sendable(connection, address)
    via: namespace.Entity | None = None
    destination = link.properties.get(TRANSFER_DESTINATION_PROPERTY)
    if is_text(destination):
        # Send-via: the link is to the transfer entity, its messages are for another (TXN-6).
        via, entity = entity, _sendable(connection, parse_address(text_of(destination) or ""))
    bytes_max = entity.message_bytes_max
    link.accept(max_message_size=bytes_max, properties={BATCH_SIZE_PROPERTY: bytes_max})
    link.oversize_error = amqp_error(namespace.too_large(entity))
    return InboundLink(connection, link, entity, via)


def _sendable(connection: "ClientConnection", address: Address) -> namespace.Entity:
    """An entity that this client may send to."""
    connection.grants.require(address.path, Rights.SEND, connection.gateway.now_ms())
    entity = connection.gateway.namespace.resolve(address)
    namespace.require_sendable(entity, address)
    return entity


def _receiver(connection: "ClientConnection", link: Link) -> LinkOwner:
    """A link on which the client receives."""
    source = link.source
    if source is None:
        return unsubscribing(connection, link)
    address = _address(source.address, "source")
    if address.node == "cbs":
        link.accept()
        return ResponseLink(connection, link, address)
    if address.node == "management":
        require_any_right(connection, address)
        connection.gateway.namespace.resolve(address)
        link.accept()
        return ResponseLink(connection, link, address)
    connection.grants.require(address.path, Rights.LISTEN, connection.gateway.now_ms())
    entity = connection.gateway.namespace.resolve(address)
    deletes = link.snd_settle_mode == SETTLED
    if entity.record.kind is EntityKind.TOPIC and is_subscriber(source):
        asked_for = subscription_of(link, source)
        return SubscriberLink(connection, link, entity, asked_for, deletes)
    namespace.require_receiver(entity)
    connection.gateway.receivers.require_room(address)
    subqueue = subqueue_of(address)
    namespace.require_receivable(entity)
    namespace.require_no_forwarding(entity, subqueue)
    asked = session_filter(source.filters)
    if entity.is_in_sessions(subqueue):
        if asked is None:
            raise errors.InvalidOperation(
                "It is not possible for an entity that requires sessions to create a "
                "non-sessionful message receiver. Accept a session."
            )
        return SessionLink(connection, link, address.path, entity, deletes, asked)
    if asked is not None:
        raise errors.InvalidOperation(
            "A sessionful message receiver cannot be created on an entity that does not "
            "require sessions. Receive without a session."
        )
    return _unsessioned(connection, link, source, address, entity, deletes)


def _unsessioned(
    connection: "ClientConnection",
    link: Link,
    source: Source,
    address: Address,
    entity: namespace.Entity,
    deletes: bool,
) -> LinkOwner:
    """A receiver without a session, or a browser."""
    subqueue, expression = subqueue_of(address), selector_of(source)
    selector = None if expression is None else Selector(expression)
    if source.distribution_mode == COPY:
        link.accept()
        return BrowserLink(connection, link, address.path, entity.fragments, subqueue, selector)
    if selector is not None and deletes:
        raise errors.NotImplementedHere(
            "A consumer with a selector cannot receive pre-settled messages; let it acknowledge "
            "them."
        )
    link.accept()
    if selector is not None:
        return SelectingLink(connection, link, address.path, entity.fragments, subqueue, selector)
    kind = ConsumerLink if is_queue_consumer(source) else OutboundLink
    return kind(connection, link, address.path, entity.fragments, subqueue, deletes)


def _require_room(connection: "ClientConnection") -> None:
    most = connection.gateway.profile.links_per_connection_max
    if connection.link_count >= most:
        raise errors.QuotaExceeded(
            f"A connection may have at most {most} links (QTA-18); close some, or open another "
            "connection."
        )


def _address(raw: str | None, terminus: str) -> Address:
    if not raw:
        raise errors.ArgumentError(f"The link's {terminus} has no address; name a queue.")
    return parse_address(raw)


def require_any_right(connection: "ClientConnection", address: Address) -> None:
    """A management link needs some right on the entity; each operation its own."""
    now_ms = connection.gateway.now_ms()
    for right in (Rights.LISTEN, Rights.SEND):
        try:
            connection.grants.require(address.path, right, now_ms)
        except errors.Unauthorized:
            continue
        return
    connection.grants.require(address.path, Rights.MANAGE, now_ms)
