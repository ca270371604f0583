"""What happens is told as it happens."""

from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from conformance.signals.stream import events
from support.json_admin import JsonAdmin, Refused
from support.namespace import write_namespace
from support.server import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("events")
    config = write_namespace(directory / "namespace.toml")
    with ServerProcess(directory, config, "--faults", "--stores", "2") as process:
        yield process


def test_connections_entities_and_dead_letters(server: ServerProcess, queue: str) -> None:
    admin = JsonAdmin(server)
    with events(server) as stream:
        admin.create("told")
        stream.until("entity-changed", entity="told", change="created")
        with (
            ServiceBusClient.from_connection_string(server.connection_string) as client,
            client.get_queue_sender(queue) as sender,
            client.get_queue_receiver(queue) as receiver,
        ):
            sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
            opened = stream.until("connection-opened")
            assert opened["transport"] == "amqp"
            got = 0
            while got < 2:
                for message in receiver.receive_messages(2, max_wait_time=30):
                    receiver.dead_letter_message(message, reason="test")
                    got += 1
            count = 0
            while count < 2:
                count += stream.until("dead-lettered", entity=queue)["count"]
            assert count == 2
        stream.until("connection-closed", peer=opened["peer"])


def test_a_store_goes_down_and_comes_back(server: ServerProcess) -> None:
    admin = JsonAdmin(server)
    with events(server, "?kind=store") as stream:
        admin.fault(kind="store", store=1, mode="down")
        stream.until("store", store=1, state="down")
        admin.fault(kind="store", store=1, mode="up")
        stream.until("store", store=1, state="up")
        assert {event["kind"] for event in stream.seen} == {"store"}


def test_a_refusal_says_why(server: ServerProcess) -> None:
    with events(server, "?kind=refused") as stream:
        with (
            ServiceBusClient.from_connection_string(
                server.connection_string, retry_total=0
            ) as client,
            pytest.raises(ServiceBusError),
            client.get_queue_sender("nowhere") as sender,
        ):
            sender.send_messages(ServiceBusMessage("x"))
        told = stream.until("refused", what="link refused")
        assert "'nowhere'" in told["text"]


@pytest.mark.parametrize("token", ["", "nonsense"])
def test_a_stream_needs_the_right_to_manage(server: ServerProcess, token: str) -> None:
    with pytest.raises(Refused) as refused:
        JsonAdmin(server).ask("GET", "/events", token=token or " ")
    assert refused.value.status == 401


def test_a_stop_ends_the_stream(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("stop")
    server = ServerProcess(directory, write_namespace(directory / "namespace.toml"))
    server.start()
    with events(server) as stream:
        assert server.stop() == 0
        with pytest.raises(AssertionError, match="the stream ended"):
            stream.until("never")
