"""A disk that fills up, and a stop in the middle of work: nothing acknowledged is lost.

The data directory lies on a small file system of its own, made for the test. While it is full
clients are told to try again later; when there is room again they are served, by the same
process.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

from adversity.conftest import QUEUES, NewServer
from adversity.letters import letter
from adversity.load import LoadClient, load_client
from adversity.victim import Victim
from adversity.waiting import wait_until, wait_until_async
from partibus.client.errors import RemoteError

QUEUE = QUEUES[0]
# With the ballast there is little more than the 64 MiB that are kept free.
DISK_MEGABYTES = 180
BALLAST_MEGABYTES = 90
BODY_BYTES = 500_000
POSTED_MAX = 600
MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for little."""
    yield from mounted(tmp_path / "disk", DISK_MEGABYTES)


def mounted(place: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own, as large as this."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


class Poster:
    """Sends until it is refused, and remembers what was not."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self.acknowledged: list[str] = []
        self.refusals: list[str] = []

    async def until_refused(self) -> None:
        async with load_client(self._victim) as client:
            pipeline = await client.pipeline(QUEUE, self._accepted)
            for _ in range(POSTED_MAX // 20):
                await pipeline.post(self._letters(20))
                if pipeline.refusals:
                    break
            self.refusals = pipeline.refusals

    def _letters(self, count: int) -> Iterator[tuple[object, bytes, int]]:
        first = len(self.acknowledged)
        for number in range(first, first + count):
            name = f"letter.{number}"
            yield name, letter(name, BODY_BYTES), 0

    def _accepted(self, name: object) -> None:
        self.acknowledged.append(str(name))


async def receive_all(victim: Victim, expected: list[str]) -> list[str]:
    """What must be there, then whatever else there is; all of it is completed."""
    async with load_client(victim) as client:
        inbox = await client.inbox(QUEUE, credit=20)
        await wait_until_async(
            lambda: set(expected) <= {received.name for received, _ in inbox.taken},
            "everything acknowledged is received",
        )
        await inbox.drain()
        taken = inbox.hand_out()
        await inbox.settle([message for _, message in taken])
        return [received.name for received, _ in taken]


def stock_client(victim: Victim) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(victim.connection_string, retry_total=0)


def can_send(victim: Victim, text: str) -> bool:
    with stock_client(victim) as client, client.get_queue_sender(QUEUES[1]) as sender:
        try:
            sender.send_messages(ServiceBusMessage(text))
        except ServiceBusServerBusyError:
            return False
    return True


def test_a_full_disk_refuses_sends_until_there_is_room(
    small_disk: Path, new_server: NewServer
) -> None:
    ballast = small_disk / "ballast"
    victim = new_server(small_disk / "server")
    victim.start()
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, BALLAST_MEGABYTES << 20)
    poster = Poster(victim)
    asyncio.run(poster.until_refused())
    assert poster.acknowledged
    assert set(poster.refusals) == {"com.microsoft:server-busy"}
    with stock_client(victim) as client, client.get_queue_sender(QUEUE) as sender:
        with pytest.raises(ServiceBusServerBusyError) as refused:
            sender.send_messages(ServiceBusMessage("no room"))
        assert refused.value._retryable
    pid = victim.pid

    ballast.unlink()
    wait_until(lambda: can_send(victim, "room again"), "sends are taken again")
    assert victim.pid == pid and victim.runs
    received = asyncio.run(receive_all(victim, poster.acknowledged))
    assert received[: len(poster.acknowledged)] == poster.acknowledged


def test_what_was_acknowledged_before_a_full_disk_survives_a_kill(
    small_disk: Path, new_server: NewServer
) -> None:
    ballast = small_disk / "ballast"
    victim = new_server(small_disk / "server")
    victim.start()
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, BALLAST_MEGABYTES << 20)
    poster = Poster(victim)
    asyncio.run(poster.until_refused())
    assert poster.refusals
    victim.sigkill()
    ballast.unlink()
    victim.start()
    received = asyncio.run(receive_all(victim, poster.acknowledged))
    assert received[: len(poster.acknowledged)] == poster.acknowledged
    assert len(received) == len(set(received))


def test_without_room_for_a_log_the_start_is_refused(
    small_disk: Path, new_server: NewServer
) -> None:
    with (small_disk / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, DISK_MEGABYTES * MIB - 600_000)
    exit_code, said = new_server(small_disk / "server").refusal()
    assert exit_code == 1, said
    (line,) = [line for line in said.splitlines() if line.startswith("partibus: ")]
    assert "No space left on device" in line
    assert "Traceback" not in said


# --- a disk of 300 MiB that the messages themselves fill ------------------------------------


@pytest.fixture
def disk_of_300_mib(tmp_path: Path) -> Iterator[Path]:
    yield from mounted(tmp_path / "disk", 300)


def health(victim: Victim) -> dict[str, str]:
    place = f"http://{victim.ready.http_host}:{victim.ready.http_port}/health"
    with urllib.request.urlopen(place, timeout=20) as answer:
        found: dict[str, str] = json.load(answer)
        return found


def room_of(victim: Victim) -> list[str]:
    """What `store list` shows of the store."""
    command = [sys.executable, "-m", "partibus", "store", "list", "--json"]
    command += ["--connection-string", victim.connection_string]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (store,) = json.loads(done.stdout)["stores"]
    return [store["state"], store["shortage"] or ""]


def fill(victim: Victim) -> Poster:
    poster = Poster(victim)
    asyncio.run(poster.until_refused())
    assert len(poster.acknowledged) > 100  # 50 MB and more
    assert set(poster.refusals) == {"com.microsoft:server-busy"}
    return poster


def test_what_fills_the_disk_is_received_and_makes_room(
    disk_of_300_mib: Path, new_server: NewServer
) -> None:
    victim = new_server(disk_of_300_mib / "server")
    victim.start()
    poster = fill(victim)
    assert "almost full" in health(victim)["message"]
    assert health(victim)["status"] == "healthy"  # it serves; a restart would not help
    state, shortage = room_of(victim)
    assert state == "degraded" and "MiB are free" in shortage
    with stock_client(victim) as client, client.get_queue_sender(QUEUE) as sender:
        with pytest.raises(ServiceBusServerBusyError, match="almost full") as refused:
            sender.send_messages(ServiceBusMessage("no room"))
        assert refused.value._retryable
        assert str(disk_of_300_mib) not in str(refused.value)
    received = asyncio.run(receive_all(victim, poster.acknowledged))
    assert received[: len(poster.acknowledged)] == poster.acknowledged
    wait_until(lambda: can_send(victim, "room again"), "sends are taken again")
    wait_until(lambda: room_of(victim) == ["up", ""], "the store is up")
    fill(victim)  # as much again: what was received is gone from the disk


def test_a_purge_makes_room_on_a_disk_that_others_have_filled(
    disk_of_300_mib: Path, new_server: NewServer
) -> None:
    victim = new_server(disk_of_300_mib / "server")
    victim.start()
    fill(victim)
    with (disk_of_300_mib / "ballast").open("wb") as file:
        free = os.statvfs(disk_of_300_mib)
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)
    purge = [sys.executable, "-m", "partibus", "purge", QUEUE, "--yes"]
    purge += ["--connection-string", victim.connection_string]
    done = subprocess.run(purge, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: can_send(victim, "room again"), "sends are taken again")


def test_a_kill_on_a_full_disk_loses_nothing(disk_of_300_mib: Path, new_server: NewServer) -> None:
    victim = new_server(disk_of_300_mib / "server")
    victim.start()
    poster = fill(victim)
    victim.sigkill()
    victim.start()
    assert not can_send(victim, "still full")
    received = asyncio.run(receive_all(victim, poster.acknowledged))
    assert received[: len(poster.acknowledged)] == poster.acknowledged
    wait_until(lambda: can_send(victim, "room again"), "sends are taken again")


# --- a stop under load ----------------------------------------------------------------------------


async def post_until_stopped(victim: Victim, acknowledged: set[str]) -> None:
    """Many senders; SIGTERM after some hundred acknowledgements."""

    def accepted(name: object) -> None:
        acknowledged.add(str(name))
        if len(acknowledged) == 2000:
            victim.begin_to_end(signal.SIGTERM)

    async def send(client: LoadClient, sender: int) -> None:
        pipeline = await client.pipeline(QUEUE, accepted)
        names = (f"s{sender}.{number}" for number in range(100_000))
        with pytest.raises(RemoteError):
            await pipeline.post((name, letter(name, 1000), 0) for name in names)

    async with asyncio.timeout(60), load_client(victim) as one, load_client(victim) as other:
        await asyncio.gather(*[send(client, n) for n, client in enumerate([one, one, other])])


def test_a_stop_under_load_loses_nothing(new_server: NewServer) -> None:
    victim = new_server()
    victim.start()
    acknowledged: set[str] = set()
    asyncio.run(post_until_stopped(victim, acknowledged))
    assert victim.ended() == 0
    assert "Traceback" not in victim.log_text()
    victim.start()
    received = asyncio.run(receive_all(victim, sorted(acknowledged)))
    assert len(received) == len(set(received))
    assert acknowledged <= set(received)
