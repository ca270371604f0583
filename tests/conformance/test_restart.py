"""What the stock client finds after the server was killed or stopped, and started again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

from support.namespace import write_namespace
from support.receiving import bodies, collect
from support.server import ServerProcess

QUEUE = "plain-0"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that a test may kill."""
    with ServerProcess(tmp_path, write_namespace(tmp_path / "namespace.toml")) as process:
        yield process


def connected(server: ServerProcess) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(server.connection_string)


def end_and_start(server: ServerProcess, how: str) -> None:
    if how == "SIGTERM":
        assert server.stop() == 0
        assert server.further_output() == []
    server.restart()


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_everything_acknowledged_is_still_there(own_server: ServerProcess, how: str) -> None:
    with connected(own_server) as client:
        with client.get_queue_sender(QUEUE) as sender:
            sender.send_messages([ServiceBusMessage(str(number)) for number in range(50)])
        with client.get_queue_receiver(QUEUE) as receiver:
            for number, message in enumerate(collect(receiver, 20)):
                if number < 10:
                    receiver.complete_message(message)
                elif number == 10:
                    receiver.dead_letter_message(message, reason="kept")
                elif number == 11:
                    receiver.abandon_message(message)
        last = message.sequence_number
    end_and_start(own_server, how)
    with connected(own_server) as client:
        with client.get_queue_sender(QUEUE) as sender:
            sender.send_messages(ServiceBusMessage("after"))
        with client.get_queue_receiver(QUEUE) as receiver:
            # What was in hand is still locked after a clean stop, and after no other end.
            rest = range(12 if how == "SIGKILL" else 20, 50)
            messages = collect(receiver, len(rest) + 2)
            assert bodies(messages) == ["11", *(str(number) for number in rest), "after"]
            assert messages[0].delivery_count == 1
            assert messages[-1].sequence_number == last + 31
        with client.get_queue_receiver(QUEUE, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
            (dead,) = collect(receiver, 1)
            assert (str(dead), dead.dead_letter_reason) == ("10", "kept")


@pytest.mark.rule("LCK-5", "LCK-6")
@pytest.mark.parametrize("flags", [(), ("--workers", "2", "--stores", "2")], ids=["one", "two"])
def test_messages_in_hand_are_settled_after_a_clean_restart(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    config = write_namespace(tmp_path / "namespace.toml")
    with ServerProcess(tmp_path, config, *flags) as server, connected(server) as client:
        with client.get_queue_sender(QUEUE) as sender:
            sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
        with client.get_queue_receiver(QUEUE) as receiver:
            completed, abandoned, kept = collect(receiver, 3)
            assert server.stop() == 0
            server.start()
            receiver.renew_message_lock(kept)
            receiver.complete_message(completed)
            receiver.abandon_message(abandoned)
            (again,) = collect(receiver, 1)
            assert (str(again), again.delivery_count) == ("1", 1)
            receiver.complete_message(again)
            receiver.complete_message(kept)
            assert receiver.peek_messages(max_message_count=5) == []


def test_a_client_with_retries_outlives_a_restart(own_server: ServerProcess) -> None:
    with connected(own_server) as client, client.get_queue_sender(QUEUE) as sender:
        sender.send_messages(ServiceBusMessage("before"))
        own_server.restart()
        sender.send_messages(ServiceBusMessage("after"))
        with client.get_queue_receiver(QUEUE) as receiver:
            assert bodies(collect(receiver, 2)) == ["before", "after"]
