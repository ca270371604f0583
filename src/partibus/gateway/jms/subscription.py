"""Which subscription a JMS consumer of a topic means, and its properties.

Owns the reading of such an attach: its link name, its capabilities and the durability of its source
say whether the subscription is durable and shared, and the client id says whose it is (JMS-2,
JMS-3). It decides names and properties; it must never create anything.
"""

import uuid
from typing import TYPE_CHECKING, Final

from partibus.amqp.link import Link
from partibus.amqp.terminus import Source
from partibus.domain.entity import FilterType, RuleSpec, SubscriptionSpec
from partibus.domain.limits import MINUTE_MS
from partibus.gateway.jms.selector import selector_of

if TYPE_CHECKING:
    from partibus.amqp.connection import Connection

TOPIC_CAPABILITIES: Final = ("topic", "temporary-topic")
SHARED: Final = "shared"
GLOBAL: Final = "global"
_DELIMITER: Final = "|"
IDLE_MS: Final = 5 * MINUTE_MS
"""After a lost connection its subscription is deleted after this time, the minimum (IDL-1)."""


class Subscription:
    """A subscription that a consumer asks for."""

    __slots__ = ("is_durable", "is_shared", "name", "spec")

    def __init__(self, name: str, is_durable: bool, is_shared: bool, selector: str | None) -> None:
        self.name = name
        self.is_durable = is_durable
        self.is_shared = is_shared
        rule = RuleSpec()
        if selector is not None:
            rule = RuleSpec(filter_type=FilterType.SQL, sql_expression=selector)
        idle_ms = SubscriptionSpec().auto_delete_on_idle_ms if is_durable else IDLE_MS
        self.spec = SubscriptionSpec(
            auto_delete_on_idle_ms=idle_ms,
            # A message whose property is of another type is simply not selected.
            dead_lettering_on_filter_evaluation_exceptions=False,
            rules=(rule,),
        )


def is_subscriber(source: Source | None) -> bool:
    """Whether an attach to a topic is that of a JMS consumer."""
    return source is not None and any(c in TOPIC_CAPABILITIES for c in source.capabilities)


def subscription_of(link: Link, source: Source) -> Subscription:
    """What a consumer of a topic asks for."""
    is_durable, is_shared = source.durable > 0, SHARED in source.capabilities
    selector = selector_of(source)
    if not is_durable and not is_shared:
        # It has no name, and is deleted with its link.
        return Subscription(_entity_name(uuid.uuid4().hex, "", False), False, False, selector)
    client_id = "" if GLOBAL in source.capabilities else client_id_of(link)
    base = link.name.partition(_DELIMITER)[0]
    name = _entity_name(base, client_id, is_durable)
    return Subscription(name, is_durable, is_shared, selector)


def durable_name(link: Link) -> str:
    """The durable subscription that a link without a source means, by its name alone (JMS-4)."""
    base, _, rest = link.name.partition(_DELIMITER)
    is_global = rest.startswith(GLOBAL) or GLOBAL in link.desired_capabilities
    return _entity_name(base, "" if is_global else client_id_of(link), True)


def client_id_of(link: Link) -> str:
    """The client id of a JMS connection, which is its container id."""
    connection: Connection = link.session.connection
    opened = connection.remote_open
    return "" if opened is None else opened.container_id


def _entity_name(base: str, client_id: str, is_durable: bool) -> str:
    return f"{base}${client_id}${'D' if is_durable else 'ND'}"
