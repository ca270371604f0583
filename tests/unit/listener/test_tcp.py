"""The pump between a transport and the gateway: back-pressure both ways, and the end."""

import asyncio
import logging
import socket

import pytest

from partibus.listener.listener import CLOSING_MS
from partibus.listener.tcp import WRITE_BUFFER_BYTES_HIGH
from unit.listener.front import HOST, Dial, Front, RecordingClient, reset_on_close

HEADER = b"AMQP\x00\x01\x00\x00"
CHUNK = bytes(64 * 1024)
# Far more than the watermark and the kernel's buffers of a loopback connection together.
CHUNKS_MAX = 1024


async def raw_client(front: Front) -> tuple[socket.socket, RecordingClient]:
    """A peer that reads only when the test says so."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await loop.sock_connect(sock, (HOST, front.port))
    await loop.sock_sendall(sock, HEADER)
    client = await front.clients.get()
    assert await loop.sock_recv(sock, 8) == HEADER
    client.is_echoing = False
    return sock, client


def fill(client: RecordingClient) -> int:
    """Write until told to pause; answers how many bytes that took."""
    for count in range(1, CHUNKS_MAX):
        client.wire.write(CHUNK)
        if client.pauses:
            return count * len(CHUNK)
    raise AssertionError("the gateway was never asked to pause")


async def test_a_peer_that_does_not_read_pauses_the_gateway(front: Front) -> None:
    sock, client = await raw_client(front)
    with sock:
        sent = fill(client)
        assert client.pauses == 1 and client.resumes == 0
        loop = asyncio.get_running_loop()
        received = 0
        while received < sent:
            received += len(await loop.sock_recv(sock, 1 << 20))
        await client.resumed.wait()
        assert client.resumes == 1
        assert received == sent


async def test_what_is_unsent_is_bounded(front: Front) -> None:
    sock, client = await raw_client(front)
    with sock:
        fill(client)
        client.wire.write(CHUNK)
        assert client.pauses == 1
        transport = client.wire._transport
        assert transport is not None
        assert transport.get_write_buffer_size() <= WRITE_BUFFER_BYTES_HIGH + 2 * len(CHUNK)


async def test_a_paused_wire_holds_the_peer_back(front: Front) -> None:
    sock, client = await raw_client(front)
    loop = asyncio.get_running_loop()
    with sock:
        client.received.clear()
        client.wire.pause_reading()
        client.wire.pause_reading()
        sent = 0
        with pytest.raises(BlockingIOError):
            for _ in range(CHUNKS_MAX):
                sent += sock.send(CHUNK)
        assert not client.received
        client.wire.resume_reading()
        client.wire.resume_reading()
        await loop.sock_sendall(sock, b"end")
        await front.until(lambda: len(client.received) == sent + 3)


async def test_close_sends_what_was_written_first(front: Front) -> None:
    sock, client = await raw_client(front)
    loop = asyncio.get_running_loop()
    with sock:
        sent = fill(client)
        client.wire.close()
        client.wire.close()
        client.wire.write(b"too late")
        received = 0
        while data := await loop.sock_recv(sock, 1 << 20):
            received += len(data)
        assert received == sent
        await client.lost
    assert len(front.listener.closing) == 0


async def test_close_waits_for_a_peer_that_does_not_read_only_so_long(front: Front) -> None:
    sock, client = await raw_client(front)
    with sock:
        fill(client)
        client.wire.close()
        assert front.listener.closing.sweep() == 0
        front.clock.advance(CLOSING_MS)
        assert front.listener.closing.sweep() == 1
        await client.lost
    assert front.listener.connection_count == 0


async def test_abort_ends_at_once(front: Front) -> None:
    sock, client = await raw_client(front)
    with sock:
        fill(client)
        client.wire.abort()
        await client.lost


async def test_a_wire_without_a_connection_is_harmless(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(HEADER)
    await reader.readexactly(8)
    client = await front.clients.get()
    writer.close()
    await client.lost
    client.wire.write(b"anybody?")
    client.wire.pause_reading()
    client.wire.resume_reading()
    client.wire.close()
    client.wire.abort()
    assert len(front.listener.closing) == 0


async def test_a_reset_is_an_ordinary_goodbye(
    front: Front, caplog: pytest.LogCaptureFixture
) -> None:
    problems: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            sock, client = await raw_client(front)
            reset_on_close(sock)
            sock.close()
            for _ in range(10):
                client.wire.write(CHUNK)
            await client.lost
    assert not problems
    assert not caplog.records


async def test_a_peer_that_stops_sending_is_answered_before_the_end(
    front: Front, dial: Dial
) -> None:
    reader, writer = await dial()
    writer.write(HEADER + b"last words")
    writer.write_eof()
    assert await reader.read() == HEADER + b"last words"
    await (await front.clients.get()).lost


async def test_a_peer_that_sends_while_it_is_sent_away_reads_the_last_words(front: Front) -> None:
    """A socket that is closed with bytes unread resets the connection, and loses them."""
    sock, client = await raw_client(front)
    loop = asyncio.get_running_loop()
    with sock:
        before = len(client.received)
        client.wire.pause_reading()
        for _ in range(8):
            await loop.sock_sendall(sock, CHUNK[:4096])
        client.wire.write(b"last words")
        client.wire.linger()
        await loop.sock_sendall(sock, b"still talking")
        said = b""
        while part := await loop.sock_recv(sock, 4096):
            said += part
        assert said == b"last words"
        sock.close()
    await client.lost
    assert len(client.received) == before, "nothing more is passed on"


async def test_a_silent_peer_is_not_waited_for(front: Front) -> None:
    sock, client = await raw_client(front)
    with sock:
        client.wire.linger()
        client.wire.linger()
        await client.lost
