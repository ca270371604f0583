"""SIGKILL at any moment while many clients publish: every subscription has the same afterwards.

One data directory goes through many lives. Senders pipeline to a topic while receivers take and
complete messages of its subscriptions; then the process is killed, or now and then stopped. What
was acknowledged is in every subscription that wants it, once; what was not is in all or in none.
"""

import asyncio
import random
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adversity.conftest import LOCKS_END
from adversity.letters import Received, letter
from adversity.load import Inbox, LoadClient, load_client
from adversity.victim import Victim
from adversity.waiting import wait_until_async
from partibus.client.errors import RemoteError

SUBSCRIPTIONS = ("all", "too", "sevens")
SENDERS = 6
WINDOW = 100
SIZES = (1, 40, 1000, 4000, 20_000)
STOP_SHARE = 0.25
LIFE_SECONDS_MAX = 60
SHAPES = {"whole": "", "parted": "enable_partitioning = true\npartition_count = 4\n"}


def declare_topic(path: Path, shape: str) -> Path:
    block = [
        LOCKS_END,
        "[[topic]]",
        'name = "news"',
        "max_size_in_megabytes = 81920",
        SHAPES[shape],
    ]
    for name in SUBSCRIPTIONS:
        block += ["[[topic.subscription]]", f'name = "{name}"', 'lock_duration = "PT5M"']
        block += ["max_delivery_count = 1000"]
        if name == "sevens":
            block += ["[[topic.subscription.rule]]", 'name = "sevens"']
            block += ["sql_filter = \"sys.MessageId LIKE '%7'\"", 'action = "SET seven = 1"']
    path.write_text("\n".join(block), encoding="utf-8")
    return path


def is_wanted(name: str, subscription: str) -> bool:
    return subscription != "sevens" or name.endswith("7")


class Press:
    """What is known of the topic, over all lives of the server."""

    def __init__(self, victim: Victim, seed: int) -> None:
        self.victim = victim
        self.rng = random.Random(seed)
        self.acknowledged: set[str] = set()
        self.sent: set[str] = set()
        self.completing: dict[str, set[str]] = {name: set() for name in SUBSCRIPTIONS}
        self.completed: dict[str, set[str]] = {name: set() for name in SUBSCRIPTIONS}

    # --- under load -------------------------------------------------------------------------

    async def live(self, life: int) -> signal.Signals:
        """One life under load; ends with the signal that was drawn."""
        end = signal.SIGTERM if self.rng.random() < STOP_SHARE else signal.SIGKILL
        over = asyncio.Event()
        ends_after = len(self.acknowledged) + self.rng.randrange(1, 1500)

        def accepted(name: object) -> None:
            self.acknowledged.add(str(name))
            if len(self.acknowledged) >= ends_after and not over.is_set():
                self.victim.begin_to_end(end)
                over.set()

        async with asyncio.timeout(LIFE_SECONDS_MAX), AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(load_client(self.victim)) for _ in range(3)]
            work = []
            for number in range(SENDERS):
                pipeline = await clients[number % 3].pipeline("news", accepted)
                letters = self.letters(f"life{life}.{number}")
                work.append(pipeline.post(letters, window=WINDOW))
            work += [
                self.consume(client, name)
                for client, name in zip(clients, SUBSCRIPTIONS, strict=True)
            ]
            tasks = [asyncio.create_task(one) for one in work]
            await over.wait()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert not [outcome for outcome in outcomes if not isinstance(outcome, RemoteError)]
        return end

    def letters(self, prefix: str) -> Iterator[tuple[object, bytes, int]]:
        number = 0
        while True:
            name = f"{prefix}.{number}"
            number += 1
            self.sent.add(name)
            yield name, letter(name, self.rng.choice(SIZES)), 0

    async def consume(self, client: LoadClient, name: str) -> None:
        inbox = await client.inbox(f"news/Subscriptions/{name}", credit=30)
        while True:
            taken = await inbox.some()
            chosen = [one for one in taken if self.rng.random() < 0.5]
            names = {received.name for received, _ in chosen}
            self.completing[name] |= names
            await inbox.settle([message for _, message in chosen])
            self.completed[name] |= names

    # --- after a restart ----------------------------------------------------------------------

    async def check(self) -> None:
        """All of every subscription, each once."""
        found: dict[str, set[str]] = {}
        async with asyncio.timeout(LIFE_SECONDS_MAX), load_client(self.victim) as client:
            for name in SUBSCRIPTIONS:
                expected = self.expected(name)
                inbox = await client.inbox(f"news/Subscriptions/{name}", credit=1000)
                received = await everything(inbox, expected)
                names = [one.name for one in received]
                assert len(names) == len(set(names)), f"delivered twice in {name}"
                missing = expected - set(names)
                assert not missing, f"{len(missing)} are lost in {name}, like {sorted(missing)[:5]}"
                assert not self.completed[name] & set(names), f"completed ones are back in {name}"
                assert all(is_wanted(one, name) for one in names)
                found[name] = set(names)
                await inbox.settle([message for _, message in inbox.taken])
                self.completing[name] |= found[name]
                self.completed[name] |= found[name]
        self.check_the_unacknowledged(found)

    def check_the_unacknowledged(self, found: dict[str, set[str]]) -> None:
        """Nobody was told of them: they are everywhere, or nowhere."""
        for name in self.sent - self.acknowledged:
            there = {
                subscription: name in found[subscription] | self.completing[subscription]
                for subscription in SUBSCRIPTIONS
                if is_wanted(name, subscription)
            }
            assert len(set(there.values())) == 1, f"{name} is in some alone: {there}"

    def expected(self, subscription: str) -> set[str]:
        wanted = {name for name in self.acknowledged if is_wanted(name, subscription)}
        return wanted - self.completing[subscription]


async def everything(inbox: Inbox, expected: set[str]) -> list[Received]:
    def is_all_there() -> bool:
        return len(inbox.taken) >= len(expected)

    await wait_until_async(is_all_there, "all is received", seconds=30)
    await inbox.drain()
    return [received for received, _ in inbox.taken]


@pytest.mark.rule("ENT-3", "SEED-79")
@pytest.mark.parametrize("shape", SHAPES)
def test_every_subscription_has_what_was_acknowledged(
    tmp_path: Path, shape: str, seed: int
) -> None:
    config = declare_topic(tmp_path / "news.toml", shape)
    with Victim(tmp_path, config, "--stores", "2") as victim:
        press = Press(victim, seed)
        for life in range(5):
            end = asyncio.run(press.live(life))
            assert victim.ended() == (0 if end == signal.SIGTERM else -signal.SIGKILL)
            victim.start()
            asyncio.run(press.check())
        assert len(press.acknowledged) > 5
