"""The administration over HTTP, and what is said when it does not answer as it should."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from partibus.cli.failures import CommandFailed
from partibus.cli.place import find_place
from partibus.cli.remote import RemoteServer
from partibus.server.failure import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_UNAUTHORIZED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)


class Canned(http.server.BaseHTTPRequestHandler):
    """Answers every request with what the test put here."""

    status = 200
    body = b"{}"
    paths: list[str]

    def do_GET(self) -> None:
        type(self).paths.append(self.path)
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Tests are silent."""


@pytest.fixture
def canned() -> Iterator[tuple[type[Canned], RemoteServer]]:
    handler = type("Handler", (Canned,), {"paths": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield handler, RemoteServer(find_place(None, f"127.0.0.1:{server.server_port}"))
        server.shutdown()
        thread.join()


def test_names_are_quoted(canned: tuple[type[Canned], RemoteServer]) -> None:
    handler, server = canned
    assert server.ask("GET", "/entities/a b/c?d") == {}
    assert handler.paths == ["/$partibus/entities/a%20b/c%3Fd"]


@pytest.mark.parametrize(
    ("status", "condition", "exit_code"),
    [
        (404, "amqp:not-found", EXIT_NOT_FOUND),
        (401, "amqp:unauthorized-access", EXIT_UNAUTHORIZED),
        (400, "com.microsoft:argument-error", EXIT_USAGE),
        (400, "amqp:not-allowed", EXIT_FAILED),
        (503, "com.microsoft:server-busy", EXIT_FAILED),
    ],
)
def test_an_error_of_the_server_has_its_exit_code(
    canned: tuple[type[Canned], RemoteServer], status: int, condition: str, exit_code: int
) -> None:
    handler, server = canned
    handler.status = status
    handler.body = b'{"error": {"condition": "%s", "text": "So it is."}}' % condition.encode()
    with pytest.raises(CommandFailed, match=r"So it is\.") as caught:
        server.ask("GET", "/entities")
    assert caught.value.exit_code == exit_code


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, b"[]"), (404, b"<html>"), (404, b'"text"'), (404, b'{"error": "a"}')],
)
def test_something_else_on_that_port_is_recognised(
    canned: tuple[type[Canned], RemoteServer], status: int, body: bytes
) -> None:
    handler, server = canned
    handler.status, handler.body = status, body
    with pytest.raises(CommandFailed, match="not like a Partibus server"):
        server.ask("GET", "/entities")


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Canned) as closed:
        port = closed.server_port
    with pytest.raises(CommandFailed) as caught:
        RemoteServer(find_place(None, f"http://127.0.0.1:{port}")).ask("GET", "/entities")
    assert caught.value.exit_code == EXIT_UNREACHABLE
    assert caught.value.text == (
        f"cannot reach http://127.0.0.1:{port}: the connection was refused. "
        "Is the server running? Start it with: partibus serve"
    )
