"""The HTTP application for operators: is this node alive, ready, healthy?

Owns the routes `/health` (as the vendor's emulator answers it, EMU-6), `/livez` and
`/readyz`, and the word to clients that ask for what is not offered yet; the administration
stands beside them (`admin`). It looks at the node only through what it is given. The server
hands it to the listener, which makes it when the first HTTP request comes.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from partibus.ops.admin import Administration, admin_routes

# True and a message when the node serves, False and the reason when it does not.
HealthProbe = Callable[[], tuple[bool, str]]

# The path that every SDK uses; .NET adds the slash.
WEBSOCKET_PATHS: Final = ("/$servicebus/websocket", "/$servicebus/websocket/")
WEBSOCKET_REFUSAL: Final = (
    "This server does not offer AMQP over WebSocket. Use AMQP over TCP:"
    " TransportType.Amqp, or no transport option.\n"
)
# An answer that a proxy keeps would be a lie a minute later.
_FRESH: Final = {"cache-control": "no-store"}

_Endpoint = Callable[[Request], Awaitable[Response]]


def operations_application(
    probe: HealthProbe, administration: Administration | None = None
) -> Starlette:
    """The application that answers for the node behind `probe`, and lets it be administered."""
    routes = [
        Route("/health", _health(probe)),
        Route("/livez", _alive),
        Route("/readyz", _ready(probe)),
        *(Route(path, _no_websocket) for path in WEBSOCKET_PATHS),
        *(admin_routes(administration) if administration is not None else ()),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _refused})


def _health(probe: HealthProbe) -> _Endpoint:
    async def health(_request: Request) -> Response:
        is_healthy, message = probe()
        status = "healthy" if is_healthy else "unhealthy"
        body = {"status": status, "message": message}
        return JSONResponse(body, 200 if is_healthy else 503, _FRESH)

    return health


async def _alive(_request: Request) -> Response:
    """Answering at all is the proof: this runs on the loop that serves the messages."""
    return JSONResponse({"status": "alive"}, 200, _FRESH)


def _ready(probe: HealthProbe) -> _Endpoint:
    async def ready(_request: Request) -> Response:
        is_ready, message = probe()
        status = "ready" if is_ready else "not ready"
        reasons = [] if is_ready else [message]
        return JSONResponse(
            {"status": status, "reasons": reasons}, 200 if is_ready else 503, _FRESH
        )

    return ready


async def _no_websocket(_request: Request) -> Response:
    return PlainTextResponse(WEBSOCKET_REFUSAL, 501)


async def _refused(request: Request, error: Exception) -> Response:
    """Say what is here, to people who came to the AMQP port with a browser."""
    assert isinstance(error, HTTPException)
    text = f"{error.status_code} {request.method} {request.url.path}: {error.detail}."
    return PlainTextResponse(
        f"{text} Partibus answers /health, /livez and /readyz here.\n",
        error.status_code,
        error.headers,
    )
