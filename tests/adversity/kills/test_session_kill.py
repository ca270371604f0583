"""Competing session receivers while the server is killed: order, one holder, each once.

Senders have put messages into many sessions. Receivers accept whichever session comes next,
complete some of its messages one after the other and let it go; the process is killed again and
again under them. In the end every message of every session was completed, in order.
"""

import asyncio
import itertools
import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adversity.letters import Received, body_of
from adversity.load import LoadClient, load_client
from adversity.victim import Victim
from partibus.amqp.codec.properties import MessageProperties, encode_properties
from partibus.amqp.codec.types import UInt
from partibus.client.errors import RemoteError
from partibus.client.links import Receiver

RECEIVERS = 8
PREFETCH = 3
RUN_SECONDS_MAX = 200
FILTER = "com.microsoft:session-filter"
QUEUES = {
    "whole": "",
    "parted": "enable_partitioning = true\npartition_count = 4\n",
}


def in_session(session_id: str, name: str) -> bytes:
    properties = MessageProperties(message_id=name, group_id=session_id)
    body = body_of(name, 60)
    data = b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body
    return encode_properties(properties) + data


class SessionAccount:
    """What is known of one session: how far it is completed, and what is in doubt."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done = 0
        """Messages that are certainly completed: the first so many."""
        self.is_next_in_doubt = False
        """The next was asked to be completed, and no answer came."""

    def begins_with(self, number: int) -> None:
        """A new holder is given this message first."""
        if number == self.done + 1 and self.is_next_in_doubt:
            self.done += 1
        assert number == self.done, f"message {number} came, but {self.done} are completed"
        self.is_next_in_doubt = False

    def is_finished(self) -> bool:
        return self.done + self.is_next_in_doubt >= self.count


class Crowd:
    """All receivers, and the server that is killed under them."""

    def __init__(self, victim: Victim, queue: str, sessions: int, messages: int, seed: int) -> None:
        self.victim = victim
        self.queue = queue
        self.messages = messages
        self.rng = random.Random(seed)
        self.accounts = {f"s{number}": SessionAccount(messages) for number in range(sessions)}
        self.incarnation = 0
        self.holders: dict[str, int] = {}
        """In which incarnation of the server a session was given to somebody who has it still."""
        self.completions = 0
        self.is_up = asyncio.Event()
        self.moved = asyncio.Event()

    def is_finished(self) -> bool:
        return all(account.is_finished() for account in self.accounts.values())

    async def send(self) -> None:
        """A message for every session in turn, several times over."""
        async with load_client(self.victim) as client:
            sender = await client.sender(self.queue)
            rounds = itertools.product(range(self.messages), self.accounts)
            await sender.send_many([in_session(name, f"{name}.{n}") for n, name in rounds])

    async def receive(self) -> None:
        """One receiver over all lives of the server."""
        while not self.is_finished():
            await self.is_up.wait()
            incarnation = self.incarnation
            try:
                async with load_client(self.victim) as client:
                    while not self.is_finished():
                        await self.work(await self.any_session(client), incarnation)
            except (RemoteError, OSError):
                # In vain for a session, or the server is gone: once more, with a new connection.
                await asyncio.sleep(0.01)

    async def any_session(self, client: LoadClient) -> Receiver:
        return await client.receiver(
            self.queue,
            filters={FILTER: None},
            properties={"com.microsoft:timeout": UInt(500)},
        )

    @staticmethod
    def session_of(receiver: Receiver) -> str:
        source = receiver.usable().source
        assert source is not None
        return str(source.filters[FILTER])

    async def work(self, receiver: Receiver, incarnation: int) -> None:
        """Hold a session for some of its messages."""
        session_id = self.session_of(receiver)
        assert self.holders.get(session_id) != incarnation, (
            f"{session_id} was given to two receivers"
        )
        self.holders[session_id] = incarnation
        account = self.accounts[session_id]
        wanted = self.rng.randint(1, self.messages)
        is_first = True
        while wanted and not account.is_finished():
            for message in await receiver.receive(min(wanted, PREFETCH)):
                name, _, number = Received(message.payload).name.partition(".")
                assert name == session_id
                if is_first:
                    account.begins_with(int(number))
                    is_first = False
                assert int(number) == account.done, "out of order"
                account.is_next_in_doubt = True
                await receiver.settle([message])
                account.done += 1
                account.is_next_in_doubt = False
                self.completions += 1
                self.moved.set()
                wanted -= 1
                if not wanted:
                    break
        self.holders.pop(session_id)
        await receiver.close()

    async def kill(self, times: int) -> None:
        """Let them work for a while each time."""
        total = len(self.accounts) * self.messages
        for number in range(times):
            target = total * (number + self.rng.random()) / (times + 1)
            while self.completions < target and not self.is_finished():
                self.moved.clear()
                await self.moved.wait()
            self.is_up.clear()
            await asyncio.to_thread(self.victim.sigkill)
            self.incarnation += 1
            await asyncio.to_thread(self.victim.start)
            self.is_up.set()

    async def run(self, times: int) -> None:
        async with asyncio.timeout(RUN_SECONDS_MAX), AsyncExitStack() as stack:
            await self.send()
            self.is_up.set()
            group = await stack.enter_async_context(asyncio.TaskGroup())
            group.create_task(self.kill(times))
            for _ in range(RECEIVERS):
                group.create_task(self.receive())

    async def nothing_is_left(self) -> None:
        """But last messages whose completion was never answered, and may have failed."""
        async with load_client(self.victim) as client:
            while True:
                try:
                    receiver = await self.any_session(client)
                except RemoteError as error:
                    assert error.condition == "com.microsoft:timeout"
                    return
                account = self.accounts[self.session_of(receiver)]
                assert account.is_next_in_doubt, "a message is left that nobody was given"
                (message,) = await receiver.receive(2)
                number = Received(message.payload).name.partition(".")[2]
                assert int(number) == account.count - 1


def work_and_die(directory: Path, queue: str, sessions: int, messages: int, times: int) -> None:
    config = directory / "namespace.toml"
    config.write_text(
        "\n".join(
            f'[[queue]]\nname = "{name}"\nrequires_session = true\nlock_duration = "PT5M"\n'
            f"max_delivery_count = 1000\n{extra}"
            for name, extra in QUEUES.items()
        ),
        encoding="utf-8",
    )
    victim = Victim(directory, config, "--stores", "2")
    victim.start()
    seed = random.SystemRandom().randrange(2**32)
    try:
        crowd = Crowd(victim, queue, sessions, messages, seed)

        async def all_of_it() -> None:
            await crowd.run(times)
            await crowd.nothing_is_left()

        asyncio.run(all_of_it())
    finally:
        if victim.is_started:
            victim.sigkill()
    assert crowd.incarnation == times
    assert all(account.is_finished() for account in crowd.accounts.values())


@pytest.mark.rule("SES-6", "SES-9", "SES-25", "SEED-31", "SEED-107")
@pytest.mark.parametrize("queue", QUEUES)
def test_sessions_are_completed_in_order_and_once(tmp_path: Path, queue: str) -> None:
    work_and_die(tmp_path, queue, sessions=200, messages=4, times=4)


@pytest.mark.slow
@pytest.mark.parametrize("queue", QUEUES)
def test_a_thousand_sessions_are_completed_in_order_and_once(tmp_path: Path, queue: str) -> None:
    work_and_die(tmp_path, queue, sessions=1000, messages=10, times=10)
