"""The sign-in of the console: a token in a cookie that only this server receives.

Owns the cookie, the protection against cross-site requests, and the read-only mode. The browser
makes the token from a policy and its key, which stay there, or takes a JSON web token; the server
checks it and returns it as a cookie that scripts cannot read and that other sites cannot use. A
request with an Authorization header comes from a program and needs no such checks
(docs/adr/0024-console.md).

    GET    /$partibus/session     who is signed in, and what they may do
    POST   /$partibus/session     {"token"}: sign in
    DELETE /$partibus/session     sign out
"""

import base64
import binascii
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from partibus.domain import conditions
from partibus.domain.address import ADMINISTRATION
from partibus.domain.errors import ArgumentError, RequestError, Unauthorized
from partibus.ops.admin.administration import Administration
from partibus.ops.admin.forms import answering, fresh_json, read_body

COOKIE: Final = "partibus-session"
MARK: Final = "x-partibus-console"
"""A header that a page of another site cannot add without a preflight request, which fails."""
COOKIE_BYTES_MAX: Final = 3800
"""The cookie size that every browser keeps, less name and attributes."""
SAFE_METHODS: Final = ("GET", "HEAD")
SESSION_PATH: Final = ADMINISTRATION + "/session"


class ForeignRequest(RequestError):
    """This request did not come from a page of this console; reload the page."""

    condition = conditions.UNAUTHORIZED_ACCESS
    http_status = 403


class ReadOnly(RequestError):
    """This console is read-only: the server was started with --console read-only."""

    condition = conditions.NOT_ALLOWED
    http_status = 403


def presented_token(request: Request) -> str | None:
    """The token of a request: from its header, or from the cookie of a page of ours."""
    token = request.headers.get("authorization")
    if token or COOKIE not in request.cookies:
        return token
    if request.method not in SAFE_METHODS:
        _require_own_page(request)
    return _unpacked(request.cookies[COOKIE])


def is_of_console(request: Request) -> bool:
    """Whether a request is authorised by the cookie, not by a header."""
    return "authorization" not in request.headers and COOKIE in request.cookies


def refuse_changes(request: Request, mode: str) -> None:
    """Raise ReadOnly when a request of the console would change something in read-only mode."""
    if mode != "read-only" or request.method in SAFE_METHODS or not is_of_console(request):
        return
    if not request.url.path.endswith("/rules/test"):  # a query, which changes nothing
        raise ReadOnly


def _require_own_page(request: Request) -> None:
    """The request must come from our own page: by the header that it adds, and by its origin."""
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    if request.headers.get(MARK) != "1":
        raise ForeignRequest
    if origin is not None and origin.partition("://")[2] != host:
        raise ForeignRequest
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise ForeignRequest


def session_routes(node: Administration) -> list[Route]:
    """The routes of signing in and out."""

    @answering
    async def show(request: Request) -> Response:
        token = presented_token(request)
        if not token:
            raise Unauthorized("You are not signed in; sign in with a policy and its key.")
        return fresh_json(node.identity(token))

    @answering
    async def sign_in(request: Request) -> Response:
        _require_own_page(request)
        token = (await read_body(request)).get("token")
        if not isinstance(token, str) or not token:
            raise ArgumentError("'token' must be a string: a shared access signature or a JWT.")
        identity = node.identity(token)
        response, packed = fresh_json(identity), _packed(token)
        _set_cookie(response, request, packed, identity.get("seconds_left"))
        return response

    @answering
    async def sign_out(request: Request) -> Response:
        _require_own_page(request)
        response = fresh_json({"signed_out": True})
        _set_cookie(response, request, "", 0)
        return response

    return [
        Route(SESSION_PATH, show, methods=["GET"]),
        Route(SESSION_PATH, sign_in, methods=["POST"]),
        Route(SESSION_PATH, sign_out, methods=["DELETE"]),
    ]


def _set_cookie(response: Response, request: Request, value: str, seconds: int | None) -> None:
    response.set_cookie(
        COOKIE,
        value,
        max_age=seconds,
        path=ADMINISTRATION,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def _packed(token: str) -> str:
    """A token in characters allowed in a cookie."""
    packed = base64.urlsafe_b64encode(token.encode()).decode()
    if len(packed) > COOKIE_BYTES_MAX:
        raise ArgumentError(
            "The token is too long for a browser to keep; use one with fewer claims, or a policy."
        )
    return packed


def _unpacked(value: str) -> str | None:
    try:
        return base64.urlsafe_b64decode(value.encode()).decode()
    except (binascii.Error, ValueError):
        return None
