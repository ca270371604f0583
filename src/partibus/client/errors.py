"""What can go wrong for a user of the client: a refusal, or the end of the connection.

Owns the client's exceptions, which carry what travelled on the wire: the condition of AMQP, or
the status of the management API.
"""

from typing import Final

from partibus.amqp.errors import AmqpError
from partibus.domain import conditions

_SESSIONS: Final = "requires sessions"


class RemoteError(Exception):
    """The bus refused a request, or ended the link or the connection."""

    def __init__(self, error: AmqpError | None, context: str) -> None:
        self.condition = error.condition if error is not None else conditions.CONNECTION_FORCED
        self.description = error.description if error is not None else "ended without a reason"
        super().__init__(f"{context}: {self.condition}: {self.description}")


class AtomError(Exception):
    """The bus refused a management request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text


def requires_sessions(text: str) -> bool:
    """Whether a refusal says that an entity requires sessions.

    The vendor has no condition for it, so every client looks for its words.
    """
    return _SESSIONS in text
