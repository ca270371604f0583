"""The body of a send over HTTP, from its first byte until its messages are stored.

Owns the limits on reading it: its size, its time, and the memory account that it shares with all
other clients. A send for which there is no memory waits for a moment before any of its body is
read, and is then refused with 503, so that it uses no memory.
"""

from collections.abc import Callable
from typing import Final, Self

from starlette.requests import Request

from partibus.domain.errors import BusError
from partibus.gateway.memory.account import MemoryAccount, Share
from partibus.gateway.memory.room import room_came
from partibus.http.body import read_within
from partibus.rest.error_mapping import BodyTooSlow, MemoryShort

BODY_S_MAX: Final = 60.0
"""A body that takes longer is treated as stalled."""
ROOM_S_MAX: Final = 2.0
"""How long a send waits for memory: stores free it sooner, unless they are slow."""
NO_ROOM: Final = (
    "The messages that wait to be stored have reached the server's memory limit. Send again after"
    " the time in Retry-After; --memory-limit sets the limit."
)


class Body:
    """The memory of one send; a context manager that lasts until it is stored."""

    def __init__(self, memory: MemoryAccount) -> None:
        self._memory = memory
        self._share = Share(memory)

    async def __aenter__(self) -> Self:
        if not await room_came(self._memory, ROOM_S_MAX):
            raise MemoryShort(NO_ROOM)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._share.update(0, 0, 0)

    async def read(
        self, request: Request, bytes_max: int, refusal: Callable[[], BusError]
    ) -> bytes:
        """Read all of it; raises when it is larger than allowed."""
        body = await read_within(
            request,
            bytes_max=bytes_max,
            seconds_max=BODY_S_MAX,
            too_long=refusal,
            too_slow=BodyTooSlow,
            hold=self._hold,
        )
        self._share.update(len(body), 0, 0)
        return body

    def _hold(self, size: int) -> None:
        """Count received bytes; the body waits for its client, like a message in several frames."""
        if size > self._memory.unfinished_max(self._share):
            raise MemoryShort(NO_ROOM)
        self._share.update(0, size, 0)
