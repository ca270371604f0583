"""Two workers on four stores: one is killed and comes back, while the other goes on."""

import asyncio
import http.client
import itertools
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

from azure.servicebus.aio import ServiceBusClient
from proton import ConnectionException, Delivery

from conformance.partitioning.namespace import STORES
from conformance.partitioning.operator import Operator
from conformance.partitioning.partitions import counter_of, key_of_each, partition_of
from conformance.partitioning.traffic import Traffic, run_to_the_end
from conformance.partitioning.wire import Wire, keyed, number_of, text
from conformance.settlement.backstage import ACTIVE, DEFERRED, SCHEDULED
from conformance.settlement.namespace import write_queues
from conformance.settlement.steps import seconds, until, utc_now
from support.proton.client import LOCK_TOKEN
from support.server import ServerProcess

pytestmark = pytest.mark.group("proton")

WORKERS = 2
KILLED = 1  # the worker that is killed in every test
UNKNOWN = "com.microsoft:timeout"
CRASHES_MAX = 4
SERVES_AGAIN = f"worker {KILLED} serves again"

_FOUR = {"enable_partitioning": "true", "partition_count": "4"}
QUEUES = {
    **{f"four-{number}": _FOUR for number in range(10)},
    **{f"busy-{number}": _FOUR | {"lock_duration": '"PT2S"'} for number in range(3)},
    "spread": {"enable_partitioning": "true"},
    "whole": {},
}


class Workers:
    """The worker processes of the server, as its log names them."""

    _STARTED = re.compile(r"worker (\d+) runs as process (\d+)")

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._operator = Operator(server)

    def pid(self, number: int) -> int:
        pids = {int(worker): int(pid) for worker, pid in self._starts()}
        return pids[number]

    def kill(self, number: int) -> None:
        """As a crash would; returns when the worker is gone and started again."""
        before = len(self._starts())
        os.kill(self.pid(number), signal.SIGKILL)
        until("the worker to be started again", lambda: len(self._starts()) > before)

    def await_available(self, queue: str) -> None:
        """Return when every partition can be used again, from every worker.

        A question meets any worker, so it is asked until it must have met both."""
        until(
            f"all of {queue}",
            lambda: all(self._availability(queue) == "Available" for _ in range(16)),
        )

    def kill_until_limited(self, queue: str) -> None:
        """Kill the worker, and return while the loss shows; it may be back after a quarter second.

        Six crashes within a minute end a server, so this looks without a pause, and kills again
        only a worker that serves."""
        for _ in range(CRASHES_MAX):
            served = self._server.log_text().count(SERVES_AGAIN)
            os.kill(self.pid(KILLED), signal.SIGKILL)
            while self._server.log_text().count(SERVES_AGAIN) == served:
                if self._availability(queue) == "Limited":
                    return
        raise AssertionError(f"no loss of a worker showed in the availability of {queue}")

    def _availability(self, queue: str) -> str | None:
        # The question may meet the worker that is dying.
        with suppress(OSError, http.client.HTTPException):
            availability: str = self._operator.entity(queue)["availability"]
            return availability
        return None

    def _starts(self) -> list[tuple[str, str]]:
        return self._STARTED.findall(self._server.log_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("workers")
    config = write_queues(directory / "namespace.toml", QUEUES)
    flags = ("--stores", str(STORES), "--workers", str(WORKERS), "--faults")
    with ServerProcess(directory, config, *flags) as process:
        yield process


@pytest.fixture
def operator(server: ServerProcess) -> Operator:
    return Operator(server)


@pytest.fixture
def workers(server: ServerProcess) -> Workers:
    """Those of a supervisor that has seen no crash: six within a minute, which the tests here reach
    together on a quick machine, end a server."""
    server.stop()
    server.start()
    return Workers(server)


_numbers = {kind: itertools.count() for kind in ("four", "busy")}


def fresh(kind: str = "four") -> str:
    """A queue that no other test uses."""
    name = f"{kind}-{next(_numbers[kind])}"
    assert name in QUEUES, f"declare more queues of the kind {kind!r}"
    return name


def survivors(wires: list[Wire], work: Callable[[Wire], None]) -> list[Wire]:
    """The connections that bear the work; the others went with their worker."""
    alive = []
    for wire in wires:
        with suppress(ConnectionException):
            work(wire)
            alive.append(wire)
    return alive


@pytest.mark.rule("SEED-1", "SEED-2", "SEED-3", "SEED-6")
def test_partitions_are_spread_evenly_over_the_workers_and_a_store_has_one(
    operator: Operator,
) -> None:
    placement, runners = operator.placement("spread"), operator.workers("spread")
    assert {runners.count(worker) for worker in range(WORKERS)} == {16 // WORKERS}
    pairs = set(zip(placement, runners, strict=True))
    assert len(pairs) == STORES, "one worker writes to a store"
    assert len(operator.workers("whole")) == 1


@pytest.mark.rule("SEED-8", "SEED-10", "SEED-66", "SEED-28")
def test_every_connection_reaches_all_partitions(server: ServerProcess) -> None:
    """Connections land on either worker; no client can tell."""
    queue = fresh()
    keys = key_of_each(4)
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server)) for _ in range(8)]
        for number, wire in enumerate(wires):
            wire.fill(queue, (keyed(f"{number} {key}", key) for key in keys))
        for wire in reversed(wires):
            messages = wire.take(queue, 4)
            assert len(messages) == 4
        assert wires[0].peek(queue) == []


@pytest.mark.rule("PAV-8", "SEQ-2", "SEQ-4")
def test_a_killed_worker_comes_back_with_everything_that_was_acknowledged(
    server: ServerProcess, workers: Workers
) -> None:
    queue = fresh()
    with Wire(server) as wire:
        wire.fill(queue, (keyed("deferred", key) for key in key_of_each(4)))
        receiver = wire.receiver(queue, credit=4)
        node = wire.management(queue)
        for message, _ in receiver.wait_for(4):
            assert node.settle("defered", message.instructions[LOCK_TOKEN]).status == 200
        wire.fill(queue, (keyed("active") for _ in range(40)))
        receiver.link.flow(8)
        receiver.wait_for(8)  # locked, which a worker forgets when it dies
        later = utc_now() + seconds(3600)
        wire.fill(queue, (keyed("scheduled", key, due=later) for key in key_of_each(4)))
        before = [(item.body, item.number, item.state) for item in wire.peek(queue)]
    workers.kill(KILLED)
    workers.await_available(queue)
    with Wire(server) as wire:
        after = [(item.body, item.number, item.state) for item in wire.peek(queue)]
        assert sorted(after) == sorted(before)
        states = [state for _, _, state in after]
        assert [states.count(s) for s in (ACTIVE, DEFERRED, SCHEDULED)] == [40, 4, 4]
        # Numbers go on where they ended, in every partition.
        wire.fill(queue, (keyed("new", key) for key in key_of_each(4)))
        for item in wire.peek(queue):
            if item.body == "new":
                ends = [n for _, n, _ in before if partition_of(n) == partition_of(item.number)]
                assert counter_of(item.number) > counter_of(max(ends))
        deferred = [number for body, number, _ in before if body == "deferred"]
        reply = wire.management(queue).receive_deferred(*deferred)
        assert len(reply.messages()) == 4


@pytest.mark.rule("SEED-4", "SEED-62", "PAV-1", "PAV-5")
def test_meanwhile_the_availability_is_limited_and_the_others_go_on(
    server: ServerProcess, workers: Workers
) -> None:
    queue = fresh()
    kept = [p for p, w in enumerate(Operator(server).workers(queue)) if w != KILLED]
    keys = [key_of_each(4)[partition] for partition in kept]
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server)) for _ in range(12)]
        workers.kill_until_limited(queue)
        alive = survivors(wires, lambda wire: wire.fill(queue, (keyed(k, k) for k in keys * 5)))
        assert alive, "half of the connections, more or less, are with the other worker"
        expected = 5 * len(keys) * len(alive)
        assert len(alive[0].take(queue, expected)) == expected
    workers.await_available(queue)


@pytest.mark.rule("PAV-1", "PAV-2", "SEED-40", "ERR-24", "ERR-11")
def test_sends_that_were_with_the_killed_worker_are_told_to_be_open_and_not_sent_elsewhere(
    server: ServerProcess, operator: Operator, workers: Workers
) -> None:
    """Accepted is stored; where it cannot be known the client is told so, and nothing doubled."""
    queue = fresh()
    answers: dict[str, Delivery] = {}
    struck = {
        store
        for store, worker in zip(operator.placement(queue), operator.workers(queue), strict=True)
        if worker == KILLED
    }
    for store in struck:
        operator.slow_store(store, 60_000)  # so that its sends are under way when it dies
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server)) for _ in range(8)]
        posted: list[tuple[Wire, dict[str, Delivery]]] = []
        for number, wire in enumerate(wires):
            names = [f"{number}-{n}" for n in range(100)]
            deliveries = wire.pipeline(wire.sender(queue).link, map(keyed, names))
            wire.wait(lambda d=deliveries: sum(one.settled for one in d) == 50, "half of them")
            posted.append((wire, dict(zip(names, deliveries, strict=True))))
        workers.kill(KILLED)
        for wire, deliveries in posted:
            with suppress(ConnectionException):
                wire.await_answers(list(deliveries.values()))
                answers |= deliveries
        accepted = {n for n, d in answers.items() if d.remote_state == Delivery.ACCEPTED}
        told = {d.remote.condition.name for n, d in answers.items() if n not in accepted}
        assert len(accepted) == len(answers) // 2
        assert told == {UNKNOWN}
    workers.await_available(queue)
    with Wire(server) as wire:
        receiver = wire.receiver(queue)
        receiver.link.drain(5000)
        wire.wait(lambda: receiver.link.credit == 0, "the answer to drain")
        found = [text(message) for message, _ in receiver.wait_for(receiver.arrived)]
    assert len(found) == len(set(found)), "nothing was stored twice"
    assert accepted <= set(found)


@pytest.mark.rule("PAV-2", "SEED-4", "PAV-8")
def test_a_receiver_on_the_other_worker_gets_the_rest_when_it_is_back(
    server: ServerProcess, workers: Workers
) -> None:
    queue = fresh()
    with Wire(server) as sender:
        sender.fill(queue, (keyed(str(number)) for number in range(40)))
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server)) for _ in range(8)]
        receivers = {wire: wire.receiver(queue) for wire in wires}
        workers.kill(KILLED)
        (wire, *_) = survivors(wires, lambda wire: wire.round_trip("whole"))
        receiver = receivers[wire]
        receiver.link.flow(60)
        messages = [message for message, _ in receiver.wait_for(40)]
    assert sorted(int(text(message)) for message in messages) == list(range(40))
    assert {partition_of(number_of(message)) for message in messages} == {0, 1, 2, 3}


@pytest.mark.rule("SEED-4", "SEED-59", "PAV-1", "PAV-2", "PAV-8", "SEQ-10")
def test_with_traffic_running_nothing_acknowledged_is_lost_or_settled_twice(
    server: ServerProcess, workers: Workers
) -> None:
    queue = fresh("busy")
    runners = Operator(server).workers(queue)
    struck = {p for p, worker in enumerate(runners) if worker == KILLED}

    async def watch(traffic: Traffic) -> None:
        """A crash with traffic before it, during it and after it."""
        try:
            await traffic.progress(100)
            await asyncio.to_thread(workers.kill, KILLED)
            await traffic.progress(200)
            await asyncio.to_thread(workers.await_available, queue)
            await traffic.progress(100)
        finally:
            traffic.stop.set()

    async def story() -> None:
        async with ServiceBusClient.from_connection_string(
            server.connection_string, retry_total=0
        ) as client:
            traffic = Traffic(client, queue)
            await asyncio.gather(
                watch(traffic),
                *(traffic.send_keyless() for _ in range(4)),
                *map(traffic.send_keyed, key_of_each(4)),
                *(traffic.receive() for _ in range(3)),
            )
        assert traffic.refused <= struck, "sends with a key are refused there and nowhere else"
        traffic.check()
        left = await asyncio.to_thread(bodies_left, server, queue)
        assert left <= traffic.open | traffic.open_settlements

    run_to_the_end(story())


def bodies_left(server: ServerProcess, queue: str) -> set[object]:
    with Wire(server) as wire:
        return {item.body for item in wire.peek(queue)}
