"""The live picture as server-sent events, for the console.

Owns the form of the stream:

    GET /$partibus/live              `event: frame` once a second (docs/reference/administration.md)
    GET /$partibus/live?entity=NAME  the same, and `event: entity` with that entity's fragments
    GET /$partibus/live?cluster=true the same, and `event: cluster` with nodes and lanes

The token is checked before every frame: the stream ends with the right. Mounted by `ops.admin`.
"""

import json
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from partibus.domain.address import ADMINISTRATION
from partibus.domain.errors import BusError
from partibus.ops.admin.administration import Administration, Answer
from partibus.ops.admin.event_stream import EventStream
from partibus.ops.admin.forms import answering
from partibus.ops.admin.session import presented_token


def live_route(node: Administration) -> Route:
    """The route that streams."""
    shared = SharedText()

    @answering
    async def endpoint(request: Request) -> Response:
        token, path = presented_token(request), request.scope["path"]
        name = request.query_params.get("entity")
        has_cluster = request.query_params.get("cluster") == "true"
        node.authorize(token, path)
        if name is not None:
            await node.entity(name)
        if has_cluster:
            await node.cluster.status()
        return EventStream(_chunks(node, shared, token, path, name, has_cluster))

    return Route(ADMINISTRATION + "/live", endpoint, methods=["GET"])


class SharedText:
    """The text of the last frame and of what belongs to it: made once for all readers."""

    def __init__(self) -> None:
        self._frame: Answer = {}
        self._texts: dict[str | None, bytes] = {}

    def of_frame(self, frame: Answer) -> bytes:
        """A frame, as an event."""
        if frame is not self._frame:
            self._frame, self._texts = frame, {None: _event("frame", frame)}
        return self._texts[None]

    async def of_entity(self, node: Administration, name: str) -> bytes:
        """An entity at the time of the frame, as an event."""
        texts = self._texts
        if name not in texts:
            texts[name] = _event("entity", await node.entity(name))
        return texts[name]


async def _chunks(
    node: Administration,
    shared: SharedText,
    token: str | None,
    path: str,
    name: str | None,
    has_cluster: bool,
) -> AsyncGenerator[bytes, None]:
    try:
        async for frame in node.live_feed.frames():
            node.authorize(token, path)
            chunk = shared.of_frame(frame)
            if name is not None:
                chunk += await shared.of_entity(node, name)
            if has_cluster:
                chunk += _event("cluster", await node.cluster.status())
            yield chunk
    except BusError as error:
        yield _event("refused", {"text": error.text})


def _event(kind: str, data: Answer) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
