"""The administration and the faults of a server that runs in several processes."""

from collections.abc import Iterator

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from adversity.waiting import wait_until
from cli.command import Partibus
from support.server import ServerProcess

QUEUE = "orders"
FRAGMENTS = 4


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("workers")
    config = directory / "namespace.toml"
    config.write_text(
        f'[[queue]]\nname = "{QUEUE}"\nenable_partitioning = true\npartition_count = {FRAGMENTS}\n',
        encoding="utf-8",
    )
    flags = ("--faults", "--stores", "4", "--workers", "2")
    with ServerProcess(directory, config, *flags) as process:
        yield process


@pytest.fixture
def partibus(workers: ServerProcess) -> Partibus:
    return Partibus(workers.connection_string)


def send(workers: ServerProcess, count: int) -> None:
    with (
        ServiceBusClient.from_connection_string(workers.connection_string) as client,
        client.get_queue_sender(QUEUE) as sender,
    ):
        for number in range(count):
            sender.send_messages(ServiceBusMessage(f"{number}"))


def availability(partibus: Partibus) -> str:
    return str(partibus("entity", "show", QUEUE, "--json").json["availability"])


def seen(partibus: Partibus) -> tuple[str, int]:
    """One look: any worker may answer, and each sees the others come back by itself."""
    shown = partibus("entity", "show", QUEUE, "--json").json
    return shown["availability"], shown["totals"]["active"]


def test_all_workers_answer_together(partibus: Partibus, workers: ServerProcess) -> None:
    send(workers, 2 * FRAGMENTS)
    shown = partibus("entity", "show", QUEUE, "--json").json
    assert [(f["worker"], f["active"]) for f in shown["fragments"]] == [
        (0, 2),
        (1, 2),
        (0, 2),
        (1, 2),
    ]
    assert shown["totals"]["active"] == 2 * FRAGMENTS
    stores = partibus("store", "list", "--json").json["stores"]
    assert [s["worker"] for s in stores] == [0, 1, 0, 1]
    assert partibus("purge", QUEUE, "-y").out == f"{QUEUE}: {2 * FRAGMENTS} messages deleted\n"


@pytest.mark.parametrize("store", [0, 1])
def test_a_store_of_any_worker_fails_on_demand(partibus: Partibus, store: int) -> None:
    partibus("fault", "store", str(store), "down")
    states = ["up"] * 4
    states[store] = "down"
    assert partibus.store_states() == states
    assert availability(partibus) == "Limited"
    assert len(partibus("fault", "list", "--json").json["faults"]) == 1
    assert partibus("fault", "clear").out == f"cleared: store {store}\n"
    wait_until(lambda: availability(partibus) == "Available", "all fragments are up")


def test_a_fault_of_all_workers_is_one_fault(partibus: Partibus) -> None:
    partibus("fault", "latency", "--store", "1ms", "--for", "1h")
    assert len(partibus("fault", "list", "--json").json["faults"]) == 1
    assert partibus("fault", "clear").out == "cleared: latency\n"


@pytest.mark.rule("PAV-8")
def test_a_killed_worker_comes_back_with_its_messages(
    partibus: Partibus, workers: ServerProcess
) -> None:
    send(workers, 2 * FRAGMENTS)
    assert partibus("fault", "worker", "1", "kill").out == "worker 1: killed\n"
    wait_until(lambda: "ended with code -9" in workers.log_text(), "worker 1 is dead")
    wait_until(lambda: seen(partibus) == ("Available", 2 * FRAGMENTS), "all is there again")
    missing = partibus.try_("fault", "worker", "7", "kill")
    assert missing.code == 2
    assert "the workers are 0, 1" in missing.err
