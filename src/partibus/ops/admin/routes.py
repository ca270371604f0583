"""The administration over HTTP: a small JSON surface under `/$partibus`.

Owns the paths, and the check and audit of each request. The node decides what an operator may see
and do, through the `Administration` passed in; every request must have a token in its header
Authorization. Mounted by the operations application; used by the command line.

    GET    /$partibus/entities                 all entities with their totals
    GET    /$partibus/entities/NAME            fragments, totals, availability, properties
    POST   /$partibus/entities/NAME/purge      {"subqueue", "before", "limit"}, all optional
    POST, PATCH, DELETE, and /$partibus/policies: `ops.admin.namespace`
    .../NAME/claims, cursors and stages, what pipelines hold of it: `ops.admin.pipelines`
    GET    /$partibus/bulk/NAME                where its fragments are read and written in bulk
    GET    /$partibus/stores                   all stores with state and sizes
    GET    /$partibus/signals                  all counters, as in /metrics
    GET    /$partibus/faults                   the active faults
    POST   /$partibus/faults                   a fault, see docs/guides/faults.md
    DELETE /$partibus/faults                   end all faults, or with ?key= one of them
    /$partibus/connections, who is connected: `ops.admin.connections`
    /$partibus/events and /log, what happens: `ops.admin.events`
    /$partibus/backups, the files of a backup: `ops.admin.backup`
    /$partibus/session, the sign-in of the console: `ops.admin.session`
    /$partibus/live, the live picture: `ops.admin.live`
    /$partibus/cluster, its nodes and lanes: `ops.admin.cluster`
    clock, reset and namespaces of a server for tests: `ops.admin.testing`
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from partibus.domain.address import ADMINISTRATION
from partibus.domain.errors import ArgumentError, BusError
from partibus.domain.observing.notices import note_change, refused
from partibus.domain.quantities import moment_ms
from partibus.ops.admin.administration import Administration, Answer, Handler, Routes
from partibus.ops.admin.backup import BACKUP_ROUTES, file_route
from partibus.ops.admin.cluster import CLUSTER_ROUTES
from partibus.ops.admin.connections import CONNECTION_ROUTES
from partibus.ops.admin.events import LOG_ROUTES, events_route
from partibus.ops.admin.forms import (
    ENTITY,
    Endpoint,
    answering,
    fresh_json,
    name_of,
    read_body,
)
from partibus.ops.admin.live import live_route
from partibus.ops.admin.messages import message_routes
from partibus.ops.admin.namespace import NAMESPACE_ROUTES
from partibus.ops.admin.openapi import openapi_route
from partibus.ops.admin.pipelines import PIPELINE_ROUTES
from partibus.ops.admin.session import presented_token, refuse_changes, session_routes
from partibus.ops.admin.testing import TESTING_ROUTES


def admin_routes(node: Administration) -> list[Route]:
    """The routes that answer for a node."""
    table = (
        *NAMESPACE_ROUTES,
        *CONNECTION_ROUTES,
        *CLUSTER_ROUTES,
        *LOG_ROUTES,
        *PIPELINE_ROUTES,
        *ADMIN_ROUTES,
        *BACKUP_ROUTES,
        *TESTING_ROUTES,
    )
    routes = [
        *message_routes(node),
        *(
            Route(ADMINISTRATION + path, _checked(node, work), methods=[method])
            for method, path, work in table
        ),
        Route(ADMINISTRATION + "/bulk/{name:path}", _bulk(node), methods=["GET"]),
        live_route(node),
        *session_routes(node),
        file_route(node),
        events_route(node),
    ]
    routes.append(openapi_route(routes.copy()))
    # Routes are tried in turn: what consoles ask for again and again has no name in its path.
    return sorted(routes, key=lambda route: "{" in route.path)


def _checked(node: Administration, handler: Handler) -> Endpoint:
    @answering
    async def endpoint(request: Request) -> Response:
        return fresh_json(await _answer(node, handler, request))

    return endpoint


async def _answer(node: Administration, handler: Handler, request: Request) -> Answer:
    where = request.client.host if request.client is not None else ""
    path = request.scope["path"]
    try:
        who = node.authorize(presented_token(request), path)
        refuse_changes(request, node.console_mode)
    except BusError as error:
        refused("request refused", error, peer=where, path=path)
        raise
    if request.method == "GET":
        return await handler(node, request)
    try:
        answer = await handler(node, request)
    except BusError as error:
        note_change(who, _what(request), where, error)
        raise
    note_change(who, _what(request), where, None)
    return answer


def _what(request: Request) -> str:
    """The request without its body, which may contain keys."""
    query = f"?{request.url.query}" if request.url.query else ""
    name = getattr(request.state, "subject", None)
    return f"{request.method} {request.scope['path']}{query}" + (f" {name}" if name else "")


def _bulk(node: Administration) -> Endpoint:
    """For clients that send and receive, not only for operators."""

    @answering
    async def endpoint(request: Request) -> Response:
        host, token = request.url.hostname or "localhost", request.headers.get("authorization")
        return fresh_json(await node.bulk.entity(name_of(request), host, token))

    return endpoint


# --- what is asked ----------------------------------------------------------------------------


async def _entities(node: Administration, request: Request) -> Answer:
    if request.query_params:
        return await node.page(request.query_params)
    return await node.entities()


async def _defaults(node: Administration, request: Request) -> Answer:
    return node.defaults()


async def _try_rules(node: Administration, request: Request) -> Answer:
    return await node.try_rules(name_of(request), await read_body(request))


async def _purge(node: Administration, request: Request) -> Answer:
    body = await read_body(request)
    unknown = set(body) - {"subqueue", "before", "limit"}
    if unknown:
        raise ArgumentError(
            f"'{min(unknown)}' is unknown; a purge accepts subqueue, before and limit."
        )
    limit = body.get("limit")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
        raise ArgumentError("'limit' must be a number of messages.")
    subqueue = str(body.get("subqueue", "active"))
    return await node.purge(name_of(request), subqueue, _moment(body.get("before")), limit)


async def _set_fault(node: Administration, request: Request) -> Answer:
    return await node.faults.set(await read_body(request))


def _moment(value: object) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time; without a zone it is UTC."""
    return None if value is None else moment_ms(str(value))


ADMIN_ROUTES: Final[Routes] = (
    ("GET", "/entities", _entities),
    ("GET", "/defaults", _defaults),
    ("POST", ENTITY + "/rules/test", _try_rules),
    ("GET", ENTITY, lambda node, request: node.entity(name_of(request))),
    ("POST", ENTITY + "/purge", _purge),
    ("GET", "/stores", lambda node, _: node.stores()),
    ("GET", "/signals", lambda node, _: node.signals.gather()),
    ("GET", "/pipelines", lambda node, _: node.pipeline_overview()),
    ("GET", "/faults", lambda node, _: node.faults.list()),
    ("POST", "/faults", _set_fault),
    ("DELETE", "/faults", lambda node, request: node.faults.clear(request.query_params.get("key"))),
)
