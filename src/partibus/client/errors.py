"""What can go wrong for a user of the client: the bus said no, or the connection ended.

Owns the client's one exception, which carries the condition that travelled on the wire.
"""

from partibus.amqp import conditions
from partibus.amqp.errors import AmqpError


class RemoteError(Exception):
    """The bus refused a request, or ended the link or the connection."""

    def __init__(self, error: AmqpError | None, context: str) -> None:
        self.condition = error.condition if error is not None else conditions.CONNECTION_FORCED
        self.description = error.description if error is not None else "ended without a reason"
        super().__init__(f"{context}: {self.condition}: {self.description}")
