"""Events and the log level over HTTP.

Owns the paths and the form of the stream:

    GET    /$partibus/events      server-sent events; ?kind=store,refused keeps those kinds,
                                  ?last=100 begins with the last ones of each worker
    GET    /$partibus/log         {"level", "workers"}
    PUT    /$partibus/log         {"level": "debug"}, of all workers until they restart

A reader that reads nothing for STALL_S_MAX is cut off; a slow one is told of a gap. Mounted by
`ops.admin`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from partibus.domain.errors import ArgumentError, BusError
from partibus.ops.session import presented_token

if TYPE_CHECKING:
    from partibus.ops.admin import Administration, Answer, Handler

STALL_S_MAX: Final = 30.0
QUIET_MAX: Final = 20
"""Rounds without an event after which a comment is sent, so that proxies keep the stream."""


class Events(Protocol):
    """Events, as this interface uses them."""

    def stream(self, last: int = 0) -> AsyncIterator[list[dict[str, Any]]]: ...


class Log(Protocol):
    """The log, as this interface uses it."""

    async def show(self) -> "Answer": ...

    async def set_level(self, level: object) -> "Answer": ...


async def _show_log(node: "Administration", request: Request) -> "Answer":
    return await node.log.show()


async def _set_log(node: "Administration", request: Request) -> "Answer":
    from partibus.ops.admin import read_body

    body = await read_body(request)
    if set(body) != {"level"}:
        raise ArgumentError("A change of the log needs 'level', and nothing else.")
    return await node.log.set_level(body["level"])


LOG_ROUTES: "Final[tuple[tuple[str, str, Handler], ...]]" = (
    ("GET", "/log", _show_log),
    ("PUT", "/log", _set_log),
)


def events_route(node: "Administration", prefix: str) -> Route:
    """The route that streams."""
    return Route(f"{prefix}/events", _events(node), methods=["GET"])


def _events(node: "Administration") -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        from partibus.ops.admin import error_response

        try:
            node.authorize(presented_token(request), request.scope["path"])
            stream = node.events.stream(_last(request.query_params.get("last", "0")))
            first = await anext(stream)
        except BusError as error:
            return error_response(error)
        return EventStream(stream, first, request.query_params.get("kind", ""))

    return endpoint


def _last(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise ArgumentError(f"'last': expected a number of events, got '{text}'.")
    return int(text)


class EventStream(Response):
    """Events as they happen, until the reader or the server leaves."""

    media_type = "text/event-stream"

    def __init__(
        self, stream: AsyncIterator[list[dict[str, Any]]], first: list[dict[str, Any]], kinds: str
    ) -> None:
        super().__init__(None, 200, {"cache-control": "no-store", "x-accel-buffering": "no"})
        self._stream = stream
        self._first = first
        self._kinds = {kind for kind in kinds.split(",") if kind}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await self._write(send, self._first, b": connected\n\n")
            await self._pass_on(send, gone)
        finally:
            gone.cancel()
            await self._stream.aclose()  # type: ignore[attr-defined]  # a generator
        if not gone.done() or gone.cancelled():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self, send: Send, gone: "asyncio.Future[None]") -> None:
        quiet = 0
        async for events in self._stream:
            if gone.done():
                return
            quiet = 0 if events else quiet + 1
            beat = b""
            if quiet >= QUIET_MAX:
                quiet, beat = 0, b": quiet\n\n"
            if not await self._write(send, events, beat):
                return

    async def _write(self, send: Send, events: list[dict[str, Any]], beat: bytes) -> bool:
        """Write events to the connection; False when the reader no longer reads."""
        wanted = [e for e in events if not self._kinds or e["kind"] in {*self._kinds, "gap"}]
        data = beat + b"".join(map(_encoded, wanted))
        if not data:
            return True
        try:
            async with asyncio.timeout(STALL_S_MAX):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            return False
        return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _encoded(event: dict[str, Any]) -> bytes:
    data = json.dumps(event, ensure_ascii=False, default=str)
    return f"event: {event['kind']}\ndata: {data}\n\n".encode("utf-8", "replace")
