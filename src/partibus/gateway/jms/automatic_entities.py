"""Entities that are created and deleted for JMS links.

Owns the orders of such links: a subscription as its consumer asks for it, and the deletion of what
was created for a link. The link decides what it needs; the gateway's `entity_orders` carries it
out, in order.
"""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from partibus.control.live import LiveNamespace
from partibus.domain.address import path_key
from partibus.domain.entity import DEFAULT_RULE_NAME, EntitySpec, SubscriptionSpec
from partibus.domain.errors import EntityNotFound, NotImplementedHere
from partibus.gateway.entity_orders import EntityOrders, OrderDone
from partibus.gateway.jms.subscription import Subscription

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection


def entity_orders(connection: "ClientConnection") -> EntityOrders:
    """Where links have entities created; a fixed namespace creates none."""
    orders = connection.gateway.entity_orders
    if orders is None:
        raise NotImplementedHere("The entities of this namespace are fixed.")
    return orders


def make_entity(
    connection: "ClientConnection",
    path: str,
    spec: EntitySpec,
    is_wanted: Callable[[], bool],
    done: OrderDone,
) -> None:
    """Create an entity for a link that is still open."""

    async def order(live: LiveNamespace) -> None:
        if is_wanted():
            await live.create(path, spec)

    entity_orders(connection).ask(order, done)


def make_subscription(
    connection: "ClientConnection",
    path: str,
    asked: Subscription,
    is_wanted: Callable[[], bool],
    done: OrderDone,
) -> None:
    """Create a subscription as a consumer asks for it; another selector creates it again."""

    async def order(live: LiveNamespace) -> None:
        record = connection.gateway.namespace.find(path)
        if record is not None and differs(record.spec, asked):
            # Another selector is another subscription (JMS 2.0, 8.3.3).
            await live.delete(path)
            record = None
        if record is None and is_wanted():
            await live.create(path, asked.spec)

    entity_orders(connection).ask(order, done)


def delete_unused(connection: "ClientConnection", path: str, done: OrderDone | None = None) -> None:
    """Delete an entity that was created for a link, unless another link uses it."""

    async def order(live: LiveNamespace) -> None:
        if not connection.gateway.subscribers[path_key(path)]:
            with contextlib.suppress(EntityNotFound):
                await live.delete(path)

    entity_orders(connection).ask(order, done or (lambda error: None))


def differs(spec: EntitySpec, asked: Subscription) -> bool:
    """Whether a subscription has another selector, by a rule that a consumer has set."""
    assert isinstance(spec, SubscriptionSpec)
    is_plain = [rule.name for rule in spec.rules] == [DEFAULT_RULE_NAME]
    return is_plain and spec.rules != asked.spec.rules
