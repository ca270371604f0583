"""Which server is meant, and what is said when it does not answer as it should."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from partibus.cli.remote import RemoteError, RemoteServer, Target, find_target
from partibus.control.sas import parse_token, verify
from partibus.server.failure import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_UNAUTHORIZED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)

KEYED = "Endpoint=sb://bus:7000;SharedAccessKeyName=Root;SharedAccessKey=ab=+/;"


def test_without_options_the_server_of_this_machine_is_meant() -> None:
    target = find_target(None, None)
    assert target.url == "http://127.0.0.1:5672"
    token = parse_token(target.authorization())
    assert (token.policy, token.resource_path) == ("RootManageSharedAccessKey", "")
    assert verify(token, "SAS_KEY_VALUE")


@pytest.mark.parametrize(
    ("connection_string", "url"),
    [
        (KEYED + "UseDevelopmentEmulator=true;", "http://bus:7000"),
        (KEYED, "https://bus:7000"),
        (KEYED.replace(":7000", ""), "https://bus:5671"),
        (KEYED.replace(":7000", "") + "UseDevelopmentEmulator=true", "http://bus:5672"),
        (KEYED.replace("bus:7000", "[::1]:7000"), "https://[::1]:7000"),
    ],
)
def test_a_connection_string_says_where_and_with_which_key(
    connection_string: str, url: str
) -> None:
    target = find_target(connection_string, None)
    assert target == Target(url, "Root", "ab=+/")
    assert verify(parse_token(target.authorization()), "ab=+/")


def test_a_url_wins_but_the_key_stays() -> None:
    assert find_target(KEYED, "10.0.0.1:5300/") == Target("http://10.0.0.1:5300", "Root", "ab=+/")
    assert find_target(None, "localhost:5300").url == "http://localhost:5300"


def test_a_ready_made_token_is_shown_as_it_is() -> None:
    text = "Endpoint=sb://bus;SharedAccessSignature=SharedAccessSignature sr=x&sig=y&se=1&skn=z"
    assert find_target(text, None).authorization() == "SharedAccessSignature sr=x&sig=y&se=1&skn=z"


@pytest.mark.parametrize(
    ("connection_string", "url", "words"),
    [
        ("SharedAccessKeyName=a;SharedAccessKey=b", None, "no Endpoint"),
        ("Endpoint=sb://bus:none;SharedAccessKeyName=a;SharedAccessKey=b", None, "no Endpoint"),
        ("Endpoint=sb://bus", None, "no SharedAccessKeyName"),
        ("nonsense", "http://bus", "no SharedAccessKeyName"),
        (KEYED, "ftp://bus", "is no URL"),
        (None, "http://elsewhere:5300", "needs a key"),
    ],
)
def test_what_cannot_be_used_is_a_usage_error(
    connection_string: str | None, url: str | None, words: str
) -> None:
    with pytest.raises(RemoteError, match=words) as caught:
        find_target(connection_string, url)
    assert caught.value.exit_code == EXIT_USAGE


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
        yield handler, RemoteServer(Target(f"http://127.0.0.1:{server.server_port}"))
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
    with pytest.raises(RemoteError, match=r"So it is\.") as caught:
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
    with pytest.raises(RemoteError, match="not as a Partibus server"):
        server.ask("GET", "/entities")


def test_a_server_that_is_not_there_is_said_to_be_so() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), Canned) as closed:
        port = closed.server_port
    with pytest.raises(RemoteError) as caught:
        RemoteServer(Target(f"http://127.0.0.1:{port}")).ask("GET", "/entities")
    assert caught.value.exit_code == EXIT_UNREACHABLE
    assert caught.value.text == (
        f"cannot reach http://127.0.0.1:{port}: Connection refused. "
        "Is the server running? Start it with: partibus serve"
    )
