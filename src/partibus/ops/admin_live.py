"""The live picture as server-sent events, for the console.

Owns the form of the stream:

    GET /$partibus/live              `event: frame` once a second; see docs/reference/http-json.md
    GET /$partibus/live?entity=NAME  the same, and `event: entity` with that entity's fragments
    GET /$partibus/live?cluster=true the same, and `event: cluster` with nodes and lanes

The token is checked before every frame: the stream ends with the right. Mounted by `ops.admin`.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from partibus.domain.errors import BusError
from partibus.ops.session import presented_token

if TYPE_CHECKING:
    from partibus.ops.admin import Administration

_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


def live_endpoint(node: "Administration") -> Callable[[Request], Awaitable[Response]]:
    """The stream of a node."""
    from partibus.ops.admin import error_response

    text = FrameText()

    async def endpoint(request: Request) -> Response:
        token, path = presented_token(request), request.scope["path"]
        name = request.query_params.get("entity")
        has_cluster = request.query_params.get("cluster") == "true"
        try:
            node.authorize(token, path)
            if name is not None:
                await node.entity(name)
            if has_cluster:
                await node.cluster.status()
        except BusError as error:
            return error_response(error)
        return StreamingResponse(
            _stream(node, text, token, path, name, has_cluster), 200, _HEADERS, "text/event-stream"
        )

    return endpoint


class FrameText:
    """The last frame as text: encoded once, however many readers there are."""

    def __init__(self) -> None:
        self._frame: dict[str, Any] = {}
        self._text = ""

    def of(self, frame: dict[str, Any]) -> str:
        """A frame, as an event."""
        if frame is not self._frame:
            self._frame, self._text = frame, _event("frame", frame)
        return self._text


async def _stream(
    node: "Administration",
    text: FrameText,
    token: str | None,
    path: str,
    name: str | None,
    has_cluster: bool,
) -> AsyncIterator[str]:
    try:
        async for frame in node.live_feed.frames():
            node.authorize(token, path)
            yield text.of(frame)
            if name is not None:
                yield _event("entity", await node.entity(name))
            if has_cluster:
                yield _event("cluster", await node.cluster.status())
    except BusError as error:
        yield _event("refused", {"text": error.text})


def _event(kind: str, data: dict[str, Any]) -> str:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"
