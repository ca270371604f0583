"""An answer that does not end: server-sent events, passed on as they come.

Owns the form of such an answer and its end: when the source ends, when the reader leaves, and when
it reads nothing for STALL_S_MAX. It runs in the task of its request, where the cost of observers is
counted, and must never hold back more than one chunk. Used by `ops.admin.events` and
`ops.admin.live`.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from partibus.http.headers import FRESH

STALL_S_MAX: Final = 30.0


class EventStream(Response):
    """Chunks of text, until the reader or the server leaves; an empty one says that it is alive."""

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncGenerator[bytes, None]) -> None:
        super().__init__(None, 200, FRESH | {"x-accel-buffering": "no"})
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await self._pass_on(send, gone)
        finally:
            gone.cancel()
            await self._chunks.aclose()
        if not gone.done() or gone.cancelled():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self, send: Send, gone: "asyncio.Future[None]") -> None:
        async for chunk in self._chunks:
            if gone.done() or (chunk and not await _is_read(send, chunk)):
                return


async def _is_read(send: Send, chunk: bytes) -> bool:
    """Write to the connection; False when the reader no longer reads."""
    try:
        async with asyncio.timeout(STALL_S_MAX):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    except TimeoutError:
        return False
    return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
