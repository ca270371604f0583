"""The clients of a server over HTTP.

Owns the paths:

    GET    /$partibus/connections         ?entity=NAME&limit=100&after=ID, all optional
    GET    /$partibus/connections/ID      one, with all its links
    DELETE /$partibus/connections/ID      ?reason=TEXT: amqp:connection:forced, with the text

The node provides the content (docs/reference/connections.md). Mounted by `ops.admin`, which checks
the token.
"""

from typing import TYPE_CHECKING, Final, Protocol

from starlette.requests import Request

from partibus.domain.errors import ArgumentError

if TYPE_CHECKING:
    from partibus.ops.admin import Administration, Answer, Handler

PAGE_DEFAULT: Final = 100


class Connections(Protocol):
    """Connections, as this interface uses them."""

    async def list(self, entity: str | None, after: str | None, limit: int) -> "Answer": ...

    async def show(self, name: str) -> "Answer": ...

    async def close(self, name: str, reason: str | None) -> "Answer": ...


async def _list(node: "Administration", request: Request) -> "Answer":
    asked = request.query_params
    limit = asked.get("limit", str(PAGE_DEFAULT))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 10):
        raise ArgumentError("'limit' must be a number of connections.")
    return await node.connections.list(asked.get("entity"), asked.get("after"), int(limit))


async def _show(node: "Administration", request: Request) -> "Answer":
    return await node.connections.show(request.path_params["id"])


async def _close(node: "Administration", request: Request) -> "Answer":
    reason = request.query_params.get("reason")
    return await node.connections.close(request.path_params["id"], reason)


CONNECTION_ROUTES: "Final[tuple[tuple[str, str, Handler], ...]]" = (
    ("GET", "/connections", _list),
    ("GET", "/connections/{id}", _show),
    ("DELETE", "/connections/{id}", _close),
)
