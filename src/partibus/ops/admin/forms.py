"""The forms of the administration over HTTP: the body of a request, and an answer or error as JSON.

Owns their limits and the translation of errors. It must never know what a request is for. Called by
`ops.admin` and the modules that it mounts, and by `/metrics` for its errors.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from partibus.domain.errors import ArgumentError, BusError
from partibus.domain.observing.error_counts import note_error
from partibus.http.body import read_within
from partibus.http.headers import FRESH, refusal_headers

ENTITY: Final = "/entities/{name:path}"
REQUEST_BYTES_MAX: Final = 64 * 1024
"""No request of this interface is longer."""
BODY_SECONDS_MAX: Final = 30.0
"""A body that takes longer is treated as stalled."""

Endpoint = Callable[[Request], Awaitable[Response]]


class RequestTooLong(ArgumentError):
    """The request is longer than any that makes sense here."""

    http_status = 413


def answering(work: Endpoint) -> Endpoint:
    """An endpoint whose errors are answered as JSON."""

    async def endpoint(request: Request) -> Response:
        try:
            return await work(request)
        except BusError as error:
            return _error_response(error)

    return endpoint


def fresh_json(answer: dict[str, Any]) -> JSONResponse:
    """An answer, which no proxy may keep."""
    return JSONResponse(answer, 200, FRESH)


def _error_response(error: BusError) -> Response:
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
    headers = refusal_headers(error)
    return JSONResponse(body, error.http_status, headers)


def name_of(request: Request) -> str:
    """The name in the path of a request."""
    return str(request.path_params["name"])


def id_of(request: Request) -> str:
    """The id in the path of a request."""
    return str(request.path_params["id"])


async def read_body(request: Request, most: int = REQUEST_BYTES_MAX) -> dict[str, Any]:
    """The JSON object of a request; an empty body is an empty object."""
    raw = await read_within(
        request,
        bytes_max=most,
        seconds_max=BODY_SECONDS_MAX,
        too_long=RequestTooLong,
        too_slow=lambda: ArgumentError("The request took too long to arrive."),
    )
    try:
        body = json.loads(raw) if raw else {}
        # An escape may be half a surrogate pair, which cannot be stored.
        json.dumps(body, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ArgumentError("The request is nested too deeply.") from error
    except ValueError as error:
        raise ArgumentError(f"The request is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise ArgumentError("The request must be a JSON object.")
    if isinstance(body.get("name"), str):
        request.state.subject = body["name"]
    return body
