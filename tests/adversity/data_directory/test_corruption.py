"""Damaged files under a stopped server: refused with a word on where, or served whole.

The server was killed, so that a torn tail is possible; what lies beyond the last commit may
be cut, what was acknowledged may not. A refusal is one line with file and offset and the
exit code 3. Nothing is ever lost in silence.
"""

import asyncio
import random
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from azure.servicebus import (
    ServiceBusClient,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
)
from azure.servicebus.exceptions import ServiceBusError

from adversity.conftest import NewServer, declare_queues
from adversity.letters import letter
from adversity.load import load_client
from adversity.victim import Victim
from adversity.waiting import wait_until_async

QUEUE = "first"
EXIT_CORRUPT = 3
SMALL = (1000, 300)  # bytes of a letter, and how many: some hundred kilobytes in one segment
LARGE = (900_000, 80)  # 72 MB: three segments
LETTERS_PER_ENTRY = 30

Damage = Callable[[Path], None]


# --- logs to damage -----------------------------------------------------------------------------


def names(count: int) -> list[str]:
    return [f"letter.{number}" for number in range(count)]


async def fill(victim: Victim, size: int, count: int) -> None:
    """Send in several commits, each of them waited for."""
    async with load_client(victim) as client:
        pipeline = await client.pipeline(QUEUE)
        letters = [(name, letter(name, size), 0) for name in names(count)]
        for start in range(0, count, LETTERS_PER_ENTRY):
            await pipeline.post(letters[start : start + LETTERS_PER_ENTRY])
        assert not pipeline.refusals


def make_log(directory: Path, size: int, count: int, *, politely: bool = False) -> Path:
    directory.mkdir()
    victim = Victim(directory, declare_queues(directory / "namespace.toml"))
    victim.start()
    try:
        asyncio.run(fill(victim, size, count))
    finally:
        if politely:
            assert victim.stop() == 0
        else:
            victim.sigkill()
    return directory


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed server left: one segment."""
    return make_log(tmp_path_factory.mktemp("logs") / "killed", *SMALL)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a stopped server left: one segment and a checkpoint behind all messages."""
    return make_log(tmp_path_factory.mktemp("logs") / "stopped", *SMALL, politely=True)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed server left: three segments."""
    directory = make_log(tmp_path_factory.mktemp("logs") / "long", *LARGE)
    assert len(segments(directory / "data" / "store-0")) == 3
    return directory


def segments(store: Path) -> list[Path]:
    return sorted(store.glob("*.seg"))


def copy_of(log: Path, place: Path) -> Path:
    """The store of a copy that a test may damage."""
    # Segments are mostly reserved space; copying the zeros would be the larger part.
    subprocess.run(["cp", "-r", "--sparse=always", str(log), str(place)], check=True)
    return place / "data" / "store-0"


def written_end(segment: Path) -> int:
    """Where the zeros begin that were reserved ahead."""
    return len(segment.read_bytes().rstrip(b"\0"))


def flip(path: Path, offset: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


# --- judging ------------------------------------------------------------------------------------


def assert_refused(victim: Victim, *words: str) -> None:
    exit_code, said = victim.refusal()
    assert exit_code == EXIT_CORRUPT, said
    (line,) = [line for line in said.splitlines() if line.startswith("partibus: ")]
    assert re.search(r"store-0/\S+: offset \d+: ", line), line
    assert "Traceback" not in said
    for word in words:
        assert word in line, line


async def receive(victim: Victim, count: int) -> list[str]:
    """So many letters, all of them whole, then whatever else there is."""
    async with load_client(victim) as client:
        inbox = await client.inbox(QUEUE)
        await wait_until_async(lambda: len(inbox.taken) >= count, f"{count} letters came")
        await inbox.drain()
        return [received.name for received, _ in inbox.hand_out()]


def assert_serves_all(victim: Victim, count: int) -> None:
    victim.start()
    assert asyncio.run(receive(victim, count)) == names(count)


# --- the middle of the log ------------------------------------------------------------------------


def cut_tail(store: Path) -> None:
    """The last acknowledged entry loses its last bytes."""
    (segment,) = segments(store)
    with segment.open("r+b") as file:
        file.truncate(written_end(segment) - 5)


def cut_middle(store: Path) -> None:
    (segment,) = segments(store)
    with segment.open("r+b") as file:
        file.truncate(written_end(segment) // 2)


def cut_to_header(store: Path) -> None:
    (segment,) = segments(store)
    with segment.open("r+b") as file:
        file.truncate(64)


def cut_to_nothing(store: Path) -> None:
    (segment,) = segments(store)
    segment.write_bytes(b"")


def zero_middle(store: Path) -> None:
    """A page that the disk forgot."""
    (segment,) = segments(store)
    with segment.open("r+b") as file:
        file.seek(written_end(segment) // 2 & ~4095)
        file.write(bytes(4096))


def flip_middle(store: Path) -> None:
    (segment,) = segments(store)
    flip(segment, written_end(segment) // 2)


def flip_body(store: Path) -> None:
    """One bit of a message that waits in the queue."""
    (segment,) = segments(store)
    body = segment.read_bytes().index(b"letter.17|") + 500
    flip(segment, body, 3)


def flip_last_body(store: Path) -> None:
    """One bit of the last message, which no later entry vouches for."""
    (segment,) = segments(store)
    flip(segment, segment.read_bytes().rindex(b"letter.299|") + 500, 3)


def flip_header(store: Path) -> None:
    (segment,) = segments(store)
    flip(segment, 3)


def remove_all(store: Path) -> None:
    (segment,) = segments(store)
    segment.unlink()


@pytest.mark.parametrize(
    "damage",
    [
        cut_tail,
        cut_middle,
        cut_to_header,
        cut_to_nothing,
        zero_middle,
        flip_middle,
        flip_body,
        flip_last_body,
        flip_header,
        remove_all,
    ],
)
def test_damage_to_what_was_acknowledged_is_refused(
    killed: Path, tmp_path: Path, new_server: NewServer, damage: Damage
) -> None:
    damage(copy_of(killed, tmp_path / "copy"))
    assert_refused(new_server(tmp_path / "copy"), ".seg")


def test_a_flip_anywhere_is_refused_or_harmless(
    killed: Path, tmp_path: Path, new_server: NewServer, seed: int
) -> None:
    rng = random.Random(seed)
    for number in range(4):
        place = tmp_path / f"copy-{number}"
        (segment,) = segments(copy_of(killed, place))
        flip(segment, rng.randrange(written_end(segment)), rng.randrange(8))
        victim = new_server(place)
        try:
            victim.start()
        except AssertionError:
            assert victim.exit_code == EXIT_CORRUPT, victim.log_text()
        else:
            assert asyncio.run(receive(victim, SMALL[1])) == names(SMALL[1])


# --- the tail, and files that are no part of the log ------------------------------------------


def tear_tail(store: Path) -> None:
    """The first half of an entry that was never finished, where the next one belongs."""
    (segment,) = segments(store)
    end = written_end(segment)
    with segment.open("r+b") as file:
        file.seek(64)
        begun = file.read(20_000)
        file.seek(end)
        file.write(begun)


def scribble_tail(store: Path) -> None:
    (segment,) = segments(store)
    end = written_end(segment)
    with segment.open("r+b") as file:
        file.seek(end)
        file.write(random.Random(1).randbytes(5000))


@pytest.mark.parametrize("damage", [tear_tail, scribble_tail])
def test_a_torn_tail_is_cut_and_told(
    killed: Path, tmp_path: Path, new_server: NewServer, damage: Damage
) -> None:
    damage(copy_of(killed, tmp_path / "copy"))
    victim = new_server(tmp_path / "copy")
    assert_serves_all(victim, SMALL[1])
    assert re.search(r"\.seg: offset \d+: cutting a torn tail", victim.log_text())


def foreign_first(store: Path) -> None:
    """Something else under the name of a segment that could follow."""
    (store / f"{1 << 30:016x}.seg").write_bytes(b"not one of ours\n" * 1000)


def foreign_name(store: Path) -> None:
    (store / "notes.seg").write_bytes(b"not one of ours\n")


def foreign_content(store: Path) -> None:
    (segment,) = segments(store)
    segment.write_bytes(b"not one of ours\n" * 1000)


def stranger_segment(store: Path) -> None:
    """A sound segment of another store: its header names another."""
    (segment,) = segments(store)
    data = bytearray(segment.read_bytes()[:64])
    data[24:40] = bytes(16)
    segment.with_name(f"{1 << 30:016x}.seg").write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [foreign_first, foreign_content, stranger_segment])
def test_a_foreign_segment_is_refused(
    killed: Path, tmp_path: Path, new_server: NewServer, damage: Damage
) -> None:
    damage(copy_of(killed, tmp_path / "copy"))
    assert_refused(new_server(tmp_path / "copy"), ".seg")


def test_a_foreign_name_is_refused(killed: Path, tmp_path: Path, new_server: NewServer) -> None:
    foreign_name(copy_of(killed, tmp_path / "copy"))
    exit_code, said = new_server(tmp_path / "copy").refusal()
    assert (exit_code, said.count("partibus: ")) == (EXIT_CORRUPT, 1)
    assert "notes.seg" in said


# --- several segments -----------------------------------------------------------------------------


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_missing_segment_is_refused(
    long: Path, tmp_path: Path, new_server: NewServer, index: int
) -> None:
    store = copy_of(long, tmp_path / "copy")
    segments(store)[index].unlink()
    assert_refused(new_server(tmp_path / "copy"), ".seg")


def test_damage_in_an_earlier_segment_is_refused(
    long: Path, tmp_path: Path, new_server: NewServer
) -> None:
    first = segments(copy_of(long, tmp_path / "copy"))[0]
    with first.open("r+b") as file:
        file.truncate(first.stat().st_size - 100)
    assert_refused(new_server(tmp_path / "copy"), first.name)


def test_an_undamaged_log_of_several_segments_is_served(
    long: Path, tmp_path: Path, new_server: NewServer
) -> None:
    copy_of(long, tmp_path / "copy")
    assert_serves_all(new_server(tmp_path / "copy"), LARGE[1])


# --- checkpoint and watermark ---------------------------------------------------------------------


def checkpoint(store: Path) -> Path:
    (found,) = store.glob("*.ckpt")
    return found


@pytest.mark.parametrize("kept_share", [0, 0.5, 0.999])
def test_a_damaged_checkpoint_is_refused(
    stopped: Path, tmp_path: Path, new_server: NewServer, kept_share: float
) -> None:
    path = checkpoint(copy_of(stopped, tmp_path / "copy"))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept_share)])
    assert_refused(new_server(tmp_path / "copy"), ".ckpt")


def test_a_flipped_checkpoint_is_refused(
    stopped: Path, tmp_path: Path, new_server: NewServer
) -> None:
    path = checkpoint(copy_of(stopped, tmp_path / "copy"))
    flip(path, path.stat().st_size // 2)
    assert_refused(new_server(tmp_path / "copy"), ".ckpt")


def test_without_its_checkpoint_the_log_itself_is_read(
    stopped: Path, tmp_path: Path, new_server: NewServer
) -> None:
    checkpoint(copy_of(stopped, tmp_path / "copy")).unlink()
    assert_serves_all(new_server(tmp_path / "copy"), SMALL[1])


@pytest.mark.parametrize("content", [None, b"", bytes(4096)])
def test_without_its_watermark_a_sound_log_is_served(
    killed: Path, tmp_path: Path, new_server: NewServer, content: bytes | None
) -> None:
    watermark = copy_of(killed, tmp_path / "copy") / "durable"
    if content is None:
        watermark.unlink()
    else:
        watermark.write_bytes(content)
    assert_serves_all(new_server(tmp_path / "copy"), SMALL[1])


def test_without_its_watermark_nothing_is_cut(
    killed: Path, tmp_path: Path, new_server: NewServer
) -> None:
    store = copy_of(killed, tmp_path / "copy")
    (store / "durable").unlink()
    cut_tail(store)
    assert_refused(new_server(tmp_path / "copy"), ".seg")


# --- damage that only a delivery can find -----------------------------------------------------


def test_a_damaged_body_behind_the_checkpoint_is_never_delivered(
    stopped: Path, tmp_path: Path, new_server: NewServer
) -> None:
    """The start does not read it; its neighbours are served, and the damage is told."""
    flip_body(copy_of(stopped, tmp_path / "copy"))
    victim = new_server(tmp_path / "copy")
    victim.start()
    received = asyncio.run(receive(victim, SMALL[1] - 1))
    assert sorted(received) == sorted(set(names(SMALL[1])) - {"letter.17"})
    assert re.search(r"\.seg: offset \d+", victim.log_text())
    address = f"http://127.0.0.1:{victim.ready.http_port}/health"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address)
    assert refused.value.code == 503
    refused.value.close()


def test_a_damaged_body_does_not_fail_a_whole_peek(
    stopped: Path, tmp_path: Path, new_server: NewServer
) -> None:
    """It is shown as damaged, in its place; health tells of it, and no client of our disks."""
    flip_body(copy_of(stopped, tmp_path / "copy"))
    victim = new_server(tmp_path / "copy")
    victim.start()
    client = ServiceBusClient.from_connection_string(victim.ready.connection_string, retry_total=0)
    shown: list[ServiceBusReceivedMessage] = []
    with client, client.get_queue_receiver(QUEUE) as receiver:
        while page := receiver.peek_messages(20):
            shown += page
        numbers = [message.sequence_number for message in shown]
        damaged = [m for m in shown if (m.application_properties or {}).get(b"PartibusDamaged")]
        assert len(shown) == SMALL[1]
        assert numbers == list(range(numbers[0], numbers[0] + SMALL[1]))
        assert [numbers.index(m.sequence_number) for m in damaged] == [17]
        number = damaged[0].sequence_number
        (alone,) = receiver.peek_messages(1, sequence_number=number)
        assert "failed its checksum" in str(alone)
        assert str(tmp_path) not in str(alone)
    address = f"http://127.0.0.1:{victim.ready.http_port}/health"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address)
    with refused.value as answer:
        assert (answer.code, b"1 stored messages failed" in answer.read()) == (503, True)


def defer_letters(victim: Victim, count: int) -> list[int]:
    """Send letters and defer all of them; their sequence numbers, in order."""
    asyncio.run(fill(victim, 1000, count))
    client = ServiceBusClient.from_connection_string(victim.ready.connection_string)
    numbers: list[int] = []
    with client, client.get_queue_receiver(QUEUE) as receiver:
        while len(numbers) < count:
            for message in receiver.receive_messages(count, max_wait_time=10):
                numbers.append(message.sequence_number)
                receiver.defer_message(message)
    return sorted(numbers)


@pytest.mark.parametrize("mode", list(ServiceBusReceiveMode))
def test_a_damaged_body_does_not_fail_the_deferred_messages_beside_it(
    new_server: NewServer, mode: ServiceBusReceiveMode
) -> None:
    """The good ones are received; the damaged one is left out, named in the log and in health."""
    victim = new_server()
    victim.start()
    numbers = defer_letters(victim, 20)
    assert victim.stop() == 0
    flip_body(victim.data / "store-0")
    victim.start()
    client = ServiceBusClient.from_connection_string(victim.ready.connection_string, retry_total=0)
    with client, client.get_queue_receiver(QUEUE, receive_mode=mode) as receiver:
        received = receiver.receive_deferred_messages(numbers[15:])
        given = [message.sequence_number for message in received]
        assert given == [n for n in numbers[15:] if n != numbers[17]]
        if mode is ServiceBusReceiveMode.PEEK_LOCK:
            for message in received:
                receiver.complete_message(message)
            with pytest.raises(ServiceBusError, match="failed its checksum"):
                receiver.receive_deferred_messages(numbers[17])
    assert re.search(r"\.seg: offset \d+", victim.log_text())
