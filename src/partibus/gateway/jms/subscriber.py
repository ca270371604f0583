"""The link of a JMS consumer of a topic: a subscription that is made for it, and may go with it.

Owns the life of the subscription as far as links decide it (JMS-2 to JMS-4): it is created, or made
anew for another selector, before the attach is answered; one without durability goes with its link,
a durable one when the client ends it. From then on this is a receiving link of that subscription.
"""

import contextlib
from typing import TYPE_CHECKING

from partibus.amqp.link import Link
from partibus.amqp.terminus import encode_source
from partibus.control.live import LiveNamespace
from partibus.domain.address import parse_address, path_key, subscription_path
from partibus.domain.entity import DEFAULT_RULE_NAME, SubscriptionSpec
from partibus.domain.errors import BusError, EntityNotFound, InvalidOperation, NotImplementedHere
from partibus.domain.rights import Rights
from partibus.fragment.commands import Lane
from partibus.gateway.entity_orders import EntityOrders
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
        super().__init__(connection, link, path, (), Lane.MAIN, deletes)
        self._asked = asked
        record = connection.gateway.namespace.find(path)
        is_used = connection.gateway.subscribers[path_key(path)] > 0
        if is_used and not asked.is_shared:
            raise InvalidOperation(f"The subscription '{path}' has a consumer; it takes only one.")
        if is_used and record is not None and _differs(record.spec, asked):
            raise InvalidOperation(f"Consumers of the subscription '{path}' use another selector.")
        if record is None or _differs(record.spec, asked):
            connection.grants.require(path, Rights.MANAGE, connection.gateway.now_ms())
        self._is_counted = True
        connection.gateway.subscribers[path_key(path)] += 1

    def open(self) -> None:
        """Make the subscription what is asked for; the attach is answered then."""
        record = self._connection.gateway.namespace.find(self.path)
        if record is not None and not _differs(record.spec, self._asked):
            self._begin()
        else:
            entity_orders(self._connection).ask(self._prepare, self._prepared)

    async def _prepare(self, live: LiveNamespace) -> None:
        record = self._connection.gateway.namespace.find(self.path)
        if record is not None and _differs(record.spec, self._asked):
            # Another selector is another subscription (JMS 2.0, 8.3.3).
            await live.delete(self.path)
            record = None
        if record is None and not self._is_closed:
            await live.create(self.path, self._asked.spec)

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
        self._sources = [Source(self, gateway, f, Lane.MAIN, deletes) for f in entity.fragments]
        self._link.accept()
        super().open()
        self._connection.has_output()
        self.flow()

    def flow(self) -> None:
        """Credit that comes before the subscription is kept by the engine until then."""
        if self._sources:
            super().flow()

    def closed(self) -> None:
        """The link is gone, and what it alone kept in being."""
        super().closed()
        if not self._is_counted:
            return
        self._is_counted = False
        _leave(self._connection, self.path)
        asked = self._asked
        ends = self._link.peer_closed if asked.is_durable else not asked.is_shared
        if ends:
            delete_unused(self._connection, self.path)


class UnsubscribingLink(OutboundLink):
    """A link to a durable subscription by its name alone; its close ends the subscription."""

    def __init__(self, connection: "ClientConnection", link: Link, path: str) -> None:
        super().__init__(connection, link, path, (), Lane.MAIN, False)
        if connection.gateway.subscribers[path_key(path)] > 0:
            raise InvalidOperation(f"The subscription '{path}' has a consumer; close that first.")
        connection.grants.require(path, Rights.MANAGE, connection.gateway.now_ms())

    def open(self) -> None:
        """Show that the subscription exists."""
        self._link.accept(source=encode_source(self.path))

    def flow(self) -> None:
        """It receives nothing."""

    def closed(self) -> None:
        """The link is gone; when the client has closed it, so is the subscription."""
        super().closed()
        if self._link.peer_closed:
            delete_unused(self._connection, self.path)


def unsubscribing(connection: "ClientConnection", link: Link) -> UnsubscribingLink:
    """The link of `unsubscribe`, which names no topic (JMS-4)."""
    name = durable_name(link)
    path = connection.gateway.namespace.find_subscription(name)
    if path is None:
        raise EntityNotFound(f"There is no durable subscription '{name}'; subscribe to it first.")
    return UnsubscribingLink(connection, link, path)


def entity_orders(connection: "ClientConnection") -> EntityOrders:
    """Where links have entities made; a fixed namespace makes none."""
    orders = connection.gateway.entity_orders
    if orders is None:
        raise NotImplementedHere("The entities of this namespace are fixed.")
    return orders


def delete_unused(connection: "ClientConnection", path: str) -> None:
    """Delete an entity that was made for a link, unless another one has come."""

    async def order(live: LiveNamespace) -> None:
        if not connection.gateway.subscribers[path_key(path)]:
            with contextlib.suppress(EntityNotFound):
                await live.delete(path)

    entity_orders(connection).ask(order, lambda error: None)


def _leave(connection: "ClientConnection", path: str) -> None:
    counts, key = connection.gateway.subscribers, path_key(path)
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]


def _differs(spec: object, asked: Subscription) -> bool:
    """Whether a subscription selects otherwise, by a rule that a consumer has given it."""
    assert isinstance(spec, SubscriptionSpec)
    is_plain = [rule.name for rule in spec.rules] == [DEFAULT_RULE_NAME]
    return is_plain and spec.rules != asked.spec.rules
