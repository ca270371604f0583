"""`partibus fault` against the real server: what it breaks, for whom, and until when."""

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import (
    MessageLockLostError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from adversity.waiting import wait_until
from cli.command import FRAGMENTS, STORES, Partibus
from partibus.domain.partition_key import fragment_index
from support.receiving import collect
from support.server import ServerProcess


def keys_by_store(partibus: Partibus, queue: str) -> dict[int, str]:
    """A partition key for each store, from where the server says the fragments lie."""
    fragments = partibus("entity", "show", queue, "--json").json["fragments"]
    stores = {f["index"]: f["store"] for f in fragments}
    keys: dict[int, str] = {}
    number = 0
    while len(keys) < STORES:
        key = f"key-{number}"
        keys.setdefault(stores[fragment_index(key, FRAGMENTS)], key)
        number += 1
    return keys


@pytest.mark.rule("SEED-4", "SEED-29", "SEED-40", "SEED-43", "SEED-62", "PAV-1")
@pytest.mark.parametrize("mode", ["down", "full"])
def test_a_store_that_fails_takes_only_its_own_keys_with_it(
    partibus: Partibus, client: ServiceBusClient, parted: str, mode: str
) -> None:
    keys = keys_by_store(partibus, parted)
    assert partibus("fault", "store", "2", mode).out == f"store 2: {mode}\n"
    shown = partibus("entity", "show", parted, "--json").json
    assert shown["availability"] == "Limited"
    assert {f["state"] for f in shown["fragments"] if f["store"] == 2} == {"down"}
    assert {f["state"] for f in shown["fragments"] if f["store"] != 2} == {"up"}
    with client.get_queue_sender(parted) as sender:
        for number in range(3 * FRAGMENTS):
            sender.send_messages(ServiceBusMessage(f"keyless {number}"))
        for store, key in keys.items():
            message = ServiceBusMessage(key, partition_key=key)
            if store == 2:
                with pytest.raises(ServiceBusServerBusyError, match="store is down"):
                    sender.send_messages(message)
            else:
                sender.send_messages(message)
        partibus("fault", "store", "2", "up")
        wait_until(lambda: partibus.store_states()[2] == "up", "store 2 is up")
        sender.send_messages(ServiceBusMessage("again", partition_key=keys[2]))
    shown = partibus("entity", "show", parted, "--json").json
    assert shown["availability"] == "Available"
    assert shown["totals"]["active"] == 3 * FRAGMENTS + STORES


def test_a_fault_ends_by_itself(partibus: Partibus) -> None:
    out = partibus("fault", "store", "0", "down", "--for", "300ms").out
    assert out == "store 0: down, for 300ms\n"
    wait_until(lambda: partibus.store_states()[0] == "up", "store 0 is up")
    assert partibus("fault", "list", "--json").json == {"faults": []}


def test_faults_are_listed_and_cleared(partibus: Partibus, queue: str) -> None:
    partibus("fault", "store", "1", "slow=5ms", "--for", "1h")
    partibus("fault", "latency", "--rtt", "2ms")
    partibus("fault", "throttle", queue, "--rate", "30/m")
    listed = partibus("fault", "list", "--json").json["faults"]
    assert [(f["kind"], f["left_ms"] is None) for f in listed] == [
        ("store", False),
        ("latency", True),
        ("throttle", True),
    ]
    assert 3_500_000 < listed[0]["left_ms"] <= 3_600_000
    text = partibus("fault", "list").out
    assert "slow by 5ms a commit" in text
    assert "2ms a round trip, 0ms a commit" in text
    assert f"throttle {queue}" in text and "0.5 sends a second pass" in text
    assert partibus("fault", "clear").out == f"cleared: latency, store 1, throttle {queue}\n"
    assert partibus("fault", "list").out == "No faults are active.\n"
    assert partibus("fault", "clear").out == "No faults were active.\n"


@pytest.mark.rule("ERR-10", "THR-1")
def test_a_throttled_queue_is_busy_and_others_are_not(
    partibus: Partibus, client: ServiceBusClient, queue: str, parted: str
) -> None:
    partibus("fault", "throttle", queue, "--rate", "1/h")
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("within the rate"))
        with pytest.raises(ServiceBusServerBusyError, match="50009"):
            sender.send_messages(ServiceBusMessage("too much"))
        with client.get_queue_sender(parted) as free:
            for _ in range(3):
                free.send_messages(ServiceBusMessage("free"))
        (fault,) = partibus("fault", "list", "--json").json["faults"]
        assert fault["refused"] == 1
        partibus("fault", "clear")
        sender.send_messages(ServiceBusMessage("as before"))
    assert partibus("entity", "show", queue, "--json").json["totals"]["active"] == 2


@pytest.mark.rule("SEED-107")
def test_dropped_locks_are_lost_and_their_messages_come_again(
    partibus: Partibus, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_sender(queue) as sender:
        sender.send_messages([ServiceBusMessage("a"), ServiceBusMessage("b")])
    with client.get_queue_receiver(queue) as receiver:
        held = collect(receiver, 2)
        assert partibus("fault", "locks", queue, "drop").out == f"locks {queue}: 2 dropped\n"
        for message in held:
            with pytest.raises(MessageLockLostError):
                receiver.complete_message(message)
        again = collect(receiver, 2)
        assert [str(m) for m in again] == ["a", "b"]
        assert [m.delivery_count for m in again] == [1, 1]
        for message in again:
            receiver.complete_message(message)


def test_closed_connections_are_forced_and_clients_come_back(
    partibus: Partibus, server: ServerProcess, queue: str
) -> None:
    with (
        ServiceBusClient.from_connection_string(server.connection_string) as patient,
        patient.get_queue_sender(queue) as sender,
    ):
        sender.send_messages(ServiceBusMessage("before"))
        closed = partibus("fault", "connections", "close").out
        assert closed.startswith("connections: ") and closed.endswith(" closed\n")
        assert closed != "connections: 0 closed\n"
        sender.send_messages(ServiceBusMessage("after"))
    assert partibus("entity", "show", queue, "--json").json["totals"]["active"] == 2


def test_who_does_not_try_again_sees_the_forced_close(
    partibus: Partibus, client: ServiceBusClient, queue: str
) -> None:
    with client.get_queue_receiver(queue) as receiver:
        assert receiver.peek_messages() == []
        partibus("fault", "connections", "close")
        with pytest.raises(ServiceBusError):
            receiver.peek_messages()


def test_latency_is_the_clients_and_not_the_administration_s(
    partibus: Partibus, client: ServiceBusClient, queue: str
) -> None:
    from time import perf_counter

    partibus("fault", "latency", "--rtt", "150ms", "--store", "50ms")
    with client.get_queue_sender(queue) as sender:
        sender.send_messages(ServiceBusMessage("the link is open"))
        began = perf_counter()
        sender.send_messages(ServiceBusMessage("far away"))
        assert perf_counter() - began >= 0.2
    assert partibus("fault", "clear").out == "cleared: latency\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("store", "9", "down"), 4, "There is no store 9; the stores are 0 to 3."),
        (("locks", "nope", "drop"), 4, "could not be found"),
        (("throttle", "nope", "--rate", "1/s"), 4, "could not be found"),
        (("worker", "0", "kill"), 1, "--workers 2 or more"),
        (("store", "1", "broken"), 2, "expected down, up, full or slow=MS"),
        (("store", "1", "slow=0"), 2, "'delay_ms' is 0"),
        (("store", "1", "down", "--for", "soon"), 2, "for example"),
        (("latency",), 2, "give --rtt, --store, or both"),
        (("locks", "plain-0", "keep"), 2, "keep"),
    ],
)
def test_what_cannot_be_done_is_explained(
    partibus: Partibus, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = partibus.try_("fault", *arguments)
    assert (done.code, done.out) == (code, "")
    assert words in " ".join(done.err.replace("│", " ").split())
    assert partibus("fault", "list", "--json").json == {"faults": []}


def test_a_server_without_faults_refuses_them_all(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("whole")
    config = directory / "namespace.toml"
    config.write_text('[[queue]]\nname = "q"\n', encoding="utf-8")
    with ServerProcess(directory, config, "--memory") as whole:
        partibus = Partibus(whole.connection_string)
        for arguments in (("store", "0", "down"), ("connections", "close"), ("list",), ("clear",)):
            done = partibus.try_("fault", *arguments)
            assert (done.code, done.out) == (1, "")
            assert "started without --faults" in done.err
        assert partibus.store_states() == ["up"]
        assert partibus("store", "list").out.count("memory") == 1
