"""REST against several workers: any of them answers for any queue and any lock (HTP-5, LCK-6)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.rest.http_bus import HttpBus
from support.server import ServerProcess
from support.workers import declare


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("rest-workers")
    config = declare(directory / "namespace.toml")
    with ServerProcess(directory, config, "--workers", "2", "--stores", "4") as server:
        yield server


@pytest.mark.parametrize("queue", ["plain-0", "plain-1", "parts-0"])
def test_every_request_may_meet_another_worker(workers: ServerProcess, queue: str) -> None:
    bus = HttpBus(workers.ready.http_port)
    for number in range(12):
        assert bus.send(queue, str(number).encode()).status == 201
    # The kernel spreads the connections, and each request has its own.
    seen = set()
    for _ in range(12):
        locked = bus.lock(queue, timeout=10)
        assert locked.status == 201
        seen.add(locked.body)
        assert bus.renew(locked).status == 200
        assert bus.complete(locked) == 200
        assert bus.complete(locked) == 404
    assert seen == {str(number).encode() for number in range(12)}
    assert bus.take(queue).status == 204


def test_clients_that_vanish_at_any_worker_lose_nothing(workers: ServerProcess) -> None:
    bus = HttpBus(workers.ready.http_port)
    connections = [bus.connection() for _ in range(10)]
    for connection in connections:
        path = "/parts-1/messages/head?timeout=60"
        connection.request("DELETE", path, headers=bus.access())
    for connection in connections:
        connection.close()
    for number in range(5):
        bus.send("parts-1", str(number).encode())
    bodies = {bus.take("parts-1", timeout=30).body for _ in range(5)}
    assert bodies == {str(number).encode() for number in range(5)}
