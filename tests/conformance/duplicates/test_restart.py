"""Ids and their windows are kept when the server is killed or stopped, and started again."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from conformance.duplicates.letters import letter, shown_ids
from conformance.settlement.bus import Bus
from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import until
from support.receiving import collect
from support.server import ServerProcess

NAMES = [f"order-{number}" for number in range(100)]
DETECTS = {"requires_duplicate_detection": "true"}


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that a test may kill."""
    with ServerProcess(tmp_path, write(tmp_path)) as process:
        yield process


def write(directory: Path, **properties: str) -> Path:
    """The configuration: a queue, perhaps with more properties."""
    return write_queues(directory / "namespace.toml", {"q": DETECTS | properties})


def connected(server: ServerProcess) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(server.connection_string, retry_total=0)


@pytest.mark.rule("DUP-1", "DUP-5")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_ids_outlive_the_server_and_their_messages(own_server: ServerProcess, how: str) -> None:
    with connected(own_server) as client:
        with client.get_queue_sender("q") as sender:
            sender.send_messages([letter(name) for name in NAMES])
        with client.get_queue_receiver("q") as receiver:
            for message in collect(receiver, 50):
                receiver.complete_message(message)
    if how == "SIGTERM":
        assert own_server.stop() == 0
    own_server.restart()
    with connected(own_server) as client:
        with client.get_queue_sender("q") as sender:
            sender.send_messages([letter(name) for name in [*NAMES, "new"]])
            sender.send_messages(letter(NAMES[0]))
        with client.get_queue_receiver("q") as receiver:
            left = collect(receiver, 51)
    assert [message.message_id for message in left] == [*NAMES[50:], "new"]
    assert [message.sequence_number for message in left] == list(range(51, 102))


@pytest.mark.rule("DUP-4")
def test_a_window_that_was_changed_holds_for_what_was_seen_before(
    own_server: ServerProcess, tmp_path: Path
) -> None:
    with connected(own_server) as client, client.get_queue_sender("q") as sender:
        sender.send_messages(letter("a"))
        sender.send_messages(letter("a"))
    assert own_server.stop() == 0
    write(tmp_path, duplicate_detection_history_time_window='"PT1S"')
    own_server.start()
    bus = Bus(own_server.connection_string)
    with bus.client, bus.sender("q") as sender:

        def sent_again() -> bool:
            sender.send_messages(letter("a"))
            return shown_ids(bus, "q") == ["a", "a"]

        until("the shorter window to end", sent_again)


def send_until_killed(server: ServerProcess) -> None:
    """Send every name, one by one; the server is killed under way, nobody knows at which."""
    half_is_sent = threading.Event()

    def kill() -> None:
        half_is_sent.wait()
        server.sigkill()

    killer = threading.Thread(target=kill)
    killer.start()
    with connected(server) as client, contextlib.suppress(ServiceBusError):
        sender = client.get_queue_sender("q")
        for number, name in enumerate(NAMES):
            if number == len(NAMES) // 2:
                half_is_sent.set()
            sender.send_messages(letter(name))
    half_is_sent.set()
    killer.join()


@pytest.mark.rule("DUP-1", "ERR-24")
def test_who_sends_all_again_after_a_crash_has_sent_each_once(own_server: ServerProcess) -> None:
    send_until_killed(own_server)
    own_server.restart()
    with connected(own_server) as client:
        with client.get_queue_sender("q") as sender:
            for name in NAMES:
                sender.send_messages(letter(name))
        with client.get_queue_receiver("q") as receiver:
            received = [message.message_id for message in collect(receiver, len(NAMES))]
            assert received == NAMES
            assert receiver.peek_messages(1, sequence_number=len(NAMES) + 1) == []
