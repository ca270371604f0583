"""A chain of three queues while workers and the whole server are killed: each message once.

Senders put keyed messages into the first queue; the courier of every fragment carries them over
four stores and two workers to the third. Workers are killed one at a time, and the server as a
whole, again and again. In the end what was acknowledged is in the third queue exactly once, in the
order of its key, and nothing is left on its way.
"""

import asyncio
import contextlib
import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from adversity.letters import Received, letter
from adversity.load import load_client
from adversity.waiting import wait_until, wait_until_async
from conformance.partitioning.operator import Operator
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.types import Symbol
from partibus.client.errors import RemoteError
from support.workers import WORKERS, WorkersServer

SENDERS = 6
BURST = 20
RUN_SECONDS_MAX = 200
CHAINS = {
    "parted": ("parted-0", "parted-1", "parted-2"),
    "mixed": ("mixed-0", "mixed-1", "mixed-2"),
}
_PARTED = "enable_partitioning = true\npartition_count = 4\n"
_SHAPES = {
    "parted-0": _PARTED,
    "parted-1": _PARTED,
    "parted-2": _PARTED,
    "mixed-0": "",
    "mixed-1": _PARTED,
    "mixed-2": "",
}


def declare(path: Path) -> Path:
    blocks = []
    for chain in CHAINS.values():
        for place, name in enumerate(chain):
            onward = f'forward_to = "{chain[place + 1]}"\n' if place < 2 else ""
            blocks.append(f'[[queue]]\nname = "{name}"\n{_SHAPES[name]}{onward}')
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def keyed(name: str, key: str) -> bytes:
    annotations = {Symbol("x-opt-partition-key"): key}
    return b"\x00\x53\x72" + encode_value(annotations) + letter(name, 200)


class Senders:
    """Send without end, each under its own key, and know what was acknowledged."""

    def __init__(self, server: WorkersServer, queue: str) -> None:
        self._server = server
        self._queue = queue
        self.acknowledged: set[str] = set()
        self.attempted: set[str] = set()
        self.is_over = False

    async def run(self, number: int) -> None:
        key, sent = f"k{number}", 0
        while not self.is_over:
            with contextlib.suppress(RemoteError, OSError):
                async with load_client(self._server) as client:
                    pipeline = await client.pipeline(self._queue, self._accepted)
                    while not self.is_over:
                        names = [f"{key}.{sent + n:06d}" for n in range(BURST)]
                        sent += BURST
                        self.attempted.update(names)
                        await pipeline.post([(name, keyed(name, key), 0) for name in names])

    def has(self, count: int) -> bool:
        """Whether so many sends were acknowledged."""
        return len(self.acknowledged) >= count

    def _accepted(self, name: object) -> None:
        assert isinstance(name, str)
        self.acknowledged.add(name)


async def kill_again_and_again(
    server: WorkersServer, senders: Senders, rng: random.Random, times: int
) -> None:
    """Each time after some more sends; every third time the whole server."""
    for turn in range(times):
        target = len(senders.acknowledged) + rng.randint(200, 800)
        await wait_until_async(partial(senders.has, target), f"{target} sends")
        if turn % 3 == 2:
            await asyncio.to_thread(server.sigkill)
            await asyncio.to_thread(server.start)
        else:
            worker = rng.randrange(WORKERS)
            offset = server.kill_worker(worker)
            await asyncio.to_thread(server.wait_worker, worker, offset)
    senders.is_over = True


async def send_and_kill(server: WorkersServer, senders: Senders, seed: int, times: int) -> None:
    async with asyncio.timeout(RUN_SECONDS_MAX), asyncio.TaskGroup() as group:
        for number in range(SENDERS):
            group.create_task(senders.run(number))
        group.create_task(kill_again_and_again(server, senders, random.Random(seed), times))


async def drained(server: WorkersServer, queue: str, count: int) -> list[Received]:
    """Everything that a queue holds, which must be so many."""
    got: list[Received] = []
    async with asyncio.timeout(RUN_SECONDS_MAX), load_client(server) as client:
        inbox = await client.inbox(queue, deletes=True)
        while len(got) < count:
            got += [received for received, _ in await inbox.some()]
        await inbox.drain()
        return got + [received for received, _ in inbox.hand_out()]


def totals(operator: Operator, queue: str) -> dict[str, int] | None:
    """The counts of a queue in one look; None while a worker does not answer for its part."""
    entity = operator.entity(queue)
    if any(fragment["state"] == "down" for fragment in entity["fragments"]):
        return None
    found: dict[str, int] = entity["totals"]
    return found


def whole_totals(operator: Operator, queue: str) -> dict[str, int]:
    """The counts of a queue, when all of it answers."""
    found: dict[str, int] = {}
    wait_until(
        lambda: bool(found.update(totals(operator, queue) or {}) or found), f"all of '{queue}'"
    )
    return found


def has_forwarded_all(operator: Operator, queue: str) -> bool:
    """What is active in one look may be in the outbox at the next, so both are looked at."""
    found = totals(operator, queue)
    return found is not None and found["active"] == found["transfer"] == 0


def check(got: list[Received], senders: Senders) -> None:
    names = [received.name for received in got]
    twice = [name for name, times in Counter(names).items() if times > 1]
    assert not twice, f"{len(twice)} messages came twice: {twice[:5]}"
    lost = senders.acknowledged - set(names)
    assert not lost, f"{len(lost)} of {len(senders.acknowledged)} are lost: {sorted(lost)[:5]}"
    assert set(names) <= senders.attempted
    ordered = sorted(got, key=lambda received: received.sequence)
    for number in range(SENDERS):
        mine = [r.name for r in ordered if r.name.startswith(f"k{number}.")]
        assert mine == sorted(mine), f"the messages of k{number} are out of order"


def forward_and_die(directory: Path, chain: tuple[str, ...], seed: int, times: int) -> None:
    server = WorkersServer(directory, declare(directory / "namespace.toml"))
    server.start()
    try:
        senders = Senders(server, chain[0])
        asyncio.run(send_and_kill(server, senders, seed, times))
        operator = Operator(server)
        for queue in chain[:2]:
            wait_until(
                partial(has_forwarded_all, operator, queue),
                f"'{queue}' has nothing left to forward",
            )
            assert whole_totals(operator, queue)["dead_letter"] == 0
        total = whole_totals(operator, chain[2])["active"]
        got = asyncio.run(drained(server, chain[2], total))
        assert len(got) == total
        check(got, senders)
        print(f"{len(senders.acknowledged)} acknowledged, {total} arrived, {times} kills")
    finally:
        server.sigkill()


@pytest.mark.rule("TXN-17", "FWD-8", "SEED-54", "SEED-56")
@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_under_kills_delivers_each_message_once(
    tmp_path: Path, chain: str, seed: int
) -> None:
    forward_and_die(tmp_path, CHAINS[chain], seed, times=4)


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_under_many_kills(tmp_path: Path, chain: str, seed: int) -> None:
    forward_and_die(tmp_path, CHAINS[chain], seed, times=15)
