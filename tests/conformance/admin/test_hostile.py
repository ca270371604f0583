"""Bodies without end, over a real socket: they are refused while they come."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from conformance.admin.conftest import Fresh
from support.sas import sas_token
from support.server import ServerProcess

TIMEOUT_SECONDS: Final = 60
HUNDRED_MEGABYTES: Final = 100 * 1024 * 1024
PART: Final = b"x" * 65_536
# What the kernel's buffers of both ends may take in before the refusal is noticed.
SLACK_BYTES: Final = 32 * 1024 * 1024


def head(server: ServerProcess, name: str, framing: str) -> bytes:
    port = server.ready.http_port
    token = sas_token(f"https://localhost:{port}/")
    return (
        f"PUT /{name}?api-version=2021-05 HTTP/1.1\r\nHost: localhost:{port}\r\n"
        f"Authorization: {token}\r\n{framing}\r\n\r\n"
    ).encode()


def parts(is_chunked: bool) -> Iterator[bytes]:
    for _ in range(HUNDRED_MEGABYTES // len(PART)):
        yield b"%x\r\n%s\r\n" % (len(PART), PART) if is_chunked else PART


@pytest.mark.parametrize("is_chunked", [False, True], ids=["announced", "chunked"])
def test_a_hundred_megabytes(
    server: ServerProcess, admin: ServiceBusAdministrationClient, fresh: Fresh, is_chunked: bool
) -> None:
    name = fresh("huge")
    framing = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {HUNDRED_MEGABYTES}"
    sent = 0
    answer = b""
    address = ("localhost", server.ready.http_port)
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as stranger:
        stranger.sendall(head(server, name, framing))
        with contextlib.suppress(ConnectionError):
            for part in parts(is_chunked):
                stranger.sendall(part)
                sent += len(part)
        with contextlib.suppress(ConnectionError):
            while part := stranger.recv(65_536):
                answer += part
    assert sent < SLACK_BYTES
    # A peer that goes on writing may lose the answer to the reset that ends its connection.
    assert not answer or answer.startswith(b"HTTP/1.1 413 ")
    assert name not in [queue.name for queue in admin.list_queues()]


def test_the_refusal_reaches_a_peer_that_listens(server: ServerProcess, fresh: Fresh) -> None:
    framing = f"Content-Length: {HUNDRED_MEGABYTES}"
    address = ("localhost", server.ready.http_port)
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as stranger:
        stranger.sendall(head(server, fresh("huge"), framing))
        answer = b""
        while part := stranger.recv(65_536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"SubCode=41300" in answer


def test_the_names_of_health_checks_can_be_queues(admin: ServiceBusAdministrationClient) -> None:
    admin.create_queue("health")
    assert admin.get_queue("health").name == "health"
    admin.delete_queue("health")
