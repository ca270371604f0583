"""One port for AMQP, TLS and HTTP: the READY line, TLS with the development CA, health."""

import contextlib
import http.client
import json
import socket
import ssl

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, TransportType

from support.namespace import ROOT_KEY, ROOT_POLICY
from support.receiving import bodies, collect
from support.server import ServerProcess

TIMEOUT_SECONDS = 30


def health(connection: http.client.HTTPConnection) -> tuple[int, object]:
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.fixture(scope="session")
def trust(server: ServerProcess) -> ssl.SSLContext:
    """Trusts the development CA alone, and checks host names."""
    return ssl.create_default_context(cafile=server.ready.ca)


def test_the_ready_line_is_the_vendors_emulator_string(server: ServerProcess) -> None:
    assert server.connection_string.replace("127.0.0.1", "localhost") == (
        f"Endpoint=sb://localhost:{server.ready.amqp_port};"
        f"SharedAccessKeyName={ROOT_POLICY};SharedAccessKey={ROOT_KEY};"
        "UseDevelopmentEmulator=true;"
    )


def test_the_stock_client_over_tls(server: ServerProcess, queue: str) -> None:
    client = ServiceBusClient.from_connection_string(
        f"Endpoint=sb://localhost;SharedAccessKeyName={ROOT_POLICY};SharedAccessKey={ROOT_KEY}",
        custom_endpoint_address=f"sb://localhost:{server.ready.amqp_port}",
        transport_type=TransportType.Amqp,
        connection_verify=str(server.ready.ca),
        retry_total=0,
    )
    with client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage(b"s" * 200_000))
            sender.send_messages(ServiceBusMessage("secret"))
        with client.get_queue_receiver(queue) as receiver:
            large, small = collect(receiver, 2)
            assert len(b"".join(large.body)) == 200_000
            assert bodies([small]) == ["secret"]
            receiver.complete_message(large)
            receiver.complete_message(small)


@pytest.mark.rule("EMU-6")
@pytest.mark.parametrize("port_name", ["amqp_port", "http_port"])
def test_health_over_http_and_https_on_every_port(
    server: ServerProcess, trust: ssl.SSLContext, port_name: str
) -> None:
    port = getattr(server.ready, port_name)
    plain = http.client.HTTPConnection("localhost", port, timeout=TIMEOUT_SECONDS)
    secure = http.client.HTTPSConnection("localhost", port, timeout=TIMEOUT_SECONDS, context=trust)
    for connection in (plain, secure):
        status, body = health(connection)
        assert status == 200
        assert isinstance(body, dict)
        assert body["status"] == "healthy"


def test_an_unknown_page_is_not_found(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection(
        "localhost", server.ready.amqp_port, timeout=TIMEOUT_SECONDS
    )
    try:
        connection.request("GET", "/no-such-page")
        assert connection.getresponse().status == 404
    finally:
        connection.close()


def test_a_certificate_that_is_not_trusted_is_noticed(server: ServerProcess) -> None:
    address = ("localhost", server.ready.amqp_port)
    with (
        socket.create_connection(address, timeout=TIMEOUT_SECONDS) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")


@pytest.mark.parametrize(
    "garbage",
    [b"\x00" * 64, b"SSH-2.0-hello\r\n", b"AMQP\x09\x09\x09\x09"],
    ids=["zeros", "another protocol", "another version"],
)
def test_garbage_ends_its_own_connection_only(
    server: ServerProcess, client: ServiceBusClient, queue: str, garbage: bytes
) -> None:
    address = ("localhost", server.ready.amqp_port)
    with socket.create_connection(address, timeout=TIMEOUT_SECONDS) as stranger:
        stranger.sendall(garbage)
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(4096):
                pass
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("unharmed"))
