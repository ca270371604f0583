"""The HTTP application for operators: is this node alive, ready, healthy?

Owns the routes `/health` (as the vendor's emulator answers it, EMU-6), `/livez` and
`/readyz`, what a report of the server's probes means for each, and the word to browsers that come
to the path of AMQP over WebSocket; the administration (`admin`) and `/metrics` (`metrics`) stand
beside them. It looks at the node only through what it is given. The server hands it to the
listener, which makes it when the first HTTP request comes.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from email.utils import formatdate
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from partibus.listener.upgrade import WEBSOCKET_PATHS
from partibus.ops.admin import Administration, admin_routes
from partibus.ops.metrics import metrics_route
from partibus.ops.metrics_access import LOOPBACK

DOWN: Final = "down"
STUCK: Final = "stuck"
"""The store takes entries, and makes none durable."""
UNREACHABLE: Final = "unreachable"
"""Its worker does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """What the probe of one store found."""

    state: str
    age_ms: int | None = None
    """How long ago the last probe was durable; None when none was, or no write was needed."""
    damaged: int = 0
    short: bool = False

    @property
    def writes(self) -> bool:
        """Whether messages are stored there."""
        return self.state not in (DOWN, STUCK, UNREACHABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """What the probes of a server found."""

    workers: Mapping[int, bool]
    """By number, whether it answers."""
    stores: Mapping[int, StoreHealth]
    reads_catalog: bool = True
    is_draining: bool = False

    def obstacles(self) -> Iterator[str]:
        """Why no client should be sent here."""
        if self.is_draining:
            yield "The server is stopping."
        lost = [worker for worker, answers in self.workers.items() if not answers]
        if lost:
            yield f"Worker {_list(lost)} does not answer."
        if not self.reads_catalog:
            yield "The catalog cannot be read; see the log."
        if self._faulty() and not self._writing():
            yield from self._faulty()

    def defects(self) -> Iterator[str]:
        """What is wrong while clients are served all the same."""
        if self._writing():
            yield from self._faulty()
        damaged = sum(store.damaged for store in self.stores.values())
        if damaged:
            yield f"{damaged} stored messages failed their checksum; see the log."

    def notes(self) -> Iterator[str]:
        """What an operator should do something about."""
        short = [number for number, store in self.stores.items() if store.short]
        if short:
            # It serves: an orchestrator must not restart it, which would give no room.
            yield (
                f"The disk of store {_list(short)} is almost full: sends are refused, while "
                "messages are received and settled. Free space, or receive messages."
            )

    def _writing(self) -> list[int]:
        return [number for number, store in self.stores.items() if store.writes]

    def _faulty(self) -> list[str]:
        """The stores that do not write; those of lost workers are among them."""
        down = [number for number, store in self.stores.items() if store.state == DOWN]
        stuck = [number for number, store in self.stores.items() if store.state == STUCK]
        texts = [f"Store {_list(down)} is down; it is being probed."] if down else []
        if stuck:
            texts.append(f"Store {_list(stuck)} does not make writes durable in time.")
        return texts


class HealthProbe(Protocol):
    """The server, as these routes ask it."""

    def is_supervised(self) -> bool:
        """Whether the process that replaces workers is at work; so is a server without workers."""
        ...

    async def alive(self) -> dict[int, bool]:
        """Whether the loop of each worker answers, without waiting long for it."""
        ...

    async def report(self) -> HealthReport:
        """What is found now."""
        ...


# Upgrades to AMQP never come as far as an application; what does is not an upgrade.
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
        Route("/livez", _alive(probe)),
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
    """Whether all of it is well, in one sentence."""

    async def health(_request: Request) -> Response:
        report = await probe.report()
        wrong = [*report.obstacles(), *report.defects()]
        status = "unhealthy" if wrong else "healthy"
        message = [*wrong, *report.notes(), "Service is healthy."][0]
        return JSONResponse({"status": status, "message": message}, 503 if wrong else 200, _FRESH)

    return health


def _alive(probe: HealthProbe) -> _Endpoint:
    """Whether the server can help itself: this loop turns, and a worker that does not answer is
    replaced by the process that watches them. To restart all of it would only take longer.

    The date lets a client compare clocks, which tokens and locks depend on."""

    async def alive(_request: Request) -> Response:
        workers = await probe.alive()
        is_alive = probe.is_supervised()
        body = {"status": "alive" if is_alive else "not alive", "workers": _words(workers)}
        headers = _FRESH | {"date": formatdate(usegmt=True)}
        return JSONResponse(body, 200 if is_alive else 503, headers)

    return alive


def _ready(probe: HealthProbe) -> _Endpoint:
    """Whether clients should be sent here, with everything that was looked at."""

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
        return JSONResponse(body, 503 if obstacles else 200, _FRESH)

    return ready


def _words(workers: Mapping[int, bool]) -> dict[str, str]:
    return {str(n): "answers" if ok else "does not answer" for n, ok in workers.items()}


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


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
