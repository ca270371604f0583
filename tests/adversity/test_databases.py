"""Stores in PostgreSQL: server and database are killed, and nothing acknowledged is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.conftest import NewServer
from adversity.kills.test_kill import live_and_die
from adversity.waiting import wait_until
from support.json_admin import JsonAdmin
from support.postgres import PostgresServer
from support.server import ServerProcess

pytestmark = pytest.mark.group("postgres")

QUEUE = "parts"


@pytest.fixture
def own_database() -> Iterator[PostgresServer]:
    """A server that the test may end."""
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


@pytest.mark.rule("SEED-79", "SEED-86", "SEQ-2", "SEQ-10")
def test_a_killed_server_finds_everything_in_its_database(
    new_server: NewServer, seed: int, own_database: PostgresServer
) -> None:
    place = own_database.dsn
    live_and_die(new_server, seed, 4, "--store", place, "--store", place)


@pytest.mark.rule("PAV-1", "SEED-40", "SEED-60")
def test_a_database_that_is_lost_takes_down_its_own_stores_only(
    tmp_path: Path, own_database: PostgresServer
) -> None:
    config = tmp_path / "namespace.toml"
    config.write_text(f'[[queue]]\nname = "{QUEUE}"\nenable_partitioning = true\n')
    places = [own_database.dsn, str(tmp_path / "plain"), own_database.dsn]
    flags = [word for place in places for word in ("--store", place)]
    with ServerProcess(tmp_path, config, *flags) as server:
        sent = send(server, "before", 60)
        own_database.kill()
        wait_until(lambda: states(server) == ["down", "up", "down"], "its stores are down")
        sent |= send(server, "meanwhile", 60)
        own_database.start()
        wait_until(lambda: states(server) == ["up", "up", "up"], "all stores are up again")
        sent |= send(server, "after", 60)
        assert receive(server, len(sent)) == sent


def states(server: ServerProcess) -> list[str]:
    return [store["state"] for store in JsonAdmin(server).stores()]


def send(server: ServerProcess, prefix: str, count: int) -> set[str]:
    """Messages without a key, so that each may go to any partition."""
    names = {f"{prefix}-{number}" for number in range(count)}
    client = ServiceBusClient.from_connection_string(server.connection_string)
    with client, client.get_queue_sender(QUEUE) as sender:
        for name in names:
            sender.send_messages(ServiceBusMessage(name, message_id=name))
    return names


def receive(server: ServerProcess, count: int) -> set[str]:
    client = ServiceBusClient.from_connection_string(server.connection_string)
    found: set[str] = set()
    with client, client.get_queue_receiver(QUEUE) as receiver:
        while len(found) < count:
            for message in receiver.receive_messages(100, max_wait_time=20):
                assert message.message_id not in found, "delivered twice"
                found.add(str(message.message_id))
                receiver.complete_message(message)
    return found
