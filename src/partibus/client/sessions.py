"""Receiving from a session: the attach that locks it.

Owns the session filter of a receiver link (amqp-contract 6). State and renewal are requests to the
management node. The lock ends with the link.
"""

from partibus.amqp.codec.types import Symbol, UInt
from partibus.client.connection import BusClient
from partibus.client.links import Receiver
from partibus.domain.annotations import SESSION_FILTER, TIMEOUT_PROPERTY


async def accept_session(
    client: BusClient, path: str, session_id: str | None, *, delete: bool = False, wait_ms: int
) -> Receiver:
    """Lock a session; RemoteError com.microsoft:timeout when none was free in time."""
    return await client.receiver(
        path,
        receive_and_delete=delete,
        filters={Symbol(SESSION_FILTER): session_id},
        properties={Symbol(TIMEOUT_PROPERTY): UInt(wait_ms)},
    )
