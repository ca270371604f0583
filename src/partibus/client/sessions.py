"""Receiving from a session: the attach that locks it, and what the bus granted.

Owns the session filter of a receiver link (amqp-contract 6) and the reading of the answer:
which session it is and until when it is locked. State and renewal are requests to the
management node. The lock ends with the link.
"""

from typing import Final

from partibus.amqp.codec.types import Symbol, UInt
from partibus.client.connection import BusClient
from partibus.client.links import Receiver

SESSION_FILTER: Final = "com.microsoft:session-filter"
_LOCKED_UNTIL: Final = "com.microsoft:locked-until-utc"
_TIMEOUT: Final = "com.microsoft:timeout"
_EPOCH_TICKS: Final = 621_355_968_000_000_000
_TICKS_PER_MS: Final = 10_000


class SessionReceiver:
    """A receiver that holds the lock of one session."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        link = receiver.usable()
        granted = link.source.filters.get(SESSION_FILTER) if link.source is not None else None
        self.session_id = str(granted)
        ticks = link.properties.get(_LOCKED_UNTIL)
        known = isinstance(ticks, int)
        self.locked_until_ms = (int(str(ticks)) - _EPOCH_TICKS) // _TICKS_PER_MS if known else None

    async def close(self) -> None:
        """Detach, which releases the session."""
        await self.receiver.close()


async def accept_session(
    client: BusClient, path: str, session_id: str | None, *, delete: bool = False, wait_ms: int
) -> SessionReceiver:
    """Lock a session; RemoteError com.microsoft:timeout when none was free in time."""
    receiver = await client.receiver(
        path,
        receive_and_delete=delete,
        filters={Symbol(SESSION_FILTER): session_id},
        properties={Symbol(_TIMEOUT): UInt(wait_ms)},
    )
    return SessionReceiver(receiver)
