"""The management API as an application: requests in, Atom documents or errors out.

Owns the order of steps: path, rights, body, work; and the limits of a request (its length, its
time, its parameters). It keeps no state between requests. Mounted beside the operations application
by the server.
"""

import logging
import re
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from partibus.atom import error_mapping
from partibus.atom.access import AUTHORIZATION, Permission
from partibus.atom.catalog_view import CatalogView
from partibus.atom.counts import CountsSource
from partibus.atom.documents import Caller, Page, feed_document
from partibus.atom.operations import Operations
from partibus.atom.reading import read_entry
from partibus.atom.resource import LISTS, Resource, parse_resource
from partibus.control.access.access import AccessControl
from partibus.control.catalog.catalog import Catalog
from partibus.control.live import LiveNamespace
from partibus.domain.address import entity_of_messages
from partibus.domain.clock import Clock
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    EntityNotFound,
    MessagesNotRead,
    Unauthorized,
)
from partibus.domain.observing.notices import audited, refused
from partibus.http.body import read_within
from partibus.http.headers import FRESH, refusal_headers

BODY_BYTES_MAX: Final = 1024 * 1024
"""A description with every property at its maximum is far smaller."""
BODY_SECONDS_MAX: Final = 30.0
PAGE_LENGTH_MAX: Final = 100
"""The page size of the vendor; further pages are linked."""
SKIP_MAX: Final = 2**31

_ENTRY: Final = "application/atom+xml;type=entry;charset=utf-8"
_FEED: Final = "application/atom+xml;type=feed;charset=utf-8"
_FAULT: Final = "application/xml; charset=utf-8"
_CLOSE: Final = {"connection": "close"}
_HOST: Final = re.compile(
    r"[A-Za-z0-9._~-]{1,255}(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?"
)
_LOCKED_MESSAGE: Final = re.compile(r"/messages/(?:head|[^/]+/[0-9a-f-]{36})$", re.IGNORECASE)
"""Of a message that is received or locked."""
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_KNOWN_OPTIONS: Final = ("$skip", "$top")

log = logging.getLogger(__name__)


class ManagementApplication:
    """The application of one node."""

    def __init__(
        self,
        catalog: Catalog,
        live: LiveNamespace,
        access: AccessControl,
        counts: CountsSource,
        clock: Clock,
    ) -> None:
        self._access = access
        self._clock = clock
        self._view = CatalogView(catalog, counts, clock)
        self._operations = Operations(catalog, live, self._view)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI hands it over."""
        assert scope["type"] == "http"
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except BusError as error:
            return _fault(error, request)
        except ClientDisconnect:
            return _fault(error_mapping.BodyTooSlow(), request)
        except Exception:
            log.exception("a management request failed: %s", request.method)
            failure = BusError("The server failed to process this request; see its log.")
            return _fault(failure, request)

    async def _answer(self, request: Request) -> Response:
        if _is_root(request.scope):
            body = feed_document("", (), Page(0, 0), False, _caller(request), self._clock.now_ms())
            return Response(body, 200, FRESH, _FEED)
        resource = parse_resource(request.scope["raw_path"])
        permission = Permission(self._access, self._clock, request.headers)
        permission.require(resource.path)
        caller = _caller(request)
        if request.method == "GET":
            return await self._get(resource, request, caller)
        if request.method not in ("PUT", "DELETE"):
            raise error_mapping.MethodNotAllowed
        with audited(permission.who, f"{request.method} {resource.path}", _peer(request)):
            if request.method == "PUT":
                return await self._put(resource, request, permission, caller)
            await self._operations.delete(resource)
            return Response(status_code=200, headers=FRESH)

    async def _get(self, resource: Resource, request: Request, caller: Caller) -> Response:
        if resource.kind in LISTS:
            body = await self._view.list(resource, _page(request), caller)
            return Response(body, 200, FRESH, _FEED)
        try:
            body = await self._view.show(resource, caller)
        except EntityNotFound as error:
            if entity_of_messages(resource.path) is None:
                raise
            # The path of a queue's messages, not of an entity with such a name.
            raise MessagesNotRead from error
        return Response(body, 200, FRESH, _ENTRY)

    async def _put(
        self, resource: Resource, request: Request, permission: Permission, caller: Caller
    ) -> Response:
        is_update = _is_update(request)
        description = read_entry(await _body(request))
        body = await self._operations.put(resource, description, is_update, permission, caller)
        return Response(body, 200 if is_update else 201, FRESH, _ENTRY)


def _peer(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _fault(error: BusError, request: Request) -> Response:
    if isinstance(error, Unauthorized):
        refused("request refused", error, peer=_peer(request), path=request.scope["path"])
    headers = refusal_headers(error)
    if isinstance(error, error_mapping.BodyTooSlow) or _has_long_body(request):
        headers = headers | _CLOSE  # unread input will not be read
    host = request.headers.get("host", "")
    body = error_mapping.fault_document(error, host if _HOST.fullmatch(host) else "")
    return Response(body, error.http_status, headers, _FAULT)


def _has_long_body(request: Request) -> bool:
    """Whether the body exceeds the limit, or its length is not declared."""
    if "transfer-encoding" in request.headers:
        return True
    length = request.headers.get("content-length", "0")
    return not length.isdecimal() or int(length[:20]) > BODY_BYTES_MAX


def _caller(request: Request) -> Caller:
    host = request.headers.get("host", "localhost")
    if not _HOST.fullmatch(host):
        raise ArgumentError("The Host header is not a valid host name.")
    version = request.query_params.get("api-version", "")
    path_end = "/" if request.scope["raw_path"].endswith(b"/") else ""
    return Caller(request.scope["scheme"], host, version, path_end)


def _is_update(request: Request) -> bool:
    """A PUT with `If-Match: *` updates an existing entity, one without creates it."""
    match, none_match = request.headers.get("if-match"), request.headers.get("if-none-match")
    if match not in (None, "*") or none_match not in (None, "*"):
        raise error_mapping.PreconditionFailed
    return match is not None


def _page(request: Request) -> Page:
    for name in request.query_params:
        # An unknown option could change the meaning of the answer.
        if name.startswith("$") and name.lower() not in _KNOWN_OPTIONS:
            raise ArgumentError(f"The query option '{name}' is not supported; use $skip or $top.")
    top = _number(request, "$top", PAGE_LENGTH_MAX)
    if top == 0:
        raise ArgumentError("$top must be at least 1.")
    return Page(min(_number(request, "$skip", 0), SKIP_MAX), min(top, PAGE_LENGTH_MAX))


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise ArgumentError(f"{name}: expected a number, 0 or more.")
    return int(text)


async def _body(request: Request) -> bytes:
    """The whole body; given up as soon as it is too long or takes too long."""
    return await read_within(
        request,
        bytes_max=BODY_BYTES_MAX,
        seconds_max=BODY_SECONDS_MAX,
        too_long=error_mapping.BodyTooLarge,
        too_slow=error_mapping.BodyTooSlow,
    )


def is_management(scope: Scope) -> bool:
    """Whether a request is for this application: its clients always name an API version.

    So do some that send and receive, but their paths differ.
    """
    if scope["type"] != "http":
        return False
    if b"api-version=" not in scope["query_string"].lower():
        return _is_root(scope)
    is_send = scope["method"] == "POST" and scope["path"].lower().endswith("/messages")
    return not is_send and _LOCKED_MESSAGE.search(scope["path"]) is None


def _is_root(scope: Scope) -> bool:
    """Whether a client with a token requests the namespace itself.

    The service answers with an empty feed.
    """
    if scope["method"] != "GET" or scope["path"].strip("/") or scope["query_string"]:
        return False
    return any(name == AUTHORIZATION.encode() for name, _ in scope["headers"])


def with_management(management: ASGIApp, other: ASGIApp) -> ASGIApp:
    """Both applications as one: requests that name an API version go to the management."""

    async def fork(scope: Scope, receive: Receive, send: Send) -> None:
        await (management if is_management(scope) else other)(scope, receive, send)

    return fork
