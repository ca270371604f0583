"""`/livez`, `/readyz` and `/health` of a real server whose stores fail and come back."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.waiting import wait_until
from conformance.partitioning.operator import Operator
from support.namespace import write_namespace
from support.server import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("health")
    config = write_namespace(directory / "namespace.toml")
    with ServerProcess(directory, config, "--stores", "2", "--faults") as process:
        yield process


@pytest.fixture
def operator(server: ServerProcess) -> Iterator[Operator]:
    made = Operator(server)
    yield made
    made.mend_all()


def ask(server: ServerProcess, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(server.ready.http_host, server.ready.http_port)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_all_is_well(server: ServerProcess) -> None:
    assert ask(server, "/livez") == (200, {"status": "alive", "workers": {"0": "answers"}})
    status, body = ask(server, "/readyz")
    assert (status, body["status"], body["reasons"]) == (200, "ready", [])
    assert [store["state"] for store in body["stores"].values()] == ["up", "up"]
    # Nobody has sent anything: what was written is the probe itself.
    assert all(store["age_ms"] is not None for store in body["stores"].values())
    assert ask(server, "/health") == (
        200,
        {"status": "healthy", "message": "Service is healthy."},
    )


def test_a_store_that_fails_is_found_without_any_traffic(
    server: ServerProcess, operator: Operator
) -> None:
    operator.begin_outage(1)
    wait_until(lambda: ask(server, "/readyz")[1]["status"] == "degraded", "the probe finds it")
    status, body = ask(server, "/readyz")
    assert status == 200, "the other store serves"
    assert body["reasons"] == ["Store 1 is down; it is being probed."]
    assert [store["state"] for store in body["stores"].values()] == ["up", "down"]
    status, body = ask(server, "/health")
    assert (status, body["message"]) == (503, "Store 1 is down; it is being probed.")
    assert ask(server, "/livez")[0] == 200, "a restart would not help"
    operator.mend_store(1)
    assert ask(server, "/readyz")[1]["status"] == "ready"


def test_a_server_without_any_store_is_not_ready(server: ServerProcess, operator: Operator) -> None:
    operator.begin_outage(0)
    operator.begin_outage(1)
    wait_until(lambda: ask(server, "/readyz")[0] == 503, "the probes find it")
    _, body = ask(server, "/readyz")
    assert body["status"] == "not ready"
    assert body["reasons"] == ["Store 0, 1 is down; it is being probed."]
    assert ask(server, "/livez")[0] == 200
    operator.mend_all()
    assert ask(server, "/readyz")[0] == 200


def test_what_the_probes_wrote_is_recovered_with_the_messages(
    server: ServerProcess, queue: str
) -> None:
    def probe() -> None:
        assert ask(server, "/readyz")[0] == 200

    probe()
    with (
        ServiceBusClient.from_connection_string(server.connection_string) as client,
        client.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage("kept"))
    ages = [0]

    def is_written_anew() -> bool:
        """Ages grow until the next probe is durable."""
        ages.append(ask(server, "/readyz")[1]["stores"]["0"]["age_ms"])
        return ages[-1] < ages[-2]

    wait_until(is_written_anew, "one more probe is written after the message")
    server.restart()
    with (
        ServiceBusClient.from_connection_string(server.connection_string) as client,
        client.get_queue_receiver(queue) as receiver,
    ):
        (message,) = receiver.receive_messages(1, max_wait_time=30)
        assert str(message) == "kept"
        receiver.complete_message(message)
    probe()
