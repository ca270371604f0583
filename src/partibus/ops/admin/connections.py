"""The clients of a server over HTTP.

Owns the paths:

    GET    /$partibus/connections         ?entity=NAME&limit=100&after=ID, all optional
    GET    /$partibus/connections/ID      one, with all its links
    DELETE /$partibus/connections/ID      ?reason=TEXT: amqp:connection:forced, with the text

The node provides the content (docs/reference/connections.md). Mounted by `ops.admin`, which checks
the token.
"""

from typing import Final

from starlette.requests import Request

from partibus.domain.errors import ArgumentError
from partibus.ops.admin.administration import Administration, Answer, Routes
from partibus.ops.admin.forms import id_of

PAGE_DEFAULT: Final = 100


async def _list(node: Administration, request: Request) -> Answer:
    asked = request.query_params
    limit = asked.get("limit", str(PAGE_DEFAULT))
    if not (limit.isascii() and limit.isdigit() and len(limit) < 10):
        raise ArgumentError("'limit' must be a number of connections.")
    return await node.connections.list(asked.get("entity"), asked.get("after"), int(limit))


async def _close(node: Administration, request: Request) -> Answer:
    reason = request.query_params.get("reason")
    return await node.connections.close(id_of(request), reason)


CONNECTION_ROUTES: Final[Routes] = (
    ("GET", "/connections", _list),
    ("GET", "/connections/{id}", lambda node, request: node.connections.show(id_of(request))),
    ("DELETE", "/connections/{id}", _close),
)
