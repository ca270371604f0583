"""The link of a JMS consumer of a topic: its subscription is created and may be deleted with it.

Owns the life of the subscription as far as links decide it (JMS-2 to JMS-4): it is created, or
created again for another selector, before the attach is answered; a non-durable one is deleted with
its link, a durable one when the client unsubscribes. After that this is a receiving link of that
subscription.
"""

from typing import TYPE_CHECKING

from partibus.amqp.link import Link
from partibus.amqp.terminus import encode_source
from partibus.domain.address import parse_address, path_key, subscription_path
from partibus.domain.errors import BusError, EntityNotFound, InvalidOperation
from partibus.domain.rights import Rights
from partibus.fragment.commands import SubQueueType
from partibus.gateway.error_mapping import amqp_error
from partibus.gateway.jms.automatic_entities import delete_unused, differs, make_subscription
from partibus.gateway.jms.consumer import ConsumerLink
from partibus.gateway.jms.subscription import Subscription, durable_name
from partibus.gateway.links.outbound import OutboundLink
from partibus.gateway.links.source import Source
from partibus.gateway.namespace import Entity, require_receivable

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection


class SubscriberLink(ConsumerLink):
    """One JMS consumer of a topic."""

    __slots__ = ("_asked", "_is_counted")

    def __init__(
        self,
        connection: "ClientConnection",
        link: Link,
        topic: Entity,
        asked: Subscription,
        deletes: bool,
    ) -> None:
        path = subscription_path(topic.record.path, asked.name)
        super().__init__(connection, link, path, (), SubQueueType.MAIN, deletes)
        self._asked = asked
        record = connection.gateway.namespace.find(path)
        is_used = connection.gateway.subscribers[path_key(path)] > 0
        if is_used and not asked.is_shared:
            raise InvalidOperation(f"The subscription '{path}' has a consumer; it allows only one.")
        if is_used and record is not None and differs(record.spec, asked):
            raise InvalidOperation(f"The subscription '{path}' is in use with another selector.")
        if record is None or differs(record.spec, asked):
            connection.grants.require(path, Rights.MANAGE, connection.gateway.now_ms())
        self._is_counted = True
        connection.gateway.subscribers[path_key(path)] += 1

    def open(self) -> None:
        """Create or change the subscription; then the attach is answered."""
        record = self._connection.gateway.namespace.find(self.path)
        if record is not None and not differs(record.spec, self._asked):
            self._begin()
        else:
            make_subscription(
                self._connection, self.path, self._asked, self._is_wanted, self._prepared
            )

    def _is_wanted(self) -> bool:
        return not self._is_closed

    def _prepared(self, error: BusError | None) -> None:
        if self._is_closed:
            return
        try:
            if error is not None:
                raise error
            self._begin()
        except BusError as refusal:
            self._connection.drop(self._link, refusal)

    def _begin(self) -> None:
        gateway = self._connection.gateway
        entity = gateway.namespace.resolve(parse_address(self.path))
        require_receivable(entity)
        deletes = self._deletes
        self._sources = [
            Source(self, gateway, f, SubQueueType.MAIN, deletes) for f in entity.fragments
        ]
        self._link.answers_detach = not self._asked.is_durable
        self._link.accept()
        super().open()
        self._connection.has_output()
        self.flow()

    def flow(self) -> None:
        """Credit that comes before the subscription exists is kept by the engine until then."""
        if self._sources:
            super().flow()

    def closed(self) -> None:
        """The link is gone: delete what only it needed."""
        super().closed()
        if not self._is_counted:
            return
        self._is_counted = False
        _leave(self._connection, self.path)
        if self._asked.is_durable:
            _end_durable(self._connection, self._link, self.path)
        elif not self._asked.is_shared:
            delete_unused(self._connection, self.path)


class UnsubscribingLink(OutboundLink):
    """A link to a durable subscription by its name alone; closing it deletes the subscription."""

    __slots__ = ()

    def __init__(self, connection: "ClientConnection", link: Link, path: str) -> None:
        super().__init__(connection, link, path, (), SubQueueType.MAIN, False)
        if connection.gateway.subscribers[path_key(path)] > 0:
            raise InvalidOperation(f"The subscription '{path}' has a consumer; close that first.")
        connection.grants.require(path, Rights.MANAGE, connection.gateway.now_ms())

    def open(self) -> None:
        """Answer that the subscription exists."""
        self._link.answers_detach = False
        self._link.accept(source=encode_source(self.path))

    def flow(self) -> None:
        """Nothing is delivered on it."""

    def closed(self) -> None:
        """The link is gone; when the client closed it, the subscription is deleted."""
        super().closed()
        _end_durable(self._connection, self._link, self.path)


def unsubscribing(connection: "ClientConnection", link: Link) -> UnsubscribingLink:
    """The link of `unsubscribe`, which names no topic (JMS-4)."""
    name = durable_name(link)
    path = connection.gateway.namespace.find_subscription(name)
    if path is None:
        raise EntityNotFound(f"There is no durable subscription '{name}'; subscribe to it first.")
    return UnsubscribingLink(connection, link, path)


def _end_durable(connection: "ClientConnection", link: Link, path: str) -> None:
    """Answer a client that leaves a durable subscription; one that closed its link is answered when
    the deletion is durable, or gets the error."""
    if link.peer_closed:

        def ended(error: BusError | None) -> None:
            link.detach(None if error is None else amqp_error(error, connection.host))
            connection.has_output()

        delete_unused(connection, path, ended)
    elif link.detach_received:
        link.detach(None, False)


def _leave(connection: "ClientConnection", path: str) -> None:
    counts, key = connection.gateway.subscribers, path_key(path)
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]
