"""Ten thousand connections that do nothing: the server holds them and serves the rest."""

import asyncio
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from adversity.conftest import QUEUES
from adversity.gauge import KILOBYTE, MEGABYTE, descriptor_count, resident_bytes
from adversity.intruder import OPEN, Intruder, opening
from adversity.letters import letter
from adversity.load import load_client
from adversity.victim import Victim
from adversity.waiting import wait_until

WANTED = 10_000
RESERVED_DESCRIPTORS = 1000
# Every third says hello; the others stay silent, as load balancers and port scanners do.
TALKING_SHARE = 3
BYTES_PER_CONNECTION_MAX = 30 * KILOBYTE
SLACK_BYTES = 40 * MEGABYTE
SERVED_SECONDS_MAX = 30
# On close the connection is reset, so that no port is kept in TIME_WAIT.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def connection_count() -> Iterator[int]:
    """As many as this process may open, at most as many as wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED + RESERVED_DESCRIPTORS
    limit = most if hard == resource.RLIM_INFINITY else min(hard, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    yield min(WANTED, limit - RESERVED_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def round_trips(victim: Victim) -> None:
    names = [f"visitor.{number}" for number in range(200)]
    async with asyncio.timeout(SERVED_SECONDS_MAX), load_client(victim) as client:
        pipeline = await client.pipeline(QUEUES[0])
        await pipeline.post([(name, letter(name, 500), 0) for name in names])
        inbox = await client.inbox(QUEUES[0], credit=100)
        taken = []
        while len(taken) < len(names):
            taken += await inbox.some()
        await inbox.settle([message for _, message in taken])
        assert [received.name for received, _ in taken] == names


def test_idle_connections_cost_little_and_hinder_nobody(
    server: Victim, connection_count: int
) -> None:
    asyncio.run(round_trips(server))
    before_bytes, before_count = resident_bytes(server.pid), descriptor_count(server.pid)
    hello = opening()
    with ExitStack() as stack:
        talking = []
        for number in range(connection_count):
            intruder = stack.enter_context(Intruder(server))
            linger = (socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            intruder.socket.setsockopt(*linger)
            if number % TALKING_SHARE == 0:
                intruder.send(hello)
                talking.append(intruder)
        for intruder in talking:
            intruder.await_any(OPEN)
        # The visitor from before may still have been counted, and have left since.
        wait_until(
            lambda: descriptor_count(server.pid) - before_count >= connection_count - 10,
            f"{connection_count} connections are accepted",
        )
        growth = resident_bytes(server.pid) - before_bytes
        print(f"{connection_count} connections: {growth / connection_count:.0f} bytes each")
        assert growth < SLACK_BYTES + BYTES_PER_CONNECTION_MAX * connection_count
        asyncio.run(round_trips(server))
    wait_until(
        lambda: descriptor_count(server.pid) - before_count < 100, "the connections are let go"
    )
    asyncio.run(round_trips(server))
