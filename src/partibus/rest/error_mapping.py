"""Errors as the vendor's REST interface reports them: a status code and a small XML document.

Owns the one translation from the taxonomy of errors to HTTP for the data plane (HTP-4). It differs
from the administration's in two ways: a missing entity is 410 here, and 404 is for messages and
their locks.
"""

from typing import Final
from xml.sax.saxutils import escape

from starlette.responses import Response

from partibus.domain import errors
from partibus.domain.observing.error_counts import note_error
from partibus.domain.observing.notices import refused
from partibus.http.headers import refusal_headers

RETRY_AFTER_S: Final = 2
"""As long as the vendor asks throttled clients to wait (THR-1)."""

_STATUSES: Final[dict[type[errors.BusError], int]] = {
    errors.EntityNotFound: 410,
    errors.MessageLockLost: 404,
    errors.MessageTooLarge: 403,
    errors.ServerBusy: 429,
}


class BodyTooLarge(errors.BusError):
    """The request is larger than any that could be accepted; send less at once."""

    http_status = 413
    retryable = False


class BodyTooSlow(errors.BusError):
    """The request did not arrive in time; send it again."""

    http_status = 408


class MemoryShort(errors.BusError):
    """There is no memory for the message now; send it again."""

    http_status = 503


class Stopping(errors.BusError):
    """The server is stopping; reconnect."""

    http_status = 503


def status_of(error: errors.BusError) -> int:
    """The status that the vendor documents for an error."""
    return _STATUSES.get(type(error), error.http_status)


def fault(error: errors.BusError) -> Response:
    """The answer to a request that failed."""
    note_error(error)
    status = status_of(error)
    headers = refusal_headers(error)
    if isinstance(error, errors.Unauthorized):
        refused("request refused", error)
    if status in (429, 503):
        headers = headers | {"retry-after": str(RETRY_AFTER_S)}
    text = f"<Error><Code>{status}</Code><Detail>{escape(error.description)}</Detail></Error>"
    # A refusal may quote a client's text, which may contain characters without a UTF-8 form.
    body = text.encode("utf-8", "replace")
    return Response(body, status, headers, "application/xml; charset=utf-8")
