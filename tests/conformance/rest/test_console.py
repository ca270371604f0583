"""The console without a browser: its modes, its sign-in, and what it leaves alone."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.management import entry
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.sas import sas_token
from support.server import ServerProcess

OWN = {"x-partibus-console": "1"}
SESSION = "/$partibus/session"


@contextlib.contextmanager
def served(directory: Path, mode: str) -> Iterator[ServerProcess]:
    config = directory / "namespace.toml"
    config.write_text('[[queue]]\nname = "orders"\n\n[[queue]]\nname = "console"\n')
    with ServerProcess(directory, config, "--memory", "--console", mode) as process:
        yield process


def ask(
    server: ServerProcess, method: str, path: str, headers: dict[str, str], body: object = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.ready.http_port, timeout=30)
    with contextlib.closing(connection):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, None if body is None else raw, headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()


def root_token() -> str:
    return sas_token("http://localhost/", policy=ROOT_POLICY, key=ROOT_KEY)


def signed_in(server: ServerProcess) -> dict[str, str]:
    status, headers, _ = ask(server, "POST", SESSION, OWN, {"token": root_token()})
    assert status == 200
    cookie = headers["set-cookie"]
    assert "httponly" in cookie.lower() and "samesite=strict" in cookie.lower()
    assert "path=/$partibus" in cookie.lower()
    return {"cookie": cookie.partition(";")[0], **OWN}


def test_read_only_looks_and_changes_nothing(tmp_path: Path) -> None:
    with served(tmp_path, "read-only") as server:
        page = signed_in(server)
        assert ask(server, "GET", "/$partibus/stores", page)[0] == 200
        assert ask(server, "GET", "/$partibus/entities/orders/messages", page)[0] == 200
        for method, path, body in (
            ("POST", "/$partibus/entities/orders/messages", {"body": "x"}),
            ("POST", "/$partibus/entities/orders/purge", {}),
            ("DELETE", "/$partibus/entities/orders", None),
            ("POST", "/$partibus/entities/orders/dead-letters/resubmit", {}),
        ):
            status, _, told = ask(server, method, path, page, body)
            assert (status, b"read-only" in told) == (403, True), path
        program = {"authorization": root_token()}
        path = "/$partibus/entities/orders/messages"
        assert ask(server, "POST", path, program, {"body": "x"})[0] == 200


def test_off_serves_no_pages(tmp_path: Path) -> None:
    with served(tmp_path, "off") as server:
        assert ask(server, "GET", "/console/", {"accept": "text/html"})[0] == 404
        assert ask(server, "GET", "/", {"accept": "text/html"})[0] == 404


def test_browsers_find_it_and_programs_find_what_they_always_found(tmp_path: Path) -> None:
    with served(tmp_path, "on") as server:
        status, headers, _ = ask(server, "GET", "/", {"accept": "text/html,*/*"})
        assert (status, headers["location"]) == (307, "/console/")
        status, _, text = ask(server, "GET", "/", {"accept": "*/*"})
        assert (status, b"/health" in text) == (404, True)
        # A queue of that name is a queue.
        token = {"authorization": root_token()}
        assert ask(server, "POST", "/console/messages", token, b"hello")[0] == 201
        assert ask(server, "DELETE", "/console/messages/head?timeout=1", token)[2] == b"hello"
        made = entry("<QueueDescription></QueueDescription>")
        assert ask(server, "PUT", "/console/2?api-version=2021-05", token, made)[0] == 201


@pytest.mark.parametrize("body", [{}, {"token": 1}, {"token": "x" * 5000}, {"token": "nonsense"}])
def test_a_bad_token_signs_nobody_in(tmp_path: Path, body: object) -> None:
    with served(tmp_path, "on") as server:
        status, headers, _ = ask(server, "POST", SESSION, OWN, body)
        assert status in (400, 401)
        assert "set-cookie" not in headers
        assert ask(server, "GET", SESSION, {"cookie": "partibus-session=%%%"})[0] == 401
