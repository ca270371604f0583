"""Queues and topics that the vendor's JMS library has created by using them.

Owns what its connections ask for beyond JMS: they say in their open that the client is a JMS
provider, and a queue or topic that they attach to is created when it does not exist (JMS-11). Other
clients get the error for a missing entity. Called for an attach that found none.
"""

from typing import TYPE_CHECKING, Final

from partibus.amqp.link import Link
from partibus.amqp.terminus import Source, Target
from partibus.control.live import LiveNamespace
from partibus.domain.address import parse_address
from partibus.domain.entity import EntitySpec, QueueSpec, TopicSpec
from partibus.domain.errors import BusError, EntityExists
from partibus.domain.limits import SECOND_MS
from partibus.domain.rights import Rights
from partibus.gateway.error_mapping import amqp_error
from partibus.gateway.jms.automatic_entities import entity_orders

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

_IS_PROVIDER: Final = "com.microsoft:is-client-provider"
_IDLE: Final = "com.microsoft:{}-auto-delete-on-idle-duration-in-seconds"


def create_missing(connection: "ClientConnection", link: Link) -> bool:
    """Create the entity of an attach, then attach; False when that was not asked for."""
    wanted = _wanted(link)
    if wanted is None:
        return False
    path, spec = wanted
    connection.grants.require(path, Rights.MANAGE, connection.gateway.now_ms())

    async def create(live: LiveNamespace) -> None:
        if connection.gateway.namespace.find(path) is None:
            await live.create(path, spec)

    def created(error: BusError | None) -> None:
        if link.detach_received or not link.session.active:
            return
        if error is None or isinstance(error, EntityExists):
            connection.attach(link)
        else:
            link.refuse(amqp_error(error, connection.host))
        connection.has_output()

    entity_orders(connection).ask(create, created)
    return True


def _wanted(link: Link) -> tuple[str, EntitySpec] | None:
    """The queue or topic that a provider's attach is to."""
    opened = link.session.connection.remote_open
    terminus = link.source if link.is_sender else link.target
    if opened is None or opened.properties.get(_IS_PROVIDER) is not True:
        return None
    if not isinstance(terminus, Source | Target) or not terminus.address:
        return None
    address = parse_address(terminus.address)
    if address.node != "entity" or address.sub_queue or address.subscription is not None:
        return None
    if "queue" in terminus.capabilities:
        idle_ms = _idle_ms(opened.properties, "queue", QueueSpec().auto_delete_on_idle_ms)
        return address.entity, QueueSpec(auto_delete_on_idle_ms=idle_ms)
    if "topic" in terminus.capabilities:
        idle_ms = _idle_ms(opened.properties, "topic", TopicSpec().auto_delete_on_idle_ms)
        return address.entity, TopicSpec(auto_delete_on_idle_ms=idle_ms)
    return None


def _idle_ms(properties: dict[str, object], kind: str, default_ms: int) -> int:
    seconds = properties.get(_IDLE.format(kind))
    is_given = isinstance(seconds, int) and seconds > 0
    return int(str(seconds)) * SECOND_MS if is_given else default_ms
