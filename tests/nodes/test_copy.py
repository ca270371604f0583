"""A bus moves from one machine into a cluster and back, and clients find all of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

from adversity.waiting import wait_until
from cli.command import Done, Partibus
from partibus.domain.clock import SystemClock
from partibus.server.nodes.certificates import make_cluster
from support.server import ServerProcess
from upgrade.contents import COMPACTED, FAR, Traffic, namespace, picture

if TYPE_CHECKING:
    from support.postgres import PostgresServer

pytestmark = pytest.mark.timeout(900)
STORES = 3
PARTITIONED = """
[[topic]]
name = "wide"
enable_partitioning = true
[[topic.subscription]]
name = "red"
[[topic.subscription.rule]]
name = "red"
sql_filter = "colour = 'red'"
"""


def copy(source: str, target: str, *more: str) -> Done:
    return Partibus(None).try_("store", "copy", "--from", source, "--to", target, *more)


def on(side: str, databases: list[str]) -> list[str]:
    return [word for database in databases for word in (f"--{side}-store", database)]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "namespace.toml"
    file.write_text(f"{namespace(COMPACTED)}\n{PARTITIONED}", encoding="utf-8")
    return file


@pytest.fixture
def databases(postgres: "PostgresServer") -> list[str]:
    from support.postgres import new_database

    return [new_database(postgres.dsn), new_database(postgres.dsn)]


@contextmanager
def alone(place: Path, config: Path, *flags: str) -> Iterator[ServerProcess]:
    """A server on a data directory `data` below a place."""
    place.mkdir(exist_ok=True)
    with ServerProcess(place, config, "--stores", str(STORES), *flags) as server:
        yield server


@contextmanager
def node(place: Path, config: Path, databases: list[str]) -> Iterator[ServerProcess]:
    """The only node of a cluster."""
    place.mkdir()
    make_cluster(place / "tls", "node-1", SystemClock())
    stores = [word for database in databases for word in ("--store", database)]
    flags = ["--cluster", databases[0], "--cluster-tls", str(place / "tls"), *stores]
    with ServerProcess(place, config, *flags, "--lanes", str(STORES)) as server:
        yield server


def work(connection_string: str, turn: str) -> None:
    """A turn of traffic on everything that the namespace has."""
    traffic = Traffic(connection_string, COMPACTED)
    traffic.fill(turn)
    with traffic.client.get_topic_sender("wide") as sender:
        for number in range(8):
            message = ServiceBusMessage(f"{turn} {number}", partition_key=str(number))
            message.application_properties = {"colour": "red" if number % 2 else "blue"}
            sender.send_messages(message)
    traffic.close()


def seen(server: ServerProcess) -> dict[str, Any]:
    found = picture(server.connection_string, COMPACTED)
    with (
        ServiceBusClient.from_connection_string(server.connection_string) as client,
        client.get_subscription_receiver("wide", "red") as receiver,
    ):
        shown = receiver.peek_messages(100)
    found["wide"] = sorted([one.sequence_number, str(one), one.partition_key] for one in shown)
    return found


def use_everything(server: ServerProcess, before: dict[str, Any]) -> None:
    """What was kept is not only shown: it can be received, settled and continued."""
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        with client.get_queue_sender("once") as sender:
            sender.send_messages(ServiceBusMessage("a duplicate", message_id="id first"))
        deferred = [number for number, body, _ in before["plain"] if body == "first defer"]
        with client.get_queue_receiver("plain") as receiver:
            for message in receiver.receive_deferred_messages(deferred):
                assert message.delivery_count == 1
                receiver.complete_message(message)
        mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
        with client.get_queue_receiver(
            "plain", sub_queue="deadletter", receive_mode=mode
        ) as receiver:
            (dead,) = receiver.receive_messages(1, max_wait_time=60)
            assert (str(dead), dead.dead_letter_reason) == ("first bury", "test")
        with client.get_queue_sender("plain") as sender:
            scheduled = [number for number, body, _ in before["plain"] if body == "first scheduled"]
            sender.cancel_scheduled_messages(scheduled)
            sender.schedule_messages(ServiceBusMessage("another scheduled"), FAR)


def refuses_backups(node: ServerProcess, tmp_path: Path) -> None:
    """A node has nothing in its own directory: neither it nor that is backed up as if it had."""
    to = ("backup", "--to", str(tmp_path / "backups"))
    online = Partibus(node.connection_string).try_(*to)
    assert online.code != 0 and "partibus store copy" in online.err
    own = tmp_path / "nothing"
    own.mkdir()
    offline = Partibus(None).try_(*to, "--data", str(own))
    assert offline.code == 2 and "partibus store copy" in offline.err


@pytest.mark.group("postgres")
def test_into_a_cluster_of_two_databases_and_back(
    tmp_path: Path, config: Path, databases: list[str]
) -> None:
    with alone(tmp_path / "one", config) as server:
        work(server.connection_string, "first")
        server.restart()  # what follows is behind the checkpoint
        work(server.connection_string, "second")
        before = seen(server)
        data = str(server.data)
    there = copy(data, databases[0], *on("to", databases))
    assert (there.code, there.err) == (0, ""), there.out + there.err
    assert "both places hold the same" in there.out

    with node(tmp_path / "two", config, databases) as server:
        assert seen(server) == before
        use_everything(server, before)
        work(server.connection_string, "third")
        refuses_backups(server, tmp_path)
        after = seen(server)
    assert len(after["wide"]) == 12
    bodies = [body for _, body, _ in after["plain"]]
    assert "third lives" in bodies and "first defer" not in bodies
    assert [body for _, body, _ in after["once"]] == ["first once", "second once", "third once"]

    back = tmp_path / "three"
    again = copy(databases[0], str(back / "data"), *on("from", databases))
    assert (again.code, again.err) == (0, ""), again.out + again.err
    with alone(back, config) as server:
        assert seen(server) == after
        work(server.connection_string, "fourth")
        assert server.stop() == 0
        server.start()
        assert len(seen(server)["parted"]) == len(after["parted"]) + 6
        server.stop()
    check = Partibus(None).try_("store", "check", "--data", str(back / "data"), "--json").json
    assert [part["problems"] for part in check["parts"]] == [[]] * (1 + STORES)


def test_an_encrypted_directory_is_copied_with_its_key_alone(tmp_path: Path, config: Path) -> None:
    key = tmp_path / "key"
    key.write_text(os.urandom(32).hex(), encoding="ascii")
    given = ("--encryption-key-file", str(key))
    with alone(tmp_path / "one", config, *given) as server:
        work(server.connection_string, "first")
        server.restart()
        work(server.connection_string, "second")
        before = seen(server)
        data = server.data
    plain = tmp_path / "two"
    refused = copy(str(data), str(plain / "data"))
    assert refused.code == 2 and "is encrypted: give its key" in refused.err
    refused = copy(str(data), str(plain / "data"), *given)
    assert refused.code == 2 and "give --decrypt if that is intended" in refused.err
    assert not plain.exists()
    done = copy(str(data), str(plain / "data"), *given, "--decrypt", "--json")
    assert done.code == 0, done.err
    assert done.json["comparison"]["differences"] == 0
    again = copy(str(data), str(plain / "data"), *given, "--verify-only")
    assert again.code == 0 and "both places hold the same" in again.out
    with alone(plain, config) as server:
        assert seen(server) == before
        use_everything(server, before)
    changed = copy(str(data), str(plain / "data"), *given, "--verify-only")
    assert changed.code == 3 and "is only in the source" in changed.out


@pytest.mark.slow
@pytest.mark.group("postgres")
def test_a_database_that_was_restored_is_not_served_until_somebody_accepts_it(
    tmp_path: Path,
    config: Path,
    databases: list[str],
    postgres: "PostgresServer",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A node waits for half a minute for its lanes before it lets clients in.
    monkeypatch.setattr("support.server.READY_SECONDS_MAX", 300.0)
    with alone(tmp_path / "one", config) as server:
        work(server.connection_string, "first")
        data = str(server.data)
    assert copy(data, databases[0], *on("to", databases)).code == 0
    with node(tmp_path / "two", config, databases) as server:
        work(server.connection_string, "second")
    kept = databases[1].rpartition("/")[2]
    run_sql(postgres, f"CREATE DATABASE {kept}_backup TEMPLATE {kept}")
    with node(tmp_path / "three", config, databases) as server:
        work(server.connection_string, "third")
        newest = seen(server)
    run_sql(postgres, f"DROP DATABASE {kept}")
    run_sql(postgres, f"CREATE DATABASE {kept} TEMPLATE {kept}_backup")

    with node(tmp_path / "four", config, databases) as server:
        assert "lane 1 of the database" in server.log_text() and "went back" in server.log_text()
        assert "lane 0 is served here" in server.log_text()
        assert "lane 1 is served here" not in server.log_text()
        accepted = Partibus(None).try_("cluster", "accept", "1", "--yes", "--cluster", databases[0])
        assert accepted.code == 0, accepted.err
        wait_until(lambda: "lane 1 is served here" in server.log_text(), "lane 1 is served")
        found = seen(server)
    assert found != newest
    assert "second lives" in [body for _, body, _ in found["plain"]]


def run_sql(postgres: "PostgresServer", statement: str) -> None:
    """As the operator of the databases, while nobody uses them."""
    import psycopg

    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(statement.encode())
