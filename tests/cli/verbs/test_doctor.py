"""`partibus doctor` finds what is wrong; `partibus bench` measures what is right."""

import http.server
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cli.command import Partibus
from cli.verbs.conftest import MakeQueue
from support.sas import with_key
from support.server import ServerProcess

SECURE = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"


def findings(partibus: Partibus, code: int, *arguments: str) -> dict[str, dict[str, Any]]:
    done = partibus.try_("doctor", *arguments, "--json")
    assert done.code == code, done
    assert done.json["healthy"] is (code == 0)
    return {finding["check"]: finding for finding in done.json["checks"]}


def failing(checks: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name, finding in checks.items() if finding["status"] == "fail"]


def test_all_is_well(partibus: Partibus, queue: str) -> None:
    checks = findings(partibus, 0, queue)
    assert list(checks) == [
        "connection string",
        "name",
        "port",
        "AMQP",
        "token",
        "send",
        "receive",
        "HTTP",
        "management",
        "clock",
    ]
    assert {finding["status"] for finding in checks.values()} == {"ok"}
    text = partibus("doctor").out
    assert text.endswith("A client with this connection string can connect.\n")
    assert partibus("peek", queue).out == ""


def test_sessions_are_no_trouble(partibus: Partibus, make_queue: MakeQueue) -> None:
    assert "with sessions" in findings(partibus, 0, make_queue("--sessions"))["receive"]["text"]


def test_no_such_host(partibus: Partibus) -> None:
    checks = findings(partibus, 5, "--connection-string", f"Endpoint=sb://no.such.invalid;{SECURE}")
    assert failing(checks) == ["name"]
    assert list(checks) == ["connection string", "name"]


def test_nothing_listens(partibus: Partibus) -> None:
    checks = findings(partibus, 5, "--connection-string", f"Endpoint=sb://127.0.0.1:1;{SECURE}")
    assert failing(checks) == ["port"]
    assert "partibus serve" in checks["port"]["advice"]


def test_a_certificate_that_nobody_trusts(partibus: Partibus, bus: ServerProcess) -> None:
    text = f"Endpoint=sb://localhost:{bus.ready.amqp_port};{SECURE}"
    checks = findings(partibus, 5, "--connection-string", text)
    assert failing(checks) == ["TLS"]
    assert "--ca-file" in checks["TLS"]["advice"]
    trusted = findings(partibus, 0, "--connection-string", text, "--ca-file", str(bus.ready.ca))
    assert trusted["TLS"]["text"].startswith("TLSv1.")


def test_a_wrong_key(partibus: Partibus, bus: ServerProcess) -> None:
    text = with_key(bus.connection_string, "RootManageSharedAccessKey", "wrong")
    checks = findings(partibus, 6, "--connection-string", text)
    assert failing(checks) == ["token"]
    assert "signature" in checks["token"]["text"]


def test_rights_that_are_missing_are_warnings(
    partibus: Partibus, bus: ServerProcess, queue: str
) -> None:
    text = with_key(bus.connection_string, "Reader", "reader-key")
    checks = findings(partibus, 0, queue, "--connection-string", text)
    assert (checks["send"]["status"], checks["receive"]["status"]) == ("warn", "ok")
    assert checks["management"]["status"] == "warn"
    assert "Send right" in checks["send"]["advice"]


def test_an_entity_that_is_not_there(partibus: Partibus) -> None:
    checks = findings(partibus, 4, "no-such-queue")
    assert failing(checks) == ["send"]
    assert "partibus queue create" in checks["send"]["advice"]
    assert "-> " in partibus.try_("doctor", "no-such-queue").out


@pytest.fixture
def web() -> Iterator[int]:
    """A web server where a bus should be."""
    handler = http.server.BaseHTTPRequestHandler
    handler.log_message = lambda *_: None  # type: ignore[method-assign]
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_something_else_listens_there(partibus: Partibus, web: int) -> None:
    plain = f"Endpoint=sb://127.0.0.1:{web};{SECURE};UseDevelopmentEmulator=true"
    assert failing(findings(partibus, 5, "--connection-string", plain))[0] == "AMQP"
    secure = f"Endpoint=sb://127.0.0.1:{web};{SECURE}"
    assert failing(findings(partibus, 5, "--connection-string", secure)) == ["TLS"]


def test_a_port_that_accepts_and_is_silent_is_told(
    partibus: Partibus, monkeypatch: pytest.MonkeyPatch
) -> None:
    import partibus.client.bus as client

    monkeypatch.setattr(client, "CONNECT_SECONDS_MAX", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        text = f"Endpoint=sb://127.0.0.1:{port};{SECURE};UseDevelopmentEmulator=true"
        done = partibus.try_("send", "q", "x", "--connection-string", text)
    assert done.code == 5
    assert "did not answer in time" in done.err


def test_a_string_that_is_none(partibus: Partibus) -> None:
    assert partibus.try_("doctor", "--connection-string", "nonsense").code == 2


def test_a_bench_gets_all_back(partibus: Partibus, queue: str) -> None:
    told = partibus("bench", queue, "-n", "500", "--size", "2k", "--batch", "50", "--json").json
    assert (told["sent"], told["received"], told["bytes_each"]) == (500, 500, 2048)
    assert told["send_per_s"] > 0
    assert list(told["latency_ms"]) == ["p50", "p90", "p99", "p100"]
    assert partibus("entity", "show", queue, "--json").json["totals"]["active"] == 0
    text = partibus("bench", queue, "-n", "50").out
    assert [line.split()[0] for line in text.splitlines()] == [
        f"{queue}:",
        "sent",
        "received",
        "latency",
    ]


def test_a_bench_leaves_other_messages_alone(partibus: Partibus, queue: str) -> None:
    partibus("send", queue, "mine", "--count", "20")
    assert partibus.process("bench", queue, "-n", "10").code == 2
    partibus("bench", queue, "-n", "100", "--yes")
    totals = partibus("entity", "show", queue, "--json").json["totals"]
    assert (totals["active"], totals["locked"]) == (20, 0)
    partibus("bench", queue, "-n", "10", "--send-only")
    assert partibus("entity", "show", queue, "--json").json["totals"]["active"] == 30


def test_a_bench_that_cannot_be(partibus: Partibus, queue: str) -> None:
    assert partibus.try_("bench", "no-such-queue").code == 4
    assert partibus.try_("bench", queue, "--size", "big").code == 2
    assert partibus.try_("bench", queue, "-n", "0").code == 2
