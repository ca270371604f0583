"""A worker is killed under load: nothing acknowledged is lost, the others go on, it comes back."""

import asyncio
import contextlib
import json
import os
import signal
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError

from adversity.letters import letter
from adversity.load import LoadClient, load_client
from adversity.waiting import wait_until, wait_until_async
from partibus.client.errors import RemoteError
from support.receiving import bodies, collect
from support.workers import (
    STORES,
    WORKERS,
    WorkersServer,
    declare,
    is_alive,
    runtime_directories,
    served_by,
)
from workers.conftest import NewServer

SENDERS = 6
VICTIM = 1
QUEUE = "parts-0"
FAR = "plain-1"  # lives in store 1, which the victim writes
NEAR = "plain-0"


async def connect_to(
    server: WorkersServer, stack: contextlib.AsyncExitStack, worker: int
) -> LoadClient:
    """A connection that a certain worker serves; the kernel decides, so try until it is that."""
    for _ in range(200):
        client = await stack.enter_async_context(load_client(server))
        assert client._transport is not None
        if served_by(client._transport.get_extra_info("sockname")[1], server) == worker:
            return client
    raise AssertionError(f"no connection went to worker {worker}")


class Load:
    """Senders that never give up, and what was acknowledged to them."""

    def __init__(self, server: WorkersServer, queue: str) -> None:
        self._server = server
        self._queue = queue
        self.acknowledged: set[str] = set()
        self.refusals: Counter[str] = Counter()
        self._is_over = False

    async def run(self, number: int) -> None:
        """Send in rounds; a connection that is lost is made again."""
        sent = 0
        while not self._is_over:
            with contextlib.suppress(RemoteError, OSError):
                async with load_client(self._server) as client:
                    pipeline = await client.pipeline(self._queue, self._accepted)
                    while not self._is_over:
                        names = [f"{number}.{sent + n}" for n in range(100)]
                        sent += len(names)
                        await pipeline.post([(name, letter(name, 300), 0) for name in names])
                        self.refusals.update(pipeline.refusals)
                        pipeline.refusals.clear()

    def _accepted(self, name: object) -> None:
        assert isinstance(name, str)
        self.acknowledged.add(name)

    def end(self) -> None:
        self._is_over = True

    async def more(self, count: int) -> None:
        """Until so many more are acknowledged."""
        goal = len(self.acknowledged) + count
        await wait_until_async(lambda: len(self.acknowledged) >= goal, f"{count} more are accepted")


async def take_all(client: LoadClient, queue: str, wanted: set[str]) -> Counter[str]:
    """Every message of a queue, at least those that are wanted."""
    inbox = await client.inbox(queue, deletes=True)
    found: Counter[str] = Counter()

    def is_all_there() -> bool:
        found.update(received.name for received, _ in inbox.hand_out())
        return wanted <= found.keys()

    await wait_until_async(is_all_there, "all that was acknowledged is received")
    await inbox.drain()
    found.update(received.name for received, _ in inbox.hand_out())
    return found


@pytest.mark.rule("SEED-79")
def test_nothing_acknowledged_is_lost_and_the_others_go_on(server: WorkersServer) -> None:
    async def scenario() -> None:
        load = Load(server, QUEUE)
        senders = [asyncio.create_task(load.run(number)) for number in range(SENDERS)]
        await load.more(2000)
        for _ in range(2):
            offset = server.kill_worker(VICTIM)
            await load.more(2000)
            await asyncio.to_thread(server.wait_worker, VICTIM, offset)
            await load.more(2000)
        load.end()
        await asyncio.gather(*senders)
        async with load_client(server) as client:
            found = await take_all(client, QUEUE, load.acknowledged)
        assert max(found.values()) == 1, "delivered twice"
        # What had been sent to the victim has an unknown outcome; it is told, never repeated.
        assert set(load.refusals) <= {"com.microsoft:timeout", "com.microsoft:server-busy"}

    asyncio.run(scenario())
    assert server.stop() == 0


@pytest.mark.rule("SEED-29", "SEED-43")
def test_a_queue_of_the_lost_worker_fails_quickly_and_works_again(server: WorkersServer) -> None:
    async def scenario() -> None:
        async with contextlib.AsyncExitStack() as stack:
            client = await connect_to(server, stack, 1 - VICTIM)
            far, near = await client.pipeline(FAR), await client.pipeline(NEAR)
            inbox = await client.inbox(FAR)
            await far.post([("a", letter("a", 10), 0)])
            assert [r.name for r, _ in await inbox.some()] == ["a"]
            offset = server.kill_worker(VICTIM)
            await near.post([("b", letter("b", 10), 0)])
            assert near.refusals == []
            await asyncio.to_thread(server.wait_worker, VICTIM, offset)
            # The link has outlived the worker: what it had locked comes to it again, unlocked
            # by the loss (SEED-107), and new messages follow.
            again = [r.name for r, _ in await inbox.some()]
            assert again == ["a"]

            async def try_until_accepted() -> None:
                while True:
                    far.refusals.clear()
                    await far.post([("c", letter("c", 10), 0)])
                    if not far.refusals:
                        return
                    assert set(far.refusals) <= {
                        "com.microsoft:timeout",
                        "com.microsoft:server-busy",
                    }

            await asyncio.wait_for(try_until_accepted(), 60)
            assert [r.name for r, _ in await inbox.some()] == ["c"]

    asyncio.run(scenario())


@pytest.mark.rule("SEED-107")
def test_locks_of_the_lost_worker_are_lost(server: WorkersServer) -> None:
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        with client.get_queue_sender(QUEUE) as sender:
            for number in range(32):
                sender.send_messages(ServiceBusMessage(f"{number}"))
        with client.get_queue_receiver(QUEUE) as receiver:
            held = collect(receiver, 32)
            offset = server.kill_worker(VICTIM)
            server.wait_worker(VICTIM, offset)
            lost = 0
            with client.get_queue_receiver(QUEUE) as other:
                for message in held:
                    try:
                        other.renew_message_lock(message)
                    except MessageLockLostError:
                        lost += 1
                assert lost == 16, "half of the fragments were the victim's"
                again = collect(other, 16)
                assert len(set(bodies(again))) == 16


def test_health_names_the_worker_that_is_down(new_server: NewServer) -> None:
    # It is never replaced: all questions are asked while it stands still, however long that takes.
    server = new_server(settings="worker_timeout_s = 0")
    os.kill(server.worker_pids()[VICTIM], signal.SIGSTOP)
    try:
        wait_until(
            lambda: f"Worker {VICTIM} does not answer" in health(server),
            "health names the worker",
        )
        wait_until(
            lambda: "does not answer" in health(server, "/livez"),
            "the loop of the worker is missed",
        )
        # Its restart is the server's own affair: to restart all of it would take longer.
        wait_until(lambda: '"alive"' in health(server, "/livez"), "the server itself is alive")
        wait_until(
            lambda: "not ready" in health(server, "/readyz"), "no clients are to be sent here"
        )
    finally:
        os.kill(server.worker_pids()[VICTIM], signal.SIGCONT)
    wait_until(lambda: '"healthy"' in health(server), "it is healthy again")


def health(server: WorkersServer, path: str = "/health") -> str:
    """What a health page says; nothing when it does not answer, as a stopped worker does."""
    url = f"http://127.0.0.1:{server.ready.http_port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return json.dumps(json.load(answer))
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()
    except OSError:
        return ""


def test_a_stop_ends_all_and_a_start_finds_all(server: WorkersServer) -> None:
    pids = server.worker_pids()
    assert sorted(pids) == list(range(WORKERS))
    assert len(list(server.data.glob("store-*"))) == STORES
    connect = ServiceBusClient.from_connection_string
    with connect(server.connection_string) as client, client.get_queue_sender(QUEUE) as sender:
        sender.send_messages([ServiceBusMessage(f"batch {n}") for n in range(5)])
        for number in range(20):
            sender.send_messages(ServiceBusMessage(f"{number}"))
    assert server.stop() == 0
    assert not any(map(is_alive, pids.values()))
    assert server.further_output() == []
    server.start()
    with connect(server.connection_string) as client, client.get_queue_receiver(QUEUE) as receiver:
        assert len(set(bodies(collect(receiver, 25)))) == 25


def test_no_worker_outlives_the_supervisor(server: WorkersServer) -> None:
    pids = server.worker_pids()
    (runtime,) = runtime_directories(pids[0])
    server.sigkill()
    wait_until(lambda: not any(map(is_alive, pids.values())), "the workers have ended")
    assert not runtime.exists()


def test_a_server_in_memory_has_workers_too(new_server: NewServer) -> None:
    server = new_server("--memory")
    with ServiceBusClient.from_connection_string(server.connection_string) as client:
        with client.get_queue_sender(QUEUE) as sender:
            for number in range(20):
                sender.send_messages(ServiceBusMessage(f"{number}"))
        with client.get_queue_receiver(QUEUE) as receiver:
            assert len(set(bodies(collect(receiver, 20)))) == 20
    assert not server.data.exists()
    assert server.stop() == 0


def test_a_worker_that_cannot_start_ends_the_server_with_its_reason(tmp_path: Path) -> None:
    server = WorkersServer(tmp_path, declare(tmp_path / "namespace.toml"))
    server.data.mkdir()
    (server.data / "store-1").write_text("not a directory")
    with pytest.raises(AssertionError, match="no READY line"):
        server.start()
    log = server.log_text()
    assert "store-1" in log
    assert "Traceback" not in log
    pids = server.worker_pids()
    wait_until(lambda: not any(map(is_alive, pids.values())), "no worker is left behind")
