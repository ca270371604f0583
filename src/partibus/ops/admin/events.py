"""Events and the log level over HTTP.

Owns the paths and the form of the stream:

    GET    /$partibus/events      server-sent events; ?kind=store,refused keeps those kinds,
                                  ?last=100 begins with the last ones of each worker
    GET    /$partibus/log         {"level", "workers"}
    PUT    /$partibus/log         {"level": "debug"}, of all workers until they restart

A slow reader gets an event about the gap; `ops.event_stream` cuts off one that reads nothing.
Mounted by `ops.admin`.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from partibus.domain.address import ADMINISTRATION
from partibus.domain.errors import ArgumentError
from partibus.ops.admin.administration import Administration, Answer, Routes
from partibus.ops.admin.event_stream import EventStream
from partibus.ops.admin.forms import answering, read_body
from partibus.ops.admin.session import presented_token

QUIET_MAX: Final = 20
"""Rounds without an event after which a comment is sent, so that proxies keep the stream."""


async def _set_log(node: Administration, request: Request) -> Answer:
    body = await read_body(request)
    if set(body) != {"level"}:
        raise ArgumentError("The request must contain 'level', and nothing else.")
    return await node.log.set_level(body["level"])


LOG_ROUTES: Final[Routes] = (
    ("GET", "/log", lambda node, _: node.log.show()),
    ("PUT", "/log", _set_log),
)


def events_route(node: Administration) -> Route:
    """The route that streams."""

    @answering
    async def endpoint(request: Request) -> Response:
        node.authorize(presented_token(request), request.scope["path"])
        stream = node.events.stream(_last(request.query_params.get("last", "0")))
        first = await anext(stream)
        return EventStream(_chunks(stream, first, request.query_params.get("kind", "")))

    return Route(ADMINISTRATION + "/events", endpoint, methods=["GET"])


def _last(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise ArgumentError(f"'last': expected a number of events, got '{text}'.")
    return int(text)


async def _chunks(
    stream: AsyncIterator[list[dict[str, Any]]], first: list[dict[str, Any]], kinds: str
) -> AsyncGenerator[bytes, None]:
    """The events of the wanted kinds as text, and a comment now and then when there are none."""
    wanted = {kind for kind in kinds.split(",") if kind}
    quiet = 0
    try:
        yield b": connected\n\n" + _encoded(first, wanted)
        async for events in stream:
            quiet = 0 if events or quiet >= QUIET_MAX else quiet + 1
            beat = b": quiet\n\n" if quiet >= QUIET_MAX else b""
            yield beat + _encoded(events, wanted)
    finally:
        await stream.aclose()  # type: ignore[attr-defined]  # a generator


def _encoded(events: list[dict[str, Any]], kinds: set[str]) -> bytes:
    return b"".join([_event(e) for e in events if not kinds or e["kind"] in {*kinds, "gap"}])


def _event(event: dict[str, Any]) -> bytes:
    data = json.dumps(event, ensure_ascii=False, default=str)
    return f"event: {event['kind']}\ndata: {data}\n\n".encode("utf-8", "replace")
