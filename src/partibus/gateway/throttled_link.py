"""A sending link that a throttle may refuse.

Owns the question to the throttle before each send; everything else is the plain link's.
Made instead of one when the server runs with faults, and only then. A batch counts as one
send.
"""

from typing import TYPE_CHECKING

from partibus.amqp.events import TransferReceived
from partibus.amqp.link import Link
from partibus.domain.address import path_key
from partibus.gateway.inbound_link import InboundLink
from partibus.gateway.namespace import Entity
from partibus.gateway.trouble import Trouble, throttled

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection


class ThrottledLink(InboundLink):
    """One sending link of a client, under whatever throttle its entity has."""

    __slots__ = ("_key", "_now_ms", "_trouble")

    def __init__(
        self, connection: "ClientConnection", link: Link, entity: Entity, trouble: Trouble
    ) -> None:
        super().__init__(connection, link, entity)
        self._trouble = trouble
        self._key = path_key(entity.record.path)
        self._now_ms = connection.gateway.now_ms

    def transfer(self, event: TransferReceived) -> None:
        """Take the send if the rate allows it."""
        throttle = self._trouble.throttle_of(self._key)
        if throttle is None or throttle.admits(self._now_ms()):
            super().transfer(event)
        else:
            self.refuse(event, throttled())
