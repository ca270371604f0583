"""What operators and health checkers are told, asked through the application itself."""

import json
from typing import Any

import pytest

from partibus.ops.health import HealthProbe, operations_application
from partibus.ops.health_report import HealthReport, StoreHealth


async def ask(
    probe: HealthProbe, path: str, method: str = "GET"
) -> tuple[int, dict[str, str], str]:
    """One request to the application; answers status, headers and body."""
    sent: list[dict[str, object]] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost")],
    }

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    await operations_application(probe)(scope, receive, send)
    start, *rest = sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    body = b"".join(part.get("body", b"") for part in rest)
    return start["status"], headers, body.decode()


class Found:
    """A server whose probes found this."""

    def __init__(self, *stores: StoreHealth, workers: int = 1, lost: int = 0, **rest: bool) -> None:
        answering = {number: number < workers - lost for number in range(workers)}
        numbered = dict(enumerate(stores or (UP,)))
        self.supervised = rest.pop("supervised", True)
        self._report = HealthReport(workers=answering, stores=numbered, **rest)

    def is_supervised(self) -> bool:
        return self.supervised

    async def alive(self) -> dict[int, bool]:
        return dict(self._report.workers)

    async def report(self) -> HealthReport:
        return self._report


UP = StoreHealth(state="up", age_ms=4)
GONE = StoreHealth(state="down")
healthy = Found()
unhealthy = Found(UP, GONE)


async def answer(probe: HealthProbe, path: str) -> tuple[int, dict[str, Any]]:
    status, _, body = await ask(probe, path)
    return status, json.loads(body)


@pytest.mark.rule("EMU-6")
async def test_health_is_answered_like_the_emulator() -> None:
    status, headers, body = await ask(healthy, "/health")
    assert status == 200
    assert json.loads(body) == {"status": "healthy", "message": "Service is healthy."}
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    status, _, body = await ask(unhealthy, "/health")
    assert status == 503
    message = "Store 1 is down; it is being probed."
    assert json.loads(body) == {"status": "unhealthy", "message": message}


@pytest.mark.parametrize(
    ("found", "status", "word", "reason"),
    [
        (healthy, 200, "ready", None),
        (Found(UP, GONE), 200, "degraded", "Store 1 is down; it is being probed."),
        (
            Found(UP, StoreHealth(state="stuck")),
            200,
            "degraded",
            "Store 1 does not make writes durable in time.",
        ),
        (Found(GONE, GONE), 503, "not ready", "Store 0, 1 is down; it is being probed."),
        (
            Found(UP, StoreHealth(state="unreachable"), workers=2, lost=1),
            503,
            "not ready",
            "Worker 1 does not answer.",
        ),
        (
            Found(UP, StoreHealth(state="unreachable")),
            200,
            "degraded",
            "Store 1 is not served by any node.",
        ),
        (
            Found(StoreHealth(state="unreachable")),
            503,
            "not ready",
            "Store 0 is not served by any node.",
        ),
        (
            Found(reads_catalog=False),
            503,
            "not ready",
            "The catalog cannot be read; see the log.",
        ),
        (Found(is_draining=True), 503, "draining", "The server is stopping."),
        (
            Found(StoreHealth(state="up", damaged=3)),
            200,
            "degraded",
            "3 stored messages failed their checksum; see the log.",
        ),
    ],
)
async def test_readiness_names_what_is_wrong(
    found: Found, status: int, word: str, reason: str | None
) -> None:
    answered, body = await answer(found, "/readyz")
    assert (answered, body["status"]) == (status, word)
    assert body["reasons"] == ([] if reason is None else [reason])


async def test_readiness_shows_what_was_looked_at() -> None:
    _, body = await answer(unhealthy, "/readyz")
    assert body["workers"] == {"0": "answers"}
    assert body["catalog"] == "readable"
    assert body["stores"]["0"] == {"state": "up", "age_ms": 4, "damaged": 0, "short": False}
    assert body["stores"]["1"]["state"] == "down"


async def test_a_full_disk_is_told_and_serves() -> None:
    found = Found(StoreHealth(state="degraded", short=True))
    status, body = await answer(found, "/health")
    assert (status, body["status"]) == (200, "healthy")
    assert "The disk of store 0 is almost full" in body["message"]
    status, body = await answer(found, "/readyz")
    assert (status, body["status"]) == (200, "degraded")


async def test_a_sick_node_is_alive() -> None:
    assert await answer(Found(GONE), "/livez") == (
        200,
        {"status": "alive", "workers": {"0": "answers"}},
    )


async def test_a_server_whose_worker_restarts_is_alive_and_not_ready() -> None:
    found = Found(UP, workers=2, lost=1)
    status, body = await answer(found, "/livez")
    assert (status, body["status"]) == (200, "alive")
    assert body["workers"] == {"0": "answers", "1": "does not answer"}
    assert (await answer(found, "/readyz"))[0] == 503


async def test_a_server_whose_supervisor_hangs_is_not_alive() -> None:
    status, body = await answer(Found(UP, workers=2, supervised=False), "/livez")
    assert (status, body["status"]) == (503, "not alive")


@pytest.mark.parametrize("path", ["/$servicebus/websocket", "/$servicebus/websocket/"])
async def test_a_browser_is_told_what_the_websocket_path_is_for(path: str) -> None:
    status, headers, body = await ask(healthy, path)
    assert (status, headers["upgrade"]) == (426, "websocket")
    assert "AMQPWSB10" in body


async def test_a_lost_visitor_is_told_what_is_here() -> None:
    status, _, body = await ask(healthy, "/")
    assert status == 404
    assert (
        body
        == "404 GET /: Not Found. Partibus answers /health, /livez, /readyz and /metrics here.\n"
    )
    status, headers, body = await ask(healthy, "/health", "POST")
    assert status == 405
    assert "GET" in headers["allow"]
    assert "POST /health" in body


async def test_head_is_answered_for_load_balancers() -> None:
    assert (await ask(healthy, "/health", "HEAD"))[0] == 200
    assert (await ask(unhealthy, "/health", "HEAD"))[0] == 503
