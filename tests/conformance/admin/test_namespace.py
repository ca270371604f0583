"""What the namespace says of itself, and the ways to reach it."""

import http.client
import ssl

import pytest
from azure.servicebus.management import ServiceBusAdministrationClient

from conformance.admin.conftest import PORTS
from support.sas import sas_token
from support.server import ServerProcess

TIMEOUT_SECONDS = 30


def test_its_properties(connection: str) -> None:
    with ServiceBusAdministrationClient.from_connection_string(connection, retry_total=0) as admin:
        namespace = admin.get_namespace_properties()
    assert namespace.name == "partibus"
    assert namespace.messaging_sku == "Standard"
    assert namespace.namespace_type == "Messaging"
    assert namespace.created_at_utc <= namespace.modified_at_utc


@pytest.mark.rule("EMU-7")
@pytest.mark.parametrize("port_name", PORTS)
@pytest.mark.parametrize("is_secure", [False, True], ids=["http", "https"])
def test_with_and_without_tls_on_every_port(
    server: ServerProcess, port_name: str, is_secure: bool
) -> None:
    """.NET speaks plain HTTP to an emulator, the others insist on TLS (amqp-contract 12.1)."""
    port = getattr(server.ready, port_name)
    connection: http.client.HTTPConnection
    if is_secure:
        trust = ssl.create_default_context(cafile=server.ready.ca)
        connection = http.client.HTTPSConnection(
            "localhost", port, timeout=TIMEOUT_SECONDS, context=trust
        )
    else:
        connection = http.client.HTTPConnection("localhost", port, timeout=TIMEOUT_SECONDS)
    try:
        headers = {"Authorization": sas_token(f"sb://localhost:{port}/")}
        connection.request("GET", "/target?api-version=2021-05&enrich=False", headers=headers)
        response = connection.getresponse()
        body = response.read().decode()
    finally:
        connection.close()
    assert response.status == 200
    assert response.headers["content-type"] == "application/atom+xml;type=entry;charset=utf-8"
    scheme = "https" if is_secure else "http"
    assert f"<id>{scheme}://localhost:{port}/target?api-version=2021-05</id>" in body
