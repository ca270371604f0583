"""A worker that hangs: it is replaced, and no client waits for it for long.

SIGSTOP is the hardest way to hang: the process holds its sockets and does nothing at all.
"""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from adversity.letters import letter
from adversity.load import load_client
from adversity.waiting import wait_until
from partibus.client.errors import RemoteError
from support.workers import WorkersServer, declare, is_alive

VICTIM = 1
CLIENTS = 24
QUEUES = [f"plain-{number}" for number in range(4)]
LIMIT_SECONDS = 90


async def connect_and_send(server: WorkersServer, number: int) -> None:
    """A client that connects again when its connection ends or its send is refused."""
    name = f"client{number}"
    accepted: list[object] = []
    while not accepted:
        try:
            async with load_client(server) as client:
                pipeline = await client.pipeline(QUEUES[number % 4], accepted.append)
                await pipeline.post([(name, letter(name, 100), 0)])
        except (OSError, RemoteError):
            continue


async def received(server: WorkersServer, queue: str) -> list[str]:
    async with load_client(server) as client:
        inbox = await client.inbox(queue, credit=0, deletes=True)
        await inbox.drain()
        return [one.name for one, _ in inbox.taken]


async def every_client_gets_through(server: WorkersServer) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        await asyncio.gather(*(connect_and_send(server, number) for number in range(CLIENTS)))


@pytest.mark.timeout(180)
def test_a_stopped_worker_is_replaced_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    with WorkersServer(tmp_path, declare(tmp_path / "namespace.toml")) as server:
        stopped = server.worker_pids()[VICTIM]
        offset = server.log.stat().st_size
        os.kill(stopped, signal.SIGSTOP)
        asyncio.run(every_client_gets_through(server))
        server.wait_worker(VICTIM, offset)
        assert not is_alive(stopped)
        assert server.worker_pids()[VICTIM] != stopped
        assert f"worker {VICTIM} (process {stopped}) has not answered" in server.log_text(offset)
        names: list[str] = []

        def all_are_there() -> bool:
            """The other worker may need a moment to find the new one."""
            for queue in QUEUES:
                names.extend(asyncio.run(received(server, queue)))
            return {f"client{number}" for number in range(CLIENTS)} <= set(names)

        wait_until(all_are_there, "all that was confirmed is there")
        assert server.stop() == 0


def started_again(server: WorkersServer, worker: int, dead: int) -> int:
    """The process of a worker that was started in the place of a dead one, as soon as it runs."""
    wait_until(lambda: server.worker_pids()[worker] != dead, f"worker {worker} is started again")
    return server.worker_pids()[worker]


@pytest.mark.timeout(180)
def test_a_worker_that_hangs_while_it_starts_is_replaced(tmp_path: Path) -> None:
    """It is stopped before it has done anything; 12 times the limit later it is given up."""
    config = declare(tmp_path / "namespace.toml")
    config.write_text("[server]\nworker_timeout_s = 1\n" + config.read_text())
    with WorkersServer(tmp_path, config) as server:
        first = server.worker_pids()[VICTIM]
        offset = server.kill_worker(VICTIM)
        second = started_again(server, VICTIM, first)
        os.kill(second, signal.SIGSTOP)
        server.wait_worker(VICTIM, offset)
        assert not is_alive(second)
        hung = f"worker {VICTIM} (process {second}) has made no progress for 12 s while starting"
        assert hung in server.log_text(offset)
        asyncio.run(every_client_gets_through(server))
        assert server.stop() == 0
