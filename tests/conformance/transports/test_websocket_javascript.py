"""The stock JavaScript client over WebSocket, with the development CA and names verified."""

import os
from typing import Any

import pytest

from support.javascript import failure, scenario
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

pytestmark = pytest.mark.group("javascript")

SCRIPT = "../transports/js/websocket.mjs"


def connection_string(server: ServerProcess, host: str = "localhost") -> str:
    port = server.ready.amqp_port
    access = f"SharedAccessKeyName={ROOT_POLICY};SharedAccessKey={ROOT_KEY}"
    return f"Endpoint=sb://{host}:{port};{access}"


def run(server: ServerProcess, name: str, queue: str, **given: object) -> Any:
    trusting = os.environ | {"NODE_EXTRA_CA_CERTS": str(server.ready.ca)}
    connection = connection_string(server)
    return scenario(SCRIPT, name, environment=trusting, connection=connection, queue=queue, **given)


@pytest.mark.rule("AMQ-1")
def test_send_receive_and_settle(server: ServerProcess, queue: str) -> None:
    result = run(server, "roundTrip", queue)
    assert result == {"bodies": ["one", *range(20)], "left": 0}


def test_a_large_message(server: ServerProcess, queue: str) -> None:
    assert run(server, "large", queue, size=1_000_000) == {"length": 1_000_000, "same": True}


def test_streaming(server: ServerProcess, queue: str) -> None:
    assert sorted(run(server, "streaming", queue, count=100)) == list(range(100))


def test_a_client_that_does_not_trust_the_ca_refuses(server: ServerProcess, queue: str) -> None:
    error = failure(SCRIPT, "roundTrip", connection=connection_string(server), queue=queue)
    assert "certificate" in str(error).lower()
