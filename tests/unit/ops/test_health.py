"""What operators and health checkers are told, asked through the application itself."""

import json

import pytest

from partibus.ops.health import HealthProbe, operations_application


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


def healthy() -> tuple[bool, str]:
    return True, "Serving 3 queues."


def unhealthy() -> tuple[bool, str]:
    return False, "Store 1 is down: disk full."


@pytest.mark.rule("EMU-6")
async def test_health_is_answered_like_the_emulator() -> None:
    status, headers, body = await ask(healthy, "/health")
    assert status == 200
    assert json.loads(body) == {"status": "healthy", "message": "Serving 3 queues."}
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    status, _, body = await ask(unhealthy, "/health")
    assert status == 503
    assert json.loads(body) == {"status": "unhealthy", "message": "Store 1 is down: disk full."}


async def test_readiness_gives_its_reasons() -> None:
    status, _, body = await ask(healthy, "/readyz")
    assert (status, json.loads(body)) == (200, {"status": "ready", "reasons": []})
    status, _, body = await ask(unhealthy, "/readyz")
    reasons = ["Store 1 is down: disk full."]
    assert (status, json.loads(body)) == (503, {"status": "not ready", "reasons": reasons})


async def test_a_sick_node_is_alive() -> None:
    status, _, body = await ask(unhealthy, "/livez")
    assert (status, json.loads(body)) == (200, {"status": "alive"})


async def test_the_probe_is_asked_every_time() -> None:
    answers = iter([healthy(), unhealthy()])
    application = [await ask(lambda: next(answers), "/health") for _ in range(2)]
    assert [status for status, _, _ in application] == [200, 503]


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
