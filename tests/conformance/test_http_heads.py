"""Heads of HTTP requests that no honest client sends: two lengths, and far too many bytes."""

import socket

import pytest

from support.server import ServerProcess

TIMEOUT_SECONDS = 60


def answer(server: ServerProcess, sent: bytes) -> bytes:
    """All that the server says before it closes the connection."""
    place = ("127.0.0.1", server.ready.http_port)
    with socket.create_connection(place, timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(sent)
        said = b""
        while chunk := connection.recv(65536):
            said += chunk
    return said


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"transfer-encoding: CHUNKED\r\ncontent-length: 0\r\n",
    ],
)
def test_two_lengths_are_refused_and_the_connection_is_closed(
    server: ServerProcess, lengths: bytes
) -> None:
    body = b"0\r\n\r\n"
    hidden = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /q/messages HTTP/1.1\r\nHost: x\r\n" + lengths + b"\r\n"
    said = answer(server, head + body + hidden)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1 ") == 1, "what came behind is not a request of its own"


@pytest.mark.parametrize("header_bytes", [33_000, 60_000])
def test_a_head_that_comes_at_once_has_the_same_limit(
    server: ServerProcess, header_bytes: int
) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * header_bytes + b"\r\n\r\n"
    assert answer(server, head).startswith(b"HTTP/1.1 400 ")


def test_a_head_below_the_limit_is_read(server: ServerProcess) -> None:
    head = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Long: "
    assert answer(server, head + b"x" * 30_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
