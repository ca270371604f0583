"""SIGKILL at any moment while many clients send: what was acknowledged is there afterwards.

One data directory goes through many lives. In each, senders pipeline over several
connections while receivers take and complete messages; then the process is killed, or now
and then stopped, and started again. Every life begins with a full account of all queues.
"""

import asyncio
import contextlib
import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from adversity.conftest import QUEUES, NewServer
from adversity.letters import BATCH_FORMAT, Received, batch_of, letter
from adversity.load import Inbox, LoadClient, Taken, load_client
from adversity.victim import Victim
from adversity.waiting import wait_until_async
from partibus.client.errors import RemoteError

CONNECTIONS = 4
SENDERS_PER_CONNECTION = 3
WINDOW = 200
SIZES = (1, 40, 200, 1000, 1000, 4000, 20_000)
LARGE = 400_000  # more than one frame
LARGE_SHARE = 0.003
STOP_SHARE = 0.25  # of the lives that end with SIGTERM, so that checkpoints are met too
LIFE_SECONDS_MAX = 60
RECEIVE_SECONDS_MAX = 20

Letters = Iterator[tuple[object, bytes, int]]


class Account:
    """What is known of one queue, over all lives of the server."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.sent: set[str] = set()
        self.acknowledged: set[str] = set()
        self.completing: set[str] = set()
        """Asked to be completed; until the answer comes they may be gone or not."""
        self.completed: set[str] = set()
        self.sequence_of: dict[str, int] = {}
        self.name_of: dict[int, str] = {}
        self.highest_sequence = 0
        """The highest number seen before the present life."""

    def saw(self, received: Received, life: int) -> None:
        """A delivery: its number is its own for ever, and higher than all of earlier lives."""
        name = received.name
        assert name in self.sent
        assert name not in self.completed, f"{name} came back after it was completed"
        sequence = self.sequence_of.setdefault(name, received.sequence)
        assert sequence == received.sequence, f"{name} changed its sequence number"
        owner = self.name_of.setdefault(received.sequence, name)
        assert owner == name, f"sequence number {received.sequence} was given to {owner} before"
        if name.startswith(f"life{life}."):
            assert received.sequence > self.highest_sequence, "sequence numbers went back"

    def check(self, found: list[Received], life: int) -> None:
        """Everything that a restart left, each once."""
        names = [received.name for received in found]
        assert len(names) == len(set(names)), "delivered twice under one lock"
        for received in found:
            self.saw(received, life)
        missing = self.expected() - set(names)
        assert not missing, f"{len(missing)} acknowledged are lost, like {sorted(missing)[:5]}"
        self._check_order(found)
        self.highest_sequence = max([self.highest_sequence, *self.name_of])

    def _check_order(self, found: list[Received]) -> None:
        """What one sender sent is numbered in the order of sending (SEQ-10)."""
        by_sender: dict[str, list[int]] = defaultdict(list)
        for received in sorted(found, key=lambda one: one.sequence):
            sender, _, number = received.name.rpartition(".")
            by_sender[sender].append(int(number))
        for sender, numbers in by_sender.items():
            assert numbers == sorted(numbers), f"the messages of {sender} changed places"

    def expected(self) -> set[str]:
        """What must be there."""
        return self.acknowledged - self.completing

    async def complete(self, inbox: Inbox, taken: list[Taken]) -> None:
        names = {received.name for received, _ in taken}
        self.completing |= names
        await inbox.settle([message for _, message in taken])
        self.completed |= names


def endless_letters(rng: random.Random, prefix: str, account: Account) -> Letters:
    """Single messages and batches, small and large."""
    number = 0
    while True:
        count = rng.choice((1, 1, 1, 1, 7))
        size = LARGE if count == 1 and rng.random() < LARGE_SHARE else rng.choice(SIZES)
        names = tuple(f"{prefix}.{number + index}" for index in range(count))
        number += count
        account.sent.update(names)
        encoded = [letter(name, size) for name in names]
        if count == 1:
            yield names, encoded[0], 0
        else:
            yield names, batch_of(encoded), BATCH_FORMAT


class Life:
    """One life of the server under load, up to its end."""

    def __init__(self, victim: Victim, rng: random.Random, number: int) -> None:
        self._victim = victim
        self._rng = rng
        self._number = number
        self.end_signal = signal.SIGTERM if rng.random() < STOP_SHARE else signal.SIGKILL
        self._acknowledged_count = 0
        self._ends_after_count = rng.randrange(1, 4000)
        self._ends_after_seconds = rng.choice((0.0, 0.0, rng.random() * 0.05))
        self._over = asyncio.Event()

    async def run(self, accounts: list[Account]) -> None:
        async with asyncio.timeout(LIFE_SECONDS_MAX), AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(load_client(self._victim))
                for _ in range(CONNECTIONS)
            ]
            work = []
            for index in range(CONNECTIONS * SENDERS_PER_CONNECTION):
                account = accounts[index % len(accounts)]
                rng = random.Random(self._rng.random())
                letters = endless_letters(rng, f"life{self._number}.{index}", account)
                work.append(self._send(clients[index % CONNECTIONS], account, letters))
            for client, account in zip(clients, accounts, strict=False):
                rng = random.Random(self._rng.random())
                work.append(self._consume(client, account, rng))
            tasks = [asyncio.create_task(one) for one in work]
            await self._over.wait()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        wrong = [outcome for outcome in outcomes if not isinstance(outcome, RemoteError)]
        assert not wrong

    async def _send(self, client: LoadClient, account: Account, letters: Letters) -> None:
        def accepted(names: object) -> None:
            assert isinstance(names, tuple)
            account.acknowledged.update(names)
            self._count(len(names))

        pipeline = await client.pipeline(account.queue, accepted)
        await pipeline.post(letters, window=WINDOW)

    def _count(self, more: int) -> None:
        """The end comes with or soon after the drawn acknowledgement."""
        before = self._acknowledged_count
        self._acknowledged_count += more
        if before < self._ends_after_count <= self._acknowledged_count:
            loop = asyncio.get_running_loop()
            loop.call_later(self._ends_after_seconds, self._end)

    def _end(self) -> None:
        self._victim.begin_to_end(self.end_signal)
        self._over.set()

    async def _consume(self, client: LoadClient, account: Account, rng: random.Random) -> None:
        """Receive, complete some, keep the rest locked until the end."""
        inbox = await client.inbox(account.queue, credit=30)
        while True:
            taken = await inbox.some()
            for received, _ in taken:
                account.saw(received, self._number)
            await account.complete(inbox, [one for one in taken if rng.random() < 0.7])


async def settle_accounts(
    victim: Victim, accounts: list[Account], rng: random.Random, life: int
) -> None:
    """Take all of every queue through two receivers that compete; complete some of it."""
    async with asyncio.timeout(LIFE_SECONDS_MAX):
        async with load_client(victim) as one, load_client(victim) as other:
            for account in accounts:
                inboxes = [await one.inbox(account.queue), await other.inbox(account.queue)]
                await _take_all(inboxes, account)
                found = [received for inbox in inboxes for received, _ in inbox.taken]
                account.check(found, life)
                for inbox in inboxes:
                    taken = inbox.hand_out()
                    sequences = [received.sequence for received, _ in taken]
                    assert sequences == sorted(sequences), "delivered out of order"
                    await account.complete(inbox, [t for t in taken if rng.random() < 0.8])


async def _take_all(inboxes: list[Inbox], account: Account) -> None:
    """Until all is there that must be; then whatever else there is."""
    expected = account.expected()

    def is_all_there() -> bool:
        if sum(len(inbox.taken) for inbox in inboxes) < len(expected):
            return False
        return expected <= {received.name for inbox in inboxes for received, _ in inbox.taken}

    with contextlib.suppress(AssertionError):  # the account will say what is missing
        await wait_until_async(is_all_there, "all is received", seconds=RECEIVE_SECONDS_MAX)
    for inbox in inboxes:
        await inbox.drain()


def live_and_die(new_server: NewServer, seed: int, lives: int, *flags: str) -> None:
    rng = random.Random(seed)
    victim = new_server(None, *flags)
    victim.start()
    accounts = [Account(queue) for queue in QUEUES]
    for number in range(lives):
        life = Life(victim, rng, number)
        asyncio.run(life.run(accounts))
        exit_code = victim.ended()
        assert exit_code == (0 if life.end_signal == signal.SIGTERM else -signal.SIGKILL)
        victim.start()
        asyncio.run(settle_accounts(victim, accounts, rng, number))
    assert sum(len(account.acknowledged) for account in accounts) > lives


@pytest.mark.rule("SEED-79", "SEED-86", "SEQ-2", "SEQ-10")
def test_senders_lose_nothing_that_was_acknowledged(new_server: NewServer, seed: int) -> None:
    live_and_die(new_server, seed, 6)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_senders_lose_nothing_in_many_lives(new_server: NewServer, seed: int) -> None:
    live_and_die(new_server, seed, 40)
