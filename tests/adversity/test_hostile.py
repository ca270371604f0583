"""Peers that break every rule: the server stays up, stays small, and serves everybody else.

Each test is one attack with a limit on its size. Meanwhile and afterwards a well-behaved
client must be served, and the server's memory must not have grown beyond a generous bound.
"""

import asyncio
import itertools
import random
from contextlib import ExitStack

import pytest

from adversity.conftest import QUEUES
from adversity.gauge import MEGABYTE, resident_bytes, resident_bytes_peak
from adversity.intruder import (
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    TRANSFER,
    Intruder,
    attach,
    flow,
    frame,
    transfer,
)
from adversity.letters import letter
from adversity.load import load_client
from adversity.victim import Victim
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties, encode_properties
from partibus.amqp.codec.sections import encode_application_properties
from partibus.amqp.codec.types import UInt
from partibus.amqp.framing import AMQP_HEADER, SASL_HEADER

TARGET, QUIET, FULL = QUEUES
GROWTH_BYTES_MAX = 150 * MEGABYTE
SERVED_SECONDS_MAX = 30
FLOOD_BYTES = 400 * MEGABYTE
_numbers = itertools.count()


def assert_serves(victim: Victim) -> None:
    """Another client sends, receives and completes, in the presence of the attacker."""
    assert victim.runs, victim.log_text()
    asyncio.run(_round_trip(victim))


async def _round_trip(victim: Victim) -> None:
    names = [f"visitor.{next(_numbers)}" for _ in range(20)]
    async with asyncio.timeout(SERVED_SECONDS_MAX), load_client(victim) as client:
        pipeline = await client.pipeline(QUIET)
        await pipeline.post([(name, letter(name, 500), 0) for name in names])
        inbox = await client.inbox(QUIET, credit=20)
        taken = []
        while len(taken) < len(names):
            taken += await inbox.some()
        assert [received.name for received, _ in taken] == names
        await inbox.settle([message for _, message in taken])


@pytest.fixture
def watched(server: Victim) -> Victim:
    """A server that is warmed up and weighed, for `assert_unharmed`."""
    assert_serves(server)
    server.weight_bytes = resident_bytes(server.pid)
    return server


def assert_unharmed(victim: Victim) -> None:
    """It came out alive, small, at work, and without a mistake of its own."""
    assert_serves(victim)
    growth = resident_bytes_peak(victim.pid) - victim.weight_bytes
    assert growth < GROWTH_BYTES_MAX, f"grew by {growth / MEGABYTE:.0f} MB"
    mistakes = [line for line in victim.log_text().splitlines() if "Error: " in line]
    assert not mistakes, f"{len(mistakes)} like {mistakes[0]}"


# --- before there is a connection ----------------------------------------------------------------


def test_garbage(watched: Victim, seed: int) -> None:
    rng = random.Random(seed)
    openings = [b"", AMQP_HEADER, SASL_HEADER, b"\x16\x03\x01\x02\x00", b"GET ", b"POST / HTTP/1.1"]
    for number in range(120):
        with Intruder(watched) as intruder:
            garbage = rng.randbytes(rng.randrange(1, 3000))
            intruder.flood([openings[number % len(openings)] + garbage], MEGABYTE)
    assert_unharmed(watched)


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET /health HTTP/9.9\r\n\r\n",
        b"\r\n" * 1000,
        b"GET " + b"/a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000,
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999\r\n\r\n" + b"z" * 1_000_000,
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffff\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["version", "lines", "long-target", "many-fields", "endless-body", "chunk", "negative"],
)
def test_http_garbage(watched: Victim, request_head: bytes) -> None:
    with ExitStack() as stack:
        for _ in range(10):
            intruder = stack.enter_context(Intruder(watched))
            intruder.flood([request_head], FLOOD_BYTES)
        assert_serves(watched)
    assert_unharmed(watched)


def test_an_endless_http_head(watched: Victim) -> None:
    with Intruder(watched) as intruder:
        fields = (b"X-%d: y\r\n" % number * 1000 for number in itertools.count())
        sent = intruder.flood(itertools.chain([b"GET / HTTP/1.1\r\n"], fields), FLOOD_BYTES)
    assert sent < FLOOD_BYTES
    assert_unharmed(watched)


def test_half_frames_and_silence(watched: Victim) -> None:
    """Peers that begin something and leave it at that."""
    whole = SASL_HEADER + frame(0x10, "half")
    with ExitStack() as stack:
        for number in range(400):
            intruder = stack.enter_context(Intruder(watched))
            if number % 4:
                intruder.send(whole[: number % len(whole)])
            else:
                intruder.send(AMQP_HEADER)
        assert_serves(watched)
    assert_unharmed(watched)


# --- frames ------------------------------------------------------------------------------------


def test_a_giant_frame_is_not_waited_for(watched: Victim) -> None:
    giant = b"\xff\xff\xff\xff\x02\x00\x00\x00"
    for opening in (AMQP_HEADER, SASL_HEADER):
        with Intruder(watched) as intruder:
            intruder.send(opening + giant)
            intruder.read_to_end()
    with Intruder(watched) as intruder:
        intruder.opened().send(giant)
        assert CLOSE in intruder.read_to_end()
    with Intruder(watched) as intruder:
        intruder.opened()
        sent = intruder.flood(itertools.chain([giant], itertools.repeat(bytes(65536))), FLOOD_BYTES)
        assert sent < FLOOD_BYTES
    assert_unharmed(watched)


def test_a_large_frame_in_tiny_pieces(watched: Victim) -> None:
    """The largest frame that is allowed, a byte at a time, and never finished."""
    with ExitStack() as stack:
        for _ in range(20):
            intruder = stack.enter_context(Intruder(watched)).opened()
            intruder.send((262_144).to_bytes(4, "big") + b"\x02\x00\x00\x00")
            intruder.flood([b"\0"] * 2000, MEGABYTE)
        assert_serves(watched)
    assert_unharmed(watched)


@pytest.mark.parametrize("address", [TARGET, "$cbs", f"{TARGET}/$management"])
def test_a_message_without_an_end(watched: Victim, address: str) -> None:
    """A hundred times the largest message, in frames that all say that more is to come."""
    with Intruder(watched) as intruder:
        intruder.opened(anonymous=address == "$cbs").begun()
        intruder.attached(address, sends=True)
        first = transfer(0, bytes(60_000), more=True)
        following = frame(TRANSFER, UInt(0), None, None, None, None, True, payload=bytes(60_000))
        intruder.flood(itertools.chain([first], itertools.repeat(following, 2000)), FLOOD_BYTES)
        assert_serves(watched)
        intruder.flood([frame(TRANSFER, UInt(0), payload=b"end")], FLOOD_BYTES)
        assert intruder.await_any(DISPOSITION, DETACH, CLOSE)
    assert_unharmed(watched)


def test_deep_nesting(watched: Victim) -> None:
    """Lists in lists in lists, in every section: refused, and the link goes on."""
    depth = 200_000
    nested = b"\xd0%s\0\0\0\1"
    inner = b"\x45"
    levels = b"".join(
        nested % (4 + 9 * (depth - level - 1) + 1).to_bytes(4, "big") for level in range(depth)
    )
    value = levels[: 9 * 100_000] + inner
    sound = letter("sound.0", 100)
    sections = [b"\x00\x53\x77" + value, b"\x00\x53\x74" + value, b"\x00\x53\x72" + value]
    with Intruder(watched) as intruder:
        intruder.opened().begun().attached(TARGET, sends=True)
        for number, section in enumerate(sections):
            size = 200_000
            parts = [section[at : at + size] for at in range(0, len(section), size)]
            for index, part in enumerate(parts):
                more = index < len(parts) - 1
                intruder.send(transfer(number, part, more=more))
        intruder.send(transfer(len(sections), sound))
        outcomes = 0
        for _, code, fields in intruder.frames():
            if code == DISPOSITION:
                first, last = int(str(fields[1])), int(str(fields[2] or fields[1]))
                outcomes += last - first + 1
                if outcomes == len(sections) + 1:
                    break
    assert_unharmed(watched)


# --- too many --------------------------------------------------------------------------------


def test_thousands_of_sessions_and_links(watched: Victim) -> None:
    with Intruder(watched) as intruder:
        intruder.opened()
        begins = (
            frame(BEGIN, None, UInt(0), UInt(1), UInt(1), UInt(65535), channel=channel)
            for channel in range(4999)
        )
        intruder.flood(begins, FLOOD_BYTES)
        assert_serves(watched)
    with Intruder(watched) as intruder:
        intruder.opened().begun()
        attaches = (attach(TARGET, f"link-{n}", n % 2 == 0, n) for n in range(20_000))
        intruder.flood(attaches, FLOOD_BYTES)
        assert_serves(watched)
    assert_unharmed(watched)


def test_links_to_nowhere(watched: Victim) -> None:
    """Refused attaches leave nothing behind."""
    with Intruder(watched) as intruder:
        intruder.opened().begun()
        attaches = (
            attach(f"nowhere-{n}", f"link-{n}", True, n % 1000)
            + frame(DETACH, UInt(n % 1000), True)
            for n in range(10_000)
        )
        intruder.flood(attaches, FLOOD_BYTES)
        assert_serves(watched)
    assert_unharmed(watched)


def test_transfers_without_credit(watched: Victim) -> None:
    """A sender that never looks at its credit, or at anything else."""
    with Intruder(watched, receive_buffer_bytes=4096) as intruder:
        intruder.opened().begun().attached(TARGET, sends=True)
        message = letter("flood.0", 2000)
        transfers = (transfer(number, message) for number in itertools.count())
        intruder.flood(transfers, 60 * MEGABYTE)
        assert_serves(watched)
    assert_unharmed(watched)


def test_settled_transfers_without_credit(watched: Victim) -> None:
    with Intruder(watched, receive_buffer_bytes=4096) as intruder:
        intruder.opened().begun().attached(TARGET, sends=True)
        message = letter("flood.0", 2000)
        transfers = (transfer(number, message, settled=True) for number in itertools.count())
        intruder.flood(transfers, 60 * MEGABYTE)
        assert_serves(watched)
    assert_unharmed(watched)


def test_unfinished_messages_on_many_links(watched: Victim) -> None:
    """Every link keeps a message of almost the largest size unfinished."""
    part = bytes(100_000)
    with Intruder(watched) as intruder:
        intruder.opened().begun()
        for handle in range(100):
            intruder.send(attach(TARGET, f"link-{handle}", True, handle))
        frames = (
            transfer(handle, part, more=True, handle=handle)
            if index == 0
            else frame(TRANSFER, UInt(handle), None, None, None, None, True, payload=part)
            for handle in range(100)
            for index in range(9)
        )
        intruder.flood(frames, 90 * MEGABYTE)
        assert_serves(watched)
    assert_unharmed(watched)


# --- peers that do not read --------------------------------------------------------------------


async def fill(victim: Victim, queue: str, size: int, count: int) -> None:
    async with load_client(victim) as client:
        pipeline = await client.pipeline(queue)
        letters = [(None, letter(f"full.{number}", size), 0) for number in range(count)]
        await pipeline.post(letters, window=50)
        assert not pipeline.refusals


def test_a_reader_that_never_reads(watched: Victim) -> None:
    """Two gigabytes of credit are no reason to load the queue into memory."""
    asyncio.run(fill(watched, FULL, 250_000, 1200))
    with ExitStack() as stack:
        for _ in range(5):
            intruder = Intruder(watched, receive_buffer_bytes=4096)
            stack.enter_context(intruder).opened().begun().attached(FULL, sends=False)
            intruder.send(flow(0x7FFFFFFF))
        for _ in range(3):
            assert_serves(watched)
    assert_unharmed(watched)


def test_a_reader_of_answers_that_never_reads(watched: Victim) -> None:
    """Small requests with large answers, none of them read."""
    asyncio.run(fill(watched, FULL, 250_000, 4))
    node = f"{FULL}/$management"
    request = (
        encode_properties(MessageProperties(message_id="1", reply_to="link-0-1"))
        + encode_application_properties({"operation": "com.microsoft:peek-message"})
        + b"\x00\x53\x77"
        + encode_value({"from-sequence-number": 0, "message-count": UInt(4)})
    )
    with Intruder(watched, receive_buffer_bytes=4096) as intruder:
        intruder.opened().begun()
        intruder.attached(node, sends=True).attached(node, sends=False, handle=1)
        intruder.send(flow(0x7FFFFFFF, handle=1))
        requests = (transfer(number, request, settled=True) for number in range(3000))
        intruder.flood(requests, FLOOD_BYTES)
        assert_serves(watched)
    assert_unharmed(watched)
