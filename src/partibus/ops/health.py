"""The HTTP application for operators: is this node alive, ready, healthy?

Owns the routes `/health` (as the vendor's emulator answers it, EMU-6), `/livez` and `/readyz`, how
each answers a report of the server's probes, and the notice for browsers that open the path of AMQP
over WebSocket; the administration (`admin`) and `/metrics` (`metrics`) are mounted beside
them. It sees the node only through its arguments. The server passes it to the listener, which makes
it with the first HTTP request.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from email.utils import formatdate
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from partibus.http.headers import FRESH
from partibus.listener.upgrade import WEBSOCKET_PATHS
from partibus.ops.admin.administration import Administration
from partibus.ops.admin.routes import admin_routes
from partibus.ops.health_report import HealthReport
from partibus.ops.metrics import metrics_route
from partibus.ops.metrics_access import LOOPBACK


class HealthProbe(Protocol):
    """The server, as these routes query it."""

    def is_supervised(self) -> bool:
        """Whether the process that replaces workers is running; True for a server without
        workers."""
        ...

    async def alive(self) -> dict[int, bool]:
        """Whether the loop of each worker answers, without waiting long."""
        ...

    async def report(self) -> HealthReport:
        """The current findings."""
        ...


# Upgrades to AMQP never reach an application; this is not an upgrade.
WEBSOCKET_REFUSAL: Final = (
    "AMQP over WebSocket is served here: connect with a WebSocket and the sub-protocol"
    " AMQPWSB10, for example TransportType.AmqpOverWebsocket.\n"
)
# An answer cached by a proxy would be wrong a minute later.

_Endpoint = Callable[[Request], Awaitable[Response]]


def operations_application(
    probe: HealthProbe,
    administration: Administration | None = None,
    further: Sequence[BaseRoute] = (),
    metrics: str = LOOPBACK,
) -> Starlette:
    """The application that answers for the node behind `probe`, and lets it be administered.

    The `further` routes come last: entity names never shadow ours.
    """
    routes = [
        Route("/health", _health(probe)),
        Route("/livez", _alive(probe)),
        Route("/readyz", _ready(probe)),
        *(Route(path, _websocket_only) for path in WEBSOCKET_PATHS),
        *(() if administration is None else _administration(administration, metrics)),
        *further,
    ]
    application = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    # A path with an extra slash is another path; a redirect would be followed with the token.
    application.router.redirect_slashes = False
    return application


def _administration(administration: Administration, metrics: str) -> list[Route]:
    return [metrics_route(administration, metrics), *admin_routes(administration)]


def _health(probe: HealthProbe) -> _Endpoint:
    """Whether everything is healthy, in one sentence."""

    async def health(_request: Request) -> Response:
        report = await probe.report()
        wrong = [*report.obstacles(), *report.defects()]
        status = "unhealthy" if wrong else "healthy"
        message = [*wrong, *report.notes(), "Service is healthy."][0]
        return JSONResponse({"status": status, "message": message}, 503 if wrong else 200, FRESH)

    return health


def _alive(probe: HealthProbe) -> _Endpoint:
    """Whether the server can recover by itself: this loop runs, and a worker that does not answer
    is replaced by its supervisor. Restarting everything would only take longer.

    The date lets a client compare clocks, which tokens and locks depend on.
    """

    async def alive(_request: Request) -> Response:
        workers = await probe.alive()
        is_alive = probe.is_supervised()
        body = {"status": "alive" if is_alive else "not alive", "workers": _words(workers)}
        headers = FRESH | {"date": formatdate(usegmt=True)}
        return JSONResponse(body, 200 if is_alive else 503, headers)

    return alive


def _ready(probe: HealthProbe) -> _Endpoint:
    """Whether clients should connect here, with everything that was checked."""

    async def ready(_request: Request) -> Response:
        report = await probe.report()
        obstacles, others = list(report.obstacles()), [*report.defects(), *report.notes()]
        status = "not ready" if obstacles else "degraded" if others else "ready"
        body = {
            "status": "draining" if report.is_draining else status,
            "reasons": obstacles + others,
            "catalog": "readable" if report.reads_catalog else "unreadable",
            "workers": _words(report.workers),
            "stores": {str(number): asdict(store) for number, store in report.stores.items()},
        }
        return JSONResponse(body, 503 if obstacles else 200, FRESH)

    return ready


def _words(workers: Mapping[int, bool]) -> dict[str, str]:
    return {str(n): "answers" if ok else "does not answer" for n, ok in workers.items()}


async def _websocket_only(_request: Request) -> Response:
    return PlainTextResponse(WEBSOCKET_REFUSAL, 426, {"upgrade": "websocket"})


async def _refused(request: Request, error: Exception) -> Response:
    """Explain the AMQP port to people who open it with a browser."""
    assert isinstance(error, HTTPException)
    text = f"{error.status_code} {request.method} {request.url.path}: {error.detail}."
    return PlainTextResponse(
        f"{text} Partibus answers /health, /livez, /readyz and /metrics here.\n",
        error.status_code,
        error.headers,
    )
