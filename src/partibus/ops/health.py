"""The HTTP application for operators: is this node alive, ready, healthy?

Owns the routes `/health` (as the vendor's emulator answers it, EMU-6), `/livez` and
`/readyz`, and the word to browsers that come to the path of AMQP over WebSocket; the
administration (`admin`) and `/metrics` (`metrics`) stand beside them. It looks at the node only
through what it is given. The server hands it to the listener, which makes it when the first HTTP
request comes.
"""

from collections.abc import Awaitable, Callable, Sequence
from email.utils import formatdate
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from partibus.listener.upgrade import WEBSOCKET_PATHS
from partibus.ops.admin import Administration, admin_routes
from partibus.ops.metrics import metrics_route
from partibus.ops.metrics_access import LOOPBACK

# True and a message when the node serves, False and the reason when it does not.
HealthProbe = Callable[[], tuple[bool, str]]

# Upgrades to AMQP never come as far as an application; what does was no upgrade.
WEBSOCKET_REFUSAL: Final = (
    "AMQP over WebSocket is served here: connect with a WebSocket and the sub-protocol"
    " AMQPWSB10, for example TransportType.AmqpOverWebsocket.\n"
)
# An answer that a proxy keeps would be a lie a minute later.
_FRESH: Final = {"cache-control": "no-store"}

_Endpoint = Callable[[Request], Awaitable[Response]]


def operations_application(
    probe: HealthProbe,
    administration: Administration | None = None,
    further: Sequence[BaseRoute] = (),
    metrics: str = LOOPBACK,
) -> Starlette:
    """The application that answers for the node behind `probe`, and lets it be administered.

    The `further` routes come last: names of entities never stand in the way of ours."""
    routes = [
        Route("/health", _health(probe)),
        Route("/livez", _alive),
        Route("/readyz", _ready(probe)),
        *(Route(path, _websocket_only) for path in WEBSOCKET_PATHS),
        *(() if administration is None else _administration(administration, metrics)),
        *further,
    ]
    application = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    # A path with a slash too many is another path; a redirect would be followed with the token.
    application.router.redirect_slashes = False
    return application


def _administration(administration: Administration, metrics: str) -> list[Route]:
    return [metrics_route(administration, metrics), *admin_routes(administration)]


def _health(probe: HealthProbe) -> _Endpoint:
    async def health(_request: Request) -> Response:
        is_healthy, message = probe()
        status = "healthy" if is_healthy else "unhealthy"
        body = {"status": status, "message": message}
        return JSONResponse(body, 200 if is_healthy else 503, _FRESH)

    return health


async def _alive(_request: Request) -> Response:
    """Answering at all is the proof: this runs on the loop that serves the messages.

    The date lets a client compare clocks, which tokens and locks depend on.
    """
    return JSONResponse({"status": "alive"}, 200, _FRESH | {"date": formatdate(usegmt=True)})


def _ready(probe: HealthProbe) -> _Endpoint:
    async def ready(_request: Request) -> Response:
        is_ready, message = probe()
        status = "ready" if is_ready else "not ready"
        reasons = [] if is_ready else [message]
        return JSONResponse(
            {"status": status, "reasons": reasons}, 200 if is_ready else 503, _FRESH
        )

    return ready


async def _websocket_only(_request: Request) -> Response:
    return PlainTextResponse(WEBSOCKET_REFUSAL, 426, {"upgrade": "websocket"})


async def _refused(request: Request, error: Exception) -> Response:
    """Say what is here, to people who came to the AMQP port with a browser."""
    assert isinstance(error, HTTPException)
    text = f"{error.status_code} {request.method} {request.url.path}: {error.detail}."
    return PlainTextResponse(
        f"{text} Partibus answers /health, /livez, /readyz and /metrics here.\n",
        error.status_code,
        error.headers,
    )
