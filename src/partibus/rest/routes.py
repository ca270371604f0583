"""The data plane over HTTP: its paths, the forms of requests, the statuses of answers (HTP-1 to 5).

Owns every path that ends in `/messages`, `/messages/head` or `/messages/ID/LOCK`, and no other:
entities themselves belong to the management API. `plane` does the work. Mounted by the server
beside the other HTTP routes.

    POST   ENTITY/messages              send one message, or a batch          201
    POST   ENTITY/messages/head         receive and lock                      201, 204
    DELETE ENTITY/messages/head         receive and delete                    200, 204
    DELETE ENTITY/messages/ID/LOCK      complete                              200
    PUT    ENTITY/messages/ID/LOCK      unlock                                200
    POST   ENTITY/messages/ID/LOCK      renew the lock                        200
    GET    any of them                  refused, with what to do instead      405
"""

import json
import logging
import re
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from partibus.domain.errors import ArgumentError, BusError, MessagesNotRead
from partibus.gateway.namespace import too_large
from partibus.rest.batch import is_batch, read_batch
from partibus.rest.body import Body
from partibus.rest.broker_properties import SentProperties, parse_header
from partibus.rest.error_mapping import BodyTooLarge, BodyTooSlow, fault
from partibus.rest.http_date import to_http_date
from partibus.rest.message import Received, encode_message
from partibus.rest.plane import DataPlane
from partibus.rest.property_headers import read_headers, text_of, write_headers

TIMEOUT_S_MAX: Final = 60.0
"""The maximum wait of a receive, and its default."""
JSON_FACTOR: Final = 2
JSON_BYTES: Final = 64 * 1024
"""A batch in JSON may be this many times larger than its messages, and this many bytes more: base64
takes a third, names and quotes the rest."""

_SECONDS: Final = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_PLAIN_ID: Final = re.compile(r"[0-9A-Za-z._~-]{1,128}")
_FRESH: Final = [(b"Cache-Control", b"no-store")]

Header = tuple[bytes, bytes]
Handler = Callable[[DataPlane, Request], Awaitable[Response]]

log = logging.getLogger(__name__)


class _AnyCaseRoute(Route):
    """The vendor's paths are case-insensitive."""

    def __init__(self, path: str, endpoint: Callable[..., object], method: str) -> None:
        super().__init__(path, endpoint, methods=[method])
        self.path_regex = re.compile(self.path_regex.pattern, re.IGNORECASE)


def data_routes(plane: DataPlane) -> list[Route]:
    """The routes that answer for a data plane."""
    table: list[tuple[str, str, Handler]] = [
        ("POST", "/messages", _send),
        ("POST", "/messages/head", _peek_lock),
        ("DELETE", "/messages/head", _receive_and_delete),
        ("DELETE", "/messages/{message_id}/{lock}", _complete),
        ("PUT", "/messages/{message_id}/{lock}", _unlock),
        ("POST", "/messages/{message_id}/{lock}", _renew),
        ("GET", "/messages", _read),
        ("GET", "/messages/head", _read),
        ("GET", "/messages/{message_id}/{lock}", _read),
    ]
    return [
        _AnyCaseRoute("/{entity:path}" + path, _endpoint(plane, handler), method)
        for method, path, handler in table
    ]


def _endpoint(plane: DataPlane, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await handler(plane, request)
        except BusError as error:
            return fault(error)
        except ClientDisconnect:
            return fault(BodyTooSlow())
        except Exception:
            log.exception("a request of the data plane failed")
            return fault(BusError("The server failed to process this request; see its log."))

    return endpoint


# --- send -----------------------------------------------------------------------------------------


async def _send(plane: DataPlane, request: Request) -> Response:
    entity = plane.sendable(_entity(request), _token(request))
    content_type = request.headers.get("content-type")
    bytes_max = plane.message_bytes_max(entity)
    async with Body(plane.memory) as body:
        if is_batch(content_type):
            json_max = JSON_FACTOR * bytes_max + JSON_BYTES
            payloads = read_batch(await body.read(request, json_max, BodyTooLarge))
        else:
            whole = await body.read(request, bytes_max, lambda: too_large(entity))
            payloads = [_single(request, whole, content_type)]
            del whole
        await plane.send(entity, payloads)
    return _response(201, [(b"Content-Type", (content_type or "").encode("latin-1"))])


def _single(request: Request, body: bytes, content_type: str | None) -> bytes:
    headers: Sequence[Header] = request.scope["headers"]
    given = [value for name, value in headers if name == b"brokerproperties"]
    if len(given) > 1:
        raise ArgumentError("The BrokerProperties header appears twice.")
    properties = parse_header(text_of(given[0])) if given else SentProperties()
    if content_type:
        properties.content_type = content_type
    return encode_message(body, properties, read_headers(_as_sent(request)))


def _as_sent(request: Request) -> Sequence[Header]:
    """The headers with their names as received: property names are case-sensitive."""
    as_sent: Sequence[Header] | None = request.scope.get("state", {}).get("headers_as_sent")
    return request.scope["headers"] if as_sent is None else as_sent


# --- receive --------------------------------------------------------------------------------------


async def _peek_lock(plane: DataPlane, request: Request) -> Response:
    path = _entity(request)
    answer = await plane.peek_lock(path, _token(request), _timeout_s(request), _departure(request))
    if answer is None:
        return _response(204)
    received, lock = answer
    name = received.message_id
    if not _PLAIN_ID.fullmatch(name):
        # An id may contain anything; the number always makes a valid path.
        name = str(json.loads(received.broker_properties)["SequenceNumber"])
    entity = quote(path, safe="/$")
    place = f"{request.base_url}{entity}/messages/{name}/{lock}"
    return _delivery(201, received, [(b"Location", place.encode())])


async def _receive_and_delete(plane: DataPlane, request: Request) -> Response:
    path = _entity(request)
    received = await plane.receive_and_delete(
        path, _token(request), _timeout_s(request), _departure(request)
    )
    return _response(204) if received is None else _delivery(200, received, [])


def _delivery(status: int, received: Received, further: list[Header]) -> Response:
    headers = [
        *further,
        (b"BrokerProperties", received.broker_properties.encode()),
        *write_headers(received.application),
    ]
    if received.content_type is not None:
        printable = re.sub(r"[^\x20-\x7e]", "?", received.content_type)
        headers.append((b"Content-Type", printable.encode()))
    return _response(status, headers, received.body)


def _timeout_s(request: Request) -> float:
    text = request.query_params.get("timeout")
    if text is None:
        return TIMEOUT_S_MAX
    if not _SECONDS.fullmatch(text):
        raise ArgumentError(f"'timeout' must be a number of seconds, not '{text[:50]}'.")
    return min(float(text), TIMEOUT_S_MAX)


def _departure(request: Request) -> Callable[[], Awaitable[None]]:
    async def departure() -> None:
        # The body of a receive is ignored; its end means that the client has gone.
        while (await request.receive())["type"] != "http.disconnect":
            pass

    return departure


# --- settle ---------------------------------------------------------------------------------------


async def _complete(plane: DataPlane, request: Request) -> Response:
    await plane.complete(_entity(request), _token(request), _lock(request))
    return _response(200)


async def _unlock(plane: DataPlane, request: Request) -> Response:
    await plane.unlock(_entity(request), _token(request), _lock(request))
    return _response(200)


async def _renew(plane: DataPlane, request: Request) -> Response:
    until_ms = await plane.renew(_entity(request), _token(request), _lock(request))
    reported = json.dumps({"LockedUntilUtc": to_http_date(until_ms)})
    return _response(200, [(b"BrokerProperties", reported.encode())])


async def _read(plane: DataPlane, request: Request) -> Response:
    """Many people try to read a queue this way; nothing is looked up, and no right is needed."""
    response = fault(MessagesNotRead())
    response.headers["allow"] = "POST, DELETE"
    return response


# --- forms ----------------------------------------------------------------------------------------


def _entity(request: Request) -> str:
    path: str = request.path_params["entity"]
    return path.strip("/")


def _token(request: Request) -> str | None:
    return request.headers.get("authorization")


def _lock(request: Request) -> uuid.UUID:
    text: str = request.path_params["lock"]
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise ArgumentError(f"'{text[:50]}' is not a lock token; expected a UUID.") from error


def _response(status: int, headers: Sequence[Header] = (), body: bytes = b"") -> Response:
    """A response whose header names keep their case, which is that of the properties."""
    response = Response(body, status)
    response.raw_headers = [
        (name, value) for name, value in response.raw_headers if name != b"content-type"
    ]
    response.raw_headers += [*_FRESH, *[(name, value) for name, value in headers if value]]
    return response
