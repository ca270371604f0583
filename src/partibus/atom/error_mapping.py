"""Errors as the vendor's clients read them: a status, a code and a detail (ERR, SAS-11).

Owns the body of an error and the sub code in its text, which some clients look for. The `BusError`
says what went wrong. Called by the application.
"""

from typing import Final

from partibus.atom.markup import DECLARATION, branch, leaf
from partibus.domain import conditions
from partibus.domain.errors import BusError, RequestError
from partibus.domain.observing.error_counts import note_error

IN_PROGRESS: Final = 40901
"""Another operation on the entity has not ended; clients try again (PRP-7)."""
_CONFLICT: Final = 409
_PHRASES: Final = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Request Entity Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}


class PreconditionFailed(RequestError):
    """The condition of the request does not hold; send If-Match: * to update what exists."""

    condition = conditions.MICROSOFT_PRECONDITION_FAILED
    http_status = 412


class BodyTooLarge(RequestError):
    """The request is longer than any description is; send less."""

    http_status = 413


class MethodNotAllowed(RequestError):
    """The method is not allowed here; use GET, PUT or DELETE."""

    http_status = 405


class BodyTooSlow(BusError):
    """The request did not arrive in time; send it again."""

    condition = conditions.MICROSOFT_TIMEOUT
    http_status = 408


def sub_code(error: BusError) -> int:
    """The sub code: the error's own if it has one, otherwise that of its status."""
    code = getattr(error, "sub_code", None)
    if isinstance(code, int):
        return code
    if error.http_status == _CONFLICT and error.retryable:
        return IN_PROGRESS
    return error.http_status * 100


def fault_document(error: BusError, host: str = "") -> str:
    """The body that goes with the error's status; the text ends with a tracking id (ERR-22)."""
    note_error(error)
    phrase = _PHRASES.get(error.http_status)
    said = f"{phrase}. {error.description_at(host)}" if phrase else error.description_at(host)
    detail = f"SubCode={sub_code(error)}. {said}"
    parts = (leaf("Code", str(error.http_status)), leaf("Detail", detail))
    return DECLARATION + branch("Error", parts)
