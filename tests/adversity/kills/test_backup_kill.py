"""Backups under load over two workers and four stores: whichever is restored, each message once.

Senders feed the first queue of a chain; couriers carry the messages over four stores to the third.
Backups are made meanwhile, and workers or the whole server are killed between them and during one.
Every backup that was made is restored and started: what was acknowledged before it began arrives
exactly once, in order, and so does what is sent afterwards, which marks that are ahead of an outbox
would swallow.
"""

import asyncio
import os
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from adversity.kills.test_forwarding_kill import (
    CHAINS,
    RUN_SECONDS_MAX,
    SENDERS,
    Senders,
    check,
    declare,
    drained,
    has_forwarded_all,
    keyed,
    whole_totals,
)
from adversity.load import load_client
from adversity.waiting import wait_until, wait_until_async
from cli.command import Partibus
from conformance.partitioning.operator import Operator
from support.workers import WORKERS, WorkersServer

LATER = 60
pytestmark = pytest.mark.timeout(1200)
"""Many servers are started one after the other, which takes long on a busy machine."""


@dataclass(slots=True)
class Made:
    """A backup, and what had been acknowledged before it was asked for."""

    id: str
    acknowledged: set[str]


class Backups:
    """Backups of one server, made one after the other."""

    def __init__(self, server: WorkersServer, senders: Senders, directory: Path) -> None:
        self._server = server
        self._senders = senders
        self.directory = directory
        self.made: list[Made] = []

    async def make(self) -> None:
        before = set(self._senders.acknowledged)
        command = Partibus(self._server.connection_string)
        arguments = ("backup", "--to", str(self.directory), "--json")
        done = await asyncio.to_thread(command.process, *arguments)
        assert done.code == 0, done
        self.made.append(Made(done.json["id"], before))

    async def make_and_kill(self, rng: random.Random) -> None:
        """Begin one, and cut the power while it is being made, or a little before or after."""
        command = Partibus(self._server.connection_string)
        process = command.start("backup", "--to", str(self.directory))
        target = len(self._senders.acknowledged) + rng.randint(1, 1500)
        await wait_until_async(partial(self._senders.has, target), f"{target} sends")
        await asyncio.to_thread(self._server.sigkill)
        await asyncio.to_thread(process.communicate, None, 60)
        await asyncio.to_thread(self._server.start)


async def send_and_back_up(
    server: WorkersServer, senders: Senders, backups: Backups, rng: random.Random, times: int
) -> None:
    for turn in range(times):
        target = len(senders.acknowledged) + rng.randint(200, 800)
        await wait_until_async(partial(senders.has, target), f"{target} sends")
        await backups.make()
        if turn % 2 == 0:
            worker = rng.randrange(WORKERS)
            offset = server.kill_worker(worker)
            await asyncio.to_thread(server.wait_worker, worker, offset)
        else:
            await backups.make_and_kill(rng)
    await backups.make()
    senders.is_over = True


async def run(
    server: WorkersServer, senders: Senders, backups: Backups, seed: int, times: int
) -> None:
    async with asyncio.timeout(RUN_SECONDS_MAX), asyncio.TaskGroup() as group:
        for number in range(SENDERS):
            group.create_task(senders.run(number))
        rng = random.Random(seed)
        group.create_task(send_and_back_up(server, senders, backups, rng, times))


async def send_more(server: WorkersServer, queue: str) -> set[str]:
    names = [f"later.{number:04d}" for number in range(LATER)]
    accepted: set[object] = set()
    async with asyncio.timeout(RUN_SECONDS_MAX), load_client(server) as client:
        pipeline = await client.pipeline(queue, accepted.add)
        for number, name in enumerate(names):
            await pipeline.post([(name, keyed(name, f"k{number % SENDERS}"), 0)])
        await wait_until_async(lambda: len(accepted) == LATER, "the later sends")
    return set(names)


def check_restored(
    backups: Backups,
    made: Made,
    senders: Senders,
    chain: tuple[str, ...],
    place: Path,
    flags: tuple[str, ...],
) -> None:
    Partibus(None)(
        *("restore", str(backups.directory), "--data", str(place / "data")),
        *("--backup", made.id),
    )
    server = WorkersServer(place, declare(place / "namespace.toml"), *flags)
    server.start()
    try:
        later = asyncio.run(send_more(server, chain[0]))
        operator = Operator(server)
        for queue in chain[:2]:
            wait_until(partial(has_forwarded_all, operator, queue), f"'{queue}' is forwarded")
            assert whole_totals(operator, queue)["dead_letter"] == 0
        total = whole_totals(operator, chain[2])["active"]
        got = asyncio.run(drained(server, chain[2], total))
    finally:
        server.sigkill()
    names = [received.name for received in got]
    assert later <= set(names), f"{len(later - set(names))} that were sent later are lost"
    known = Senders(server, chain[0])
    known.acknowledged = made.acknowledged
    known.attempted = senders.attempted | later
    check(got, known)


def back_up_and_restore(
    directory: Path, chain: tuple[str, ...], seed: int, times: int, flags: tuple[str, ...] = ()
) -> None:
    server = WorkersServer(directory, declare(directory / "namespace.toml"), *flags)
    server.start()
    senders = Senders(server, chain[0])
    backups = Backups(server, senders, directory / "backups")
    try:
        asyncio.run(run(server, senders, backups, seed, times))
    finally:
        server.sigkill()
    verify = ("backup", "verify", str(backups.directory), "--deep", "--json", *flags)
    verified = Partibus(None)(*verify).json
    assert {made.id for made in backups.made} <= {one["id"] for one in verified["backups"]}
    for number, made in enumerate(backups.made):
        place = directory / f"restored-{number}"
        place.mkdir()
        check_restored(backups, made, senders, chain, place, flags)


@pytest.mark.parametrize("chain", CHAINS)
def test_every_backup_under_kills_is_whole(tmp_path: Path, chain: str, seed: int) -> None:
    back_up_and_restore(tmp_path, CHAINS[chain], seed, times=2)


def test_every_backup_of_an_encrypted_server_is_whole(tmp_path: Path, seed: int) -> None:
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    flags = ("--encryption-key-file", str(key))
    back_up_and_restore(tmp_path, CHAINS["mixed"], seed, times=1, flags=flags)


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
def test_many_backups_under_kills(tmp_path: Path, chain: str, seed: int) -> None:
    back_up_and_restore(tmp_path, CHAINS[chain], seed, times=8)
