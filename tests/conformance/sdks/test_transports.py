"""TLS and WebSockets, by the clients of other languages, with the certificate verified."""

import pytest

from conformance.sdks.drivers import Sdk
from conformance.sdks.operations import operation
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

ACCESS = f"SharedAccessKeyName={ROOT_POLICY};SharedAccessKey={ROOT_KEY}"


@pytest.fixture
def secure(server: ServerProcess) -> str:
    """The connection string without the emulator's mark, with which clients use TLS."""
    return f"Endpoint=sb://localhost:{server.ready.amqp_port};{ACCESS}"


@operation("TLS", "Go")
def test_tls_with_the_port_beside_the_connection_string(
    sdk: Sdk, queue: str, server: ServerProcess
) -> None:
    """Go compares the name of the certificate with all of the endpoint, its port included."""
    connection, endpoint = (
        f"Endpoint=sb://localhost;{ACCESS}",
        f"localhost:{server.ready.amqp_port}",
    )
    result = sdk.run("complete", queue=queue, connection=connection, endpoint=endpoint)
    assert result == {"bodies": ["one", "two"], "left": 0}


@operation("TLS", "Java", "Java async", "Rust")
def test_tls(sdk: Sdk, queue: str, secure: str) -> None:
    result = sdk.run("complete", queue=queue, connection=secure)
    assert result == {"bodies": ["one", "two"], "left": 0}


@operation("WebSocket", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("AMQ-1")
def test_a_web_socket(sdk: Sdk, queue: str, secure: str) -> None:
    result = sdk.run("complete", queue=queue, connection=secure, webSocket=True)
    assert result == {"bodies": ["one", "two"], "left": 0}


@operation("WebSocket", "Go", "Java", "Java async", "Rust")
@pytest.mark.rule("AMQ-1")
def test_a_large_message_over_a_web_socket(sdk: Sdk, queue: str, secure: str) -> None:
    result = sdk.run("large", queue=queue, connection=secure, webSocket=True, size=900_000)
    assert result == {"length": 900_000, "same": True}
