"""Temporary queues and topics: created by an attach and deleted with their link.

Owns a link whose target asks for a dynamic node [3.5.4]. The entity is created before the attach is
answered, with its name as the target's address, and deleted when the link or its connection ends;
what a crashed server leaves behind is deleted when it has been idle (JMS-6).
"""

import uuid
from typing import TYPE_CHECKING, Final

from partibus.amqp.link import Link
from partibus.amqp.terminus import Target, target_with_address
from partibus.domain.entity import EntitySpec, QueueSpec, TopicSpec
from partibus.domain.errors import BusError
from partibus.domain.limits import MINUTE_MS
from partibus.domain.rights import Rights
from partibus.gateway.jms.automatic_entities import delete_unused, make_entity

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

_TOPIC: Final = "temporary-topic"
_IDLE_MS: Final = 24 * 60 * MINUTE_MS
"""Longer than a program waits for a reply; a quiet temporary queue must not be deleted before."""


class TemporaryLink:
    """The link that a temporary queue or topic belongs to."""

    __slots__ = ("_connection", "_is_closed", "_link", "_spec", "path")

    def __init__(self, connection: "ClientConnection", link: Link, target: Target) -> None:
        self._connection = connection
        self._link = link
        is_topic = _TOPIC in target.capabilities
        kind = "topic" if is_topic else "queue"
        self.path = f"temporary-{kind}-{uuid.uuid4().hex}"
        self._spec: EntitySpec = (
            TopicSpec(auto_delete_on_idle_ms=_IDLE_MS)
            if is_topic
            else QueueSpec(auto_delete_on_idle_ms=_IDLE_MS)
        )
        self._is_closed = False
        connection.grants.require(self.path, Rights.MANAGE, connection.gateway.now_ms())

    def open(self) -> None:
        """Create the entity; then the attach is answered."""
        make_entity(self._connection, self.path, self._spec, self._is_wanted, self._created)

    def _is_wanted(self) -> bool:
        return not self._is_closed

    def _created(self, error: BusError | None) -> None:
        if self._is_closed:
            return
        if error is not None:
            self._connection.drop(self._link, error)
            return
        self._link.accept(target=target_with_address(self._link.target_raw, self.path))
        self._connection.has_output()

    def closed(self) -> None:
        """The link is gone: delete the entity."""
        self._is_closed = True
        delete_unused(self._connection, self.path)
