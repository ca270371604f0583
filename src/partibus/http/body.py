"""The body of a request, read within limits of size and time.

Owns when reading is given up: at once for a body that is announced as too long (or not by a
number), and otherwise where it passes the limit or stalls. Used by sends over HTTP, the management
API and the JSON interface, each with its own limits and errors. It must never know what a body
means.
"""

import asyncio
from collections.abc import Callable

from starlette.requests import Request

from partibus.domain.errors import BusError


async def read_within(
    request: Request,
    *,
    bytes_max: int,
    seconds_max: float,
    too_long: Callable[[], BusError],
    too_slow: Callable[[], BusError],
    hold: Callable[[int], None] = lambda size: None,
) -> bytes:
    """All of it; `hold` gets the size so far before a part is kept, and may raise."""
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) > bytes_max:
        raise too_long()
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds_max):
            async for part in request.stream():
                size += len(part)
                if size > bytes_max:
                    raise too_long()
                hold(size)
                parts.append(part)
    except TimeoutError as error:
        raise too_slow() from error
    return b"".join(parts)
