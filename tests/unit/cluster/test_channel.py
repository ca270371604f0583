"""Frames of rows over a transport that the test holds."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from partibus.cluster import channel as peer_channel
from partibus.cluster.channel import FRAME_BYTES, UNSENT_BYTES_MAX, PeerChannel
from partibus.cluster.rows import Row


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_cut = False
        self.reads = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high and low and low < high

    def is_closing(self) -> bool:
        return self.is_cut

    def abort(self) -> None:
        self.is_cut = True

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Bench:
    """A channel, its transport, and what it received."""

    def __init__(self) -> None:
        self.received: list[Row] = []
        self.lost_count = 0
        loop = asyncio.get_running_loop()
        self.channel = PeerChannel(loop, self._receive, self._lost)
        self.transport = FakeTransport()
        self.channel.connection_made(self.transport)

    def _receive(self, rows: Sequence[Row]) -> None:
        self.received += rows

    def _lost(self) -> None:
        self.lost_count += 1

    def frames(self) -> list[list[Row]]:
        """The rows of each frame that was written."""
        data = b"".join(self.transport.written)
        frames = []
        while data:
            length = int.from_bytes(data[:4], "big")
            frames.append(msgspec.msgpack.decode(data[4 : 4 + length]))
            data = data[4 + length :]
        return frames


async def test_the_rows_of_one_turn_are_one_frame() -> None:
    bench = Bench()
    for number in range(3):
        bench.channel.post((number, b"x"), 10)
    assert bench.transport.written == []
    await asyncio.sleep(0)
    assert bench.frames() == [[[0, b"x"], [1, b"x"], [2, b"x"]]]


async def test_much_in_one_turn_is_several_frames_in_order() -> None:
    bench = Bench()
    for number in range(5):
        bench.channel.post((number,), FRAME_BYTES // 2)
    await asyncio.sleep(0)
    frames = bench.frames()
    assert [row for frame in frames for row in frame] == [[n] for n in range(5)]
    assert len(frames) == 3


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
async def test_frames_are_found_however_the_bytes_come(step: int) -> None:
    sender, receiver = Bench(), Bench()
    for number in range(4):
        sender.channel.post((number, b"body" * number), 10)
        sender.channel.flush()
    data = b"".join(sender.transport.written)
    for offset in range(0, len(data), step):
        receiver.channel.data_received(data[offset : offset + step])
    assert receiver.received == [[n, b"body" * n] for n in range(4)]


@pytest.mark.parametrize(
    "data", [b"\xff" * 8, b"\x00\x00\x00\x01\xc1", b"\x00\x00\x00\x02\x91\x07"]
)
async def test_what_is_no_frame_cuts_the_connection(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.channel.data_received(data)
    assert bench.transport.is_cut
    assert bench.received == []
    assert "could not be dealt with" in caplog.text


async def test_a_peer_that_does_not_read_is_full_in_the_end_and_then_takes_all() -> None:
    bench = Bench()
    bench.channel.pause_writing()
    bench.channel.post((1,), UNSENT_BYTES_MAX)
    bench.channel.flush()
    assert not bench.channel.is_full
    bench.channel.post((2,), 1)
    assert bench.channel.is_full
    assert bench.channel.unsent() == [(1,), (2,)]
    bench.channel.resume_writing()
    assert not bench.channel.is_full
    assert [row for frame in bench.frames() for row in frame] == [[1], [2]]
    assert bench.channel.unsent() == []


async def test_a_peer_that_never_reads_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.channel.pause_writing()
    bench.channel.post((1,), peer_channel.UNSENT_BYTES_CUT + 1)
    bench.channel.flush()
    assert bench.transport.is_cut
    assert "does not read" in caplog.text


async def test_what_was_posted_after_the_end_was_never_sent() -> None:
    bench = Bench()
    bench.transport.abort()
    bench.channel.post((1,), 1)
    await asyncio.sleep(0)
    bench.channel.connection_lost(None)
    assert bench.lost_count == 1
    assert bench.channel.unsent() == [(1,)]
    assert bench.transport.written == []


async def test_a_row_that_cannot_be_encoded_is_reported_and_the_others_go(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    reported: list[Row] = []
    bench.channel.on_unsendable = reported.append
    rows: list[Row] = [(1, 1, b"mine"), (1, 2, 2**64), (1, 3, object()), (1, 4, b"yours")]
    for row in rows:
        bench.channel.post(row, 10)
    await asyncio.sleep(0)
    assert bench.frames() == [[[1, 1, b"mine"], [1, 4, b"yours"]]]
    assert reported == rows[1:3]
    assert not bench.transport.is_cut
    assert "cannot be sent" in caplog.text
