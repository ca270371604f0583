"""A port before its server is ready: who asks is told so, and the port itself stays."""

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest

from partibus.listener.accept import bind
from partibus.listener.waiting_room import CLIENTS_MAX, MESSAGE, WaitingRoom


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    (made,) = bind("127.0.0.1", 0, "--http-port")
    with made:
        yield made


def room(sock: socket.socket) -> WaitingRoom:
    return WaitingRoom(asyncio.get_running_loop(), [sock])


async def connect(sock: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(*sock.getsockname())


async def say(sock: socket.socket, *pieces: bytes) -> bytes:
    reader, writer = await connect(sock)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.rule("EMU-6")
@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_http_is_answered_with_503_and_the_text(sock: socket.socket, method: bytes) -> None:
    waiting = room(sock)
    head, _, body = (
        await say(sock, method + b" /health HTTP/1.1\r\nHo", b"st: x\r\n\r\n")
    ).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    if method == b"HEAD":
        assert body == b""
    else:
        assert f"content-length: {len(body)}".encode() in head
        assert json.loads(body) == {"status": "unhealthy", "message": MESSAGE}
    waiting.close()


@pytest.mark.parametrize("path", [b"/readyz", b"/livez"])
async def test_probes_are_told_that_it_is_starting(sock: socket.socket, path: bytes) -> None:
    waiting = room(sock)
    head, _, body = (await say(sock, b"GET " + path + b" HTTP/1.1\r\n\r\n")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503 ")
    assert json.loads(body) == {"status": "starting", "reasons": ["The server is starting."]}
    waiting.close()


@pytest.mark.parametrize(
    "said", [b"AMQP\x00\x01\x00\x00", b"\x16\x03\x01" * 99], ids=["amqp", "tls"]
)
async def test_everything_else_is_sent_away(sock: socket.socket, said: bytes) -> None:
    waiting = room(sock)
    reader, writer = await connect(sock)
    writer.write(said)
    assert await reader.read() == b""
    writer.close()
    waiting.close()


async def test_closing_leaves_the_port_to_its_owner(sock: socket.socket) -> None:
    waiting = room(sock)
    silent, silent_writer = await connect(sock)
    assert (await say(sock, b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
    waiting.close()
    waiting.close()
    assert await silent.read() == b""
    silent_writer.close()
    _, later = await connect(sock)
    accepted, _ = await asyncio.get_running_loop().sock_accept(sock)
    accepted.close()
    later.close()


async def test_a_crowd_is_not_kept(sock: socket.socket) -> None:
    waiting = room(sock)
    visitors = [await connect(sock) for _ in range(CLIENTS_MAX + 1)]
    reads = [asyncio.ensure_future(reader.read()) for reader, _ in visitors]
    done, kept = await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED)
    assert (len(done), len(kept)) == (1, CLIENTS_MAX)
    waiting.close()
    assert set(await asyncio.gather(*reads)) == {b""}
    for _, writer in visitors:
        writer.close()
