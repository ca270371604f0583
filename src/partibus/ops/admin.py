"""The administration over HTTP: a small JSON surface under `/$partibus`.

Owns the paths, the forms of requests and the translation of errors. The node decides what an
operator may see and do, through the `Administration` passed in; every request must have a token in
its header Authorization. Mounted by the operations application; used by the command line.

    GET    /$partibus/entities                 all entities with their totals
    GET    /$partibus/entities/NAME            fragments, totals, availability, properties
    POST   /$partibus/entities/NAME/purge      {"subqueue", "before", "limit"}, all optional
    POST, PATCH, DELETE, and /$partibus/policies: `ops.admin_namespace`
    GET    /$partibus/entities/NAME/claims     who holds messages in bulk
    POST   /$partibus/entities/NAME/claims/release   {"owner", "forget"}
    GET    /$partibus/entities/NAME/cursors    cursors and their positions
    POST   /$partibus/entities/NAME/cursors/drop     {"name"}
    .../NAME/stages, what is written in bulk and not published: `ops.admin_stages`
    GET    /$partibus/bulk/NAME                where its fragments are read and written in bulk
    GET    /$partibus/stores                   all stores with state and sizes
    GET    /$partibus/signals                  all counters, as in /metrics
    GET    /$partibus/faults                   the active faults
    POST   /$partibus/faults                   a fault, see docs/guides/faults.md
    DELETE /$partibus/faults                   end all faults, or with ?key= one of them
    /$partibus/connections, who is connected: `ops.admin_connections`
    /$partibus/events and /log, what happens: `ops.admin_events`
    /$partibus/backups, the files of a backup: `ops.admin_backup`
    /$partibus/session, the sign-in of the console: `ops.session`; /$partibus/live: `ops.admin_live`
    /$partibus/cluster, its nodes and lanes: `ops.admin_cluster`
    clock, reset and namespaces of a server for tests: `ops.admin_testing`
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from partibus.domain.error_counts import note_error
from partibus.domain.errors import ArgumentError, BusError, Unauthorized
from partibus.domain.notices import note_change, refused
from partibus.domain.quantities import moment_ms
from partibus.ops.session import presented_token, refuse_changes, session_routes

if TYPE_CHECKING:
    from partibus.ops.admin_backup import Backups
    from partibus.ops.admin_cluster import Cluster
    from partibus.ops.admin_connections import Connections
    from partibus.ops.admin_events import Events, Log
    from partibus.ops.admin_messages import MessageService
    from partibus.ops.metrics import Signals

PREFIX: Final = "/$partibus"
REQUEST_BYTES_MAX: Final = 64 * 1024
"""No request of this interface is longer."""
BODY_SECONDS_MAX: Final = 30.0
"""A body that takes longer is treated as stalled."""
_FRESH: Final = {"cache-control": "no-store"}
_RELEASE_FIELDS: Final = {"owner", "forget"}
_CHALLENGE: Final = {"www-authenticate": "SharedAccessSignature"}

Answer = dict[str, Any]


class RequestTooLong(ArgumentError):
    """The request is longer than any that makes sense here."""

    http_status = 413


class Faults(Protocol):
    """Faults on demand, as this interface uses them."""

    async def set(self, payload: object) -> Answer: ...

    async def list(self) -> Answer: ...

    async def clear(self, key: str | None = None) -> Answer: ...


class NamespaceService(Protocol):
    """Entities and policies, as this interface changes them."""

    async def create(self, body: Answer) -> Answer: ...

    async def update(self, name: str, body: Answer) -> Answer: ...

    async def delete(self, name: str) -> Answer: ...

    async def policies(self, entity: str) -> Answer: ...

    async def put_policy(self, entity: str, name: str, body: Answer) -> Answer: ...

    async def delete_policy(self, entity: str, name: str) -> Answer: ...

    async def regenerate_key(self, entity: str, name: str, body: Answer) -> Answer: ...


class Bulk(Protocol):
    """The bulk path, as this interface uses it; it checks the token itself."""

    async def entity(self, name: str, host: str, token: str | None) -> Answer: ...


class Pipelines(Protocol):
    """Claims and cursors, as this interface uses them."""

    async def claims(self, name: str) -> Answer: ...

    async def release(self, name: str, owner: str, forget: bool) -> Answer: ...

    async def cursors(self, name: str) -> Answer: ...

    async def drop(self, name: str, cursor: str) -> Answer: ...


class Stages(Protocol):
    """Writers and their stages, as this interface uses them."""

    async def stages(self, name: str) -> Answer: ...

    async def drop(self, name: str, writer: str, forget: bool) -> Answer: ...


class ClockService(Protocol):
    """The time of a test server."""

    def show(self) -> Answer: ...

    async def advance(self, body: Answer) -> Answer: ...


class Namespaces(Protocol):
    """The namespaces of a test server."""

    def list(self) -> Answer: ...

    async def create(self, body: Answer) -> Answer: ...

    async def delete(self, name: str) -> Answer: ...


class LiveFeed(Protocol):
    """The live picture, as this interface passes it on."""

    def frames(self) -> AsyncIterator[Answer]: ...


class Administration(Protocol):
    """The node, as its operators see it."""

    @property
    def console_mode(self) -> str:
        """Whether the console may change things: on, read-only or off."""
        ...

    @property
    def live_feed(self) -> LiveFeed: ...

    @property
    def messages(self) -> "MessageService": ...

    def identity(self, token: str) -> Answer:
        """What a token grants, whatever it is for; Unauthorized when it is not valid."""
        ...

    @property
    def backups(self) -> "Backups": ...

    @property
    def cluster(self) -> "Cluster": ...

    @property
    def connections(self) -> "Connections": ...

    @property
    def events(self) -> "Events": ...

    @property
    def log(self) -> "Log": ...

    @property
    def signals(self) -> "Signals": ...

    @property
    def clock(self) -> ClockService: ...

    @property
    def namespaces(self) -> Namespaces: ...

    @property
    def reset(self) -> Callable[[], Awaitable[None]]: ...

    @property
    def faults(self) -> Faults: ...

    @property
    def namespace(self) -> NamespaceService: ...

    @property
    def bulk(self) -> Bulk: ...

    @property
    def pipelines(self) -> Pipelines: ...

    @property
    def stages(self) -> Stages: ...

    def authorize(self, token: str | None, path: str) -> str:
        """The caller; raises Unauthorized unless the token is valid for this path."""
        ...

    async def entities(self) -> Answer: ...

    async def page(self, query: Mapping[str, str]) -> Answer: ...

    def defaults(self) -> Answer: ...

    async def try_rules(self, name: str, message: Answer) -> Answer: ...

    async def entity(self, name: str) -> Answer: ...

    async def stores(self) -> Answer: ...

    async def pipeline_overview(self) -> Answer: ...

    async def purge(
        self, name: str, subqueue: str, before_ms: int | None, limit: int | None
    ) -> Answer: ...


Handler = Callable[[Administration, Request], Awaitable[Answer]]


def admin_routes(node: Administration) -> list[Route]:
    """The routes that answer for a node."""
    from partibus.ops.admin_backup import begin_backup, end_backup, file_route
    from partibus.ops.admin_cluster import CLUSTER_ROUTES
    from partibus.ops.admin_connections import CONNECTION_ROUTES
    from partibus.ops.admin_events import LOG_ROUTES, events_route
    from partibus.ops.admin_live import live_endpoint
    from partibus.ops.admin_messages import message_routes
    from partibus.ops.admin_namespace import NAMESPACE_ROUTES
    from partibus.ops.admin_stages import drop_stages, list_stages
    from partibus.ops.admin_testing import TESTING_ROUTES
    from partibus.ops.openapi import openapi_route

    table: list[tuple[str, str, Handler]] = [
        *NAMESPACE_ROUTES,
        *CONNECTION_ROUTES,
        *CLUSTER_ROUTES,
        *LOG_ROUTES,
        ("GET", "/entities", _entities),
        ("GET", "/defaults", _defaults),
        ("POST", "/entities/{name:path}/rules/test", _try_rules),
        ("GET", "/entities/{name:path}/claims", _claims),
        ("POST", "/entities/{name:path}/claims/release", _release),
        ("GET", "/entities/{name:path}/cursors", _cursors),
        ("POST", "/entities/{name:path}/cursors/drop", _drop),
        ("GET", "/entities/{name:path}/stages", list_stages),
        ("POST", "/entities/{name:path}/stages/drop", drop_stages),
        ("GET", "/entities/{name:path}", _entity),
        ("POST", "/entities/{name:path}/purge", _purge),
        ("GET", "/stores", _stores),
        ("GET", "/signals", _signals),
        ("GET", "/pipelines", _pipelines),
        ("GET", "/faults", _faults),
        ("POST", "/faults", _set_fault),
        ("DELETE", "/faults", _clear_faults),
        ("POST", "/backups", begin_backup),
        ("DELETE", "/backups/{id}", end_backup),
        *TESTING_ROUTES,
    ]
    routes = [
        Route(PREFIX + path, _endpoint(node, handler), methods=[method])
        for method, path, handler in table
    ]
    messages = message_routes(node, PREFIX)
    bulk = Route(PREFIX + "/bulk/{name:path}", _bulk(node), methods=["GET"])
    live = Route(PREFIX + "/live", live_endpoint(node), methods=["GET"])
    all_routes = [*messages, *routes, bulk, live, *session_routes(node), file_route(node, PREFIX)]
    all_routes.append(events_route(node, PREFIX))
    all_routes.append(openapi_route(all_routes.copy(), PREFIX))
    # Routes are tried in turn: what consoles ask for again and again has no name in its path.
    return sorted(all_routes, key=lambda route: "{" in route.path)


def _endpoint(node: Administration, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return JSONResponse(await _answer(node, handler, request), 200, _FRESH)
        except BusError as error:
            return error_response(error)

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


def _bulk(node: Administration) -> Callable[[Request], Awaitable[Response]]:
    """For clients that send and receive, not only for operators."""

    async def endpoint(request: Request) -> Response:
        name, host = request.path_params["name"], request.url.hostname or "localhost"
        try:
            answer = await node.bulk.entity(name, host, request.headers.get("authorization"))
            return JSONResponse(answer, 200, _FRESH)
        except BusError as error:
            return error_response(error)

    return endpoint


def error_response(error: BusError) -> Response:
    """An error as JSON: the same condition and tracking id that AMQP clients receive."""
    note_error(error)
    body = {
        "error": {
            "condition": error.condition,
            "text": error.text,
            "tracking_id": error.tracking_id,
            "retryable": error.retryable,
        }
    }
    headers = _FRESH | _CHALLENGE if isinstance(error, Unauthorized) else _FRESH
    return JSONResponse(body, error.http_status, headers)


# --- what is asked ----------------------------------------------------------------------------


async def _entities(node: Administration, request: Request) -> Answer:
    if request.query_params:
        return await node.page(request.query_params)
    return await node.entities()


async def _defaults(node: Administration, request: Request) -> Answer:
    return node.defaults()


async def _try_rules(node: Administration, request: Request) -> Answer:
    return await node.try_rules(request.path_params["name"], await read_body(request))


async def _entity(node: Administration, request: Request) -> Answer:
    return await node.entity(request.path_params["name"])


async def _signals(node: Administration, request: Request) -> Answer:
    return await node.signals.gather()


async def _stores(node: Administration, request: Request) -> Answer:
    return await node.stores()


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
    return await node.purge(
        request.path_params["name"], subqueue, _moment(body.get("before")), limit
    )


async def _claims(node: Administration, request: Request) -> Answer:
    return await node.pipelines.claims(request.path_params["name"])


async def _release(node: Administration, request: Request) -> Answer:
    body = await read_body(request)
    owner, forget = body.get("owner"), body.get("forget", False)
    if not isinstance(owner, str) or not isinstance(forget, bool) or set(body) - _RELEASE_FIELDS:
        raise ArgumentError("A release needs 'owner', a string, and accepts 'forget', a boolean.")
    return await node.pipelines.release(request.path_params["name"], owner, forget)


async def _cursors(node: Administration, request: Request) -> Answer:
    return await node.pipelines.cursors(request.path_params["name"])


async def _drop(node: Administration, request: Request) -> Answer:
    body = await read_body(request)
    if set(body) != {"name"} or not isinstance(body["name"], str):
        raise ArgumentError("A drop needs 'name', the name of the cursor.")
    return await node.pipelines.drop(request.path_params["name"], body["name"])


async def _pipelines(node: Administration, request: Request) -> Answer:
    return await node.pipeline_overview()


async def _faults(node: Administration, request: Request) -> Answer:
    return await node.faults.list()


async def _set_fault(node: Administration, request: Request) -> Answer:
    return await node.faults.set(await read_body(request))


async def _clear_faults(node: Administration, request: Request) -> Answer:
    return await node.faults.clear(request.query_params.get("key"))


# --- forms --------------------------------------------------------------------------------------


async def read_body(request: Request, most: int = REQUEST_BYTES_MAX) -> dict[str, Any]:
    """The JSON object of a request; an empty body is an empty object."""
    raw = await _raw_body(request, most)
    try:
        body = json.loads(raw) if raw else {}
        # An escape may be half a surrogate pair, which cannot be stored.
        json.dumps(body, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ArgumentError("The request is nested too deep.") from error
    except ValueError as error:
        raise ArgumentError(f"The request is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise ArgumentError("The request must be a JSON object.")
    if isinstance(body.get("name"), str):
        request.state.subject = body["name"]
    return body


async def _raw_body(request: Request, most: int) -> bytes:
    """The body within its size and time limits; one declared as longer is not read."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced[:20]) > most:
        raise RequestTooLong
    raw = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.stream():
                raw += chunk
                if len(raw) > most:
                    raise RequestTooLong
    except TimeoutError as error:
        raise ArgumentError("The request took too long to arrive.") from error
    return bytes(raw)


def _moment(value: object) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time; without a zone it is UTC."""
    return None if value is None else moment_ms(str(value))
