"""A clean stop under load: what is stored is confirmed before the connection closes.

A sender that hears nothing of a stored message sends it again. So after a stop the queue must hold
exactly what was confirmed, with one worker and with several, while senders keep their windows full.
"""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from adversity.conftest import QUEUES, NewServer
from adversity.letters import letter
from adversity.load import LoadClient, load_client
from adversity.victim import Victim
from partibus.client.errors import RemoteError

CONNECTIONS = 4
WINDOW = 1000
STOP_AFTER = 3000
LIMIT_SECONDS = 60


def endless(prefix: str) -> Iterator[tuple[object, bytes, int]]:
    number = 0
    while True:
        name = f"{prefix}.{number}"
        yield name, letter(name, 1000), 0
        number += 1


async def send_until_stopped(victim: Victim, confirmed: dict[str, set[str]]) -> list[RemoteError]:
    """Keep every window full until the server has closed every connection."""
    count = 0

    def accept(queue: str, name: object) -> None:
        nonlocal count
        confirmed[queue].add(str(name))
        count += 1
        if count == STOP_AFTER:
            victim.begin_to_end(signal.SIGTERM)

    async def send(client: LoadClient, queue: str, prefix: str) -> None:
        pipeline = await client.pipeline(queue, lambda name: accept(queue, name))
        await pipeline.post(endless(prefix), window=WINDOW)

    async with asyncio.timeout(LIMIT_SECONDS), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(load_client(victim)) for _ in range(CONNECTIONS)]
        work = [
            send(client, QUEUES[index % len(QUEUES)], f"sender{index}")
            for index, client in enumerate(clients)
        ]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
    errors = [outcome for outcome in outcomes if isinstance(outcome, RemoteError)]
    assert len(errors) == CONNECTIONS, outcomes
    return errors


async def stored(victim: Victim, queue: str) -> list[str]:
    """The names of all messages of a queue."""
    async with asyncio.timeout(LIMIT_SECONDS), load_client(victim) as client:
        names: list[str] = []
        while True:
            inbox = await client.inbox(queue, credit=0, deletes=True)
            await inbox.drain()
            if not inbox.taken:
                return names
            names += [received.name for received, _ in inbox.taken]


@pytest.mark.parametrize("flags", [(), ("--workers", "2", "--stores", "4")], ids=["one", "two"])
def test_what_is_stored_is_confirmed_before_the_stop(
    new_server: NewServer, flags: tuple[str, ...]
) -> None:
    victim = new_server(None, *flags)
    victim.start()
    confirmed: dict[str, set[str]] = {queue: set() for queue in QUEUES}
    errors = asyncio.run(send_until_stopped(victim, confirmed))
    assert victim.ended() == 0
    for error in errors:
        assert error.condition == "amqp:connection:forced"
        assert "reconnect" in str(error)
    victim.start()
    for queue in QUEUES:
        names = asyncio.run(stored(victim, queue))
        unconfirmed = [name for name in names if name not in confirmed[queue]]
        assert not unconfirmed, f"{len(unconfirmed)} of {len(names)} are stored but not confirmed"
        assert len(names) == len(confirmed[queue])
    assert victim.stop() == 0
