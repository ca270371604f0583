"""One port for AMQP, TLS and HTTP: who is let in, led where, and sent away when."""

import asyncio
import json
import logging
import ssl

import pytest

from partibus.listener.handshakes import PATIENCE_MS, Handshakes
from partibus.listener.listener import HANDSHAKE_MS
from unit.listener.front import Dial, Front, is_ended

HEADER = b"AMQP\x03\x01\x00\x00"
REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def http_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split()[1]), await reader.readexactly(int(headers["content-length"]))


async def test_amqp_goes_to_the_gateway(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(HEADER + b"hello")
    assert await reader.readexactly(13) == HEADER + b"hello"
    client = await front.clients.get()
    assert bytes(client.received) == HEADER + b"hello"
    assert not client.wire.secure
    assert client.wire.peer == "{}:{}".format(*writer.get_extra_info("sockname"))


async def test_a_header_may_come_byte_by_byte(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    for position in range(4):
        assert front.clients.empty()
        writer.write(HEADER[position : position + 1])
        # The byte has arrived when a whole other connection was served after it.
        other_reader, other_writer = await dial()
        other_writer.write(HEADER)
        await other_reader.readexactly(8)
        if position < 3:
            await front.clients.get()
    assert await reader.readexactly(4) == b"AMQP"
    writer.write(HEADER[4:])
    assert await reader.readexactly(4) == HEADER[4:]


async def test_tls_is_amqp_after_the_handshake(front: Front, dial: Dial) -> None:
    reader, writer = await dial(front.trusting())
    assert writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
    for position in range(8):
        writer.write(HEADER[position : position + 1])
        await writer.drain()
    assert await reader.readexactly(8) == HEADER
    assert (await front.clients.get()).wire.secure


async def test_old_tls_is_refused(front: Front, dial: Dial) -> None:
    context = front.trusting()
    with pytest.warns(DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await dial(context)
    await front.until(lambda: front.listener.socket_count == 0)


@pytest.mark.rule("EMU-6")
async def test_http_is_served_plain_and_over_tls(front: Front, dial: Dial) -> None:
    for context in (None, front.trusting()):
        reader, writer = await dial(context)
        writer.write(REQUEST)
        status, body = await http_answer(reader)
        assert status == 200
        assert json.loads(body) == {"status": "healthy", "message": "Service is healthy."}
        front.store_state = "down"
        writer.write(REQUEST)
        status, body = await http_answer(reader)
        assert status == 503
        assert json.loads(body) == {
            "status": "unhealthy",
            "message": "Store 0 is down; it is being probed.",
        }
        front.store_state = "up"


async def test_a_request_may_come_byte_by_byte(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    for position in range(len(REQUEST)):
        writer.write(REQUEST[position : position + 1])
        await writer.drain()
    assert (await http_answer(reader))[0] == 200


async def test_requests_that_come_while_http_is_loading_wait(front: Front, dial: Dial) -> None:
    connections = [await dial() for _ in range(5)]
    for _, writer in connections:
        writer.write(REQUEST + REQUEST)
    for reader, _ in connections:
        assert (await http_answer(reader))[0] == 200
        assert (await http_answer(reader))[0] == 200
    assert front.listener.socket_count == 5


async def test_http_that_cannot_be_loaded_is_tried_again(
    front: Front, dial: Dial, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ImportError("no starlette here")

    with monkeypatch.context() as patch:
        patch.setattr(front.listener, "_http_application", fail)
        reader, writer = await dial()
        writer.write(REQUEST)
        assert await is_ended(reader)
    assert "no starlette here" in caplog.text
    reader, writer = await dial()
    writer.write(REQUEST)
    assert (await http_answer(reader))[0] == 200


@pytest.mark.parametrize("garbage", [b"\x00\x01\x02", b"SSH-2.0-x\r\n", b"AMXP\x00\x01\x00\x00"])
async def test_garbage_is_closed(front: Front, dial: Dial, garbage: bytes) -> None:
    for context in (None, front.trusting()):
        reader, writer = await dial(context)
        writer.write(garbage)
        assert await is_ended(reader)
    await front.until(lambda: front.listener.socket_count == 0)
    assert front.clients.empty()


async def test_garbage_behind_a_good_start_is_closed(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(b"A")
    await front.until(lambda: front.listener.socket_count == 1)
    writer.write(b"BC")
    assert await is_ended(reader)
    await front.until(lambda: front.listener.socket_count == 0)


async def test_a_broken_client_hello_is_closed(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(b"\x16\x03\x01\x00\x05hello")
    assert await is_ended(reader)
    await front.until(lambda: front.listener.socket_count == 0)


async def test_a_distrusting_client_leaves_nothing_behind(front: Front, dial: Dial) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        await dial(ssl.create_default_context())
    await front.until(lambda: front.listener.socket_count == 0)


async def test_a_visitor_who_leaves_at_once_is_forgotten(front: Front, dial: Dial) -> None:
    for said in (b"", b"AM", b"\x16\x03", b"GE"):
        _, writer = await dial()
        writer.write(said)
        await front.until(lambda: front.listener.socket_count == 1)
        writer.close()
        await front.until(lambda: front.listener.socket_count == 0)


async def test_the_silent_are_swept_away_in_time(front: Front, dial: Dial) -> None:
    early, _ = await dial()
    await front.until(lambda: front.listener.socket_count == 1)
    front.clock.advance(HANDSHAKE_MS - 1)
    late, _ = await dial()
    half, half_writer = await dial()
    half_writer.write(b"AM")
    await front.until(lambda: front.listener.socket_count == 3)
    assert front.listener.silent.sweep() == 0
    front.clock.advance(1)
    assert front.listener.silent.sweep() == 1
    assert await early.read() == b""
    front.clock.advance(HANDSHAKE_MS)
    assert front.listener.silent.sweep() == 2
    assert await late.read() == b""
    assert await is_ended(half)
    assert front.listener.socket_count == 0


async def test_a_tls_handshake_that_stops_is_swept_away(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(b"\x16\x03\x01\x02\x00\x01")
    await front.until(lambda: front.listener.socket_count == 1)
    await front.until(lambda: front.listener._starting != {})
    front.clock.advance(HANDSHAKE_MS)
    assert front.listener.silent.sweep() == 1
    assert await is_ended(reader)
    await front.until(lambda: front.listener.socket_count == 0)


async def test_half_handshakes_do_not_keep_others_from_theirs(front: Front, dial: Dial) -> None:
    front.listener._handshakes = Handshakes(
        front.clock, front.listener._begin_tls, asyncio.get_running_loop().call_soon, most=2
    )
    half = []
    for count in range(1, 5):
        half.append(await dial())
        half[-1][1].write(b"\x16\x03\x01\x02\x00\x01")
        await front.until(lambda count=count: front.listener.socket_count == count)
    assert len(front.listener._handshakes._shaking) == 2
    front.clock.advance(PATIENCE_MS)
    reader, writer = await dial(front.trusting())
    writer.write(HEADER)
    assert await reader.readexactly(8) == HEADER
    assert await is_ended(half[0][0])
    # Those who wait for a turn have no transport yet, and are swept away all the same.
    front.clock.advance(HANDSHAKE_MS)
    front.listener.silent.sweep()
    for waiting, _ in half[1:]:
        assert await is_ended(waiting)
    await front.until(lambda: front.listener.socket_count == 1)


async def test_half_a_request_is_swept_away_even_when_it_drips(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(REQUEST)
    await http_answer(reader)
    writer.write(REQUEST[:-2])
    await front.until(lambda: len(front.listener.asking) == 1)
    front.clock.advance(HANDSHAKE_MS - 1)
    writer.write(b"x")
    front.clock.advance(1)
    assert front.listener.asking.sweep() == 1
    await front.until(lambda: front.listener.socket_count == 0)


async def test_a_client_that_spoke_is_not_swept_away(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(HEADER)
    await reader.readexactly(8)
    front.clock.advance(10 * HANDSHAKE_MS)
    assert front.listener.silent.sweep() == 0
    writer.write(b"still here")
    assert await reader.readexactly(10) == b"still here"


async def test_connections_beyond_the_limit_are_closed(
    front: Front, dial: Dial, caplog: pytest.LogCaptureFixture
) -> None:
    front.listen(connections_max=2, sockets_max=10)
    first, first_writer = await dial()
    second, second_writer = await dial()
    for reader, writer in ((first, first_writer), (second, second_writer)):
        writer.write(HEADER)
        await reader.readexactly(8)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            reader, writer = await dial()
            writer.write(HEADER)
            assert await is_ended(reader)
    assert [record.getMessage() for record in caplog.records] == [
        "connection refused: All 2 connections of the profile are in use."
    ] * 3
    # Health is asked on a new connection, and must be answered also now.
    reader, writer = await dial()
    writer.write(REQUEST)
    assert (await http_answer(reader))[0] == 200
    first_writer.close()
    await front.until(lambda: front.listener.connection_count == 1)
    reader, writer = await dial()
    writer.write(HEADER)
    assert await reader.readexactly(8) == HEADER


async def test_the_longest_silent_makes_room(front: Front, dial: Dial) -> None:
    front.listen(connections_max=10, sockets_max=3)
    silent = []
    for count in range(1, 4):
        silent.append((await dial())[0])
        await front.until(lambda count=count: front.listener.socket_count == count)
    reader, writer = await dial()
    writer.write(HEADER)
    assert await reader.readexactly(8) == HEADER
    assert await silent[0].read() == b""
    assert front.listener.socket_count == 3


async def test_sockets_beyond_the_limit_are_closed_at_once(front: Front, dial: Dial) -> None:
    front.listen(connections_max=10, sockets_max=2)
    for _ in range(2):
        reader, writer = await dial()
        writer.write(HEADER)
        await reader.readexactly(8)
    reader, _ = await dial()
    assert await reader.read() == b""
    assert front.listener.socket_count == 2


async def test_a_thousand_silent_connections_need_no_task_and_no_transport(
    front: Front, dial: Dial
) -> None:
    front.listen(connections_max=10, sockets_max=5000)
    tasks = len(asyncio.all_tasks())
    for _ in range(16):
        await asyncio.gather(*(dial() for _ in range(64)))
    await front.until(lambda: front.listener.socket_count == 1024)
    assert len(asyncio.all_tasks()) == tasks
    reader, writer = await dial()
    writer.write(HEADER)
    assert await reader.readexactly(8) == HEADER
    front.clock.advance(HANDSHAKE_MS)
    assert front.listener.silent.sweep() == 1024


async def test_the_stop_ends_every_kind_of_connection(front: Front, dial: Dial) -> None:
    silent, _ = await dial()
    half, half_writer = await dial()
    half_writer.write(b"AMQ")
    web, web_writer = await dial()
    web_writer.write(REQUEST)
    await http_answer(web)
    amqp, amqp_writer = await dial()
    amqp_writer.write(HEADER)
    await amqp.readexactly(8)
    await front.until(lambda: front.listener.socket_count == 4)
    client = await front.clients.get()

    front.listener.close_ports()
    with pytest.raises(ConnectionRefusedError):
        await dial()
    client.wire.write(b"farewell")
    client.wire.close()
    await front.listener.drain()

    assert await amqp.read() == b"farewell"
    assert await silent.read() == b""
    assert await web.read() == b""
    assert await is_ended(half)
    await client.lost
    await front.until(lambda: front.listener.socket_count == 0)


async def test_the_stop_cuts_off_who_does_not_leave(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(HEADER)
    await reader.readexactly(8)
    client = await front.clients.get()
    front.listener.close_ports()
    await front.listener.drain(grace_s=0)
    await client.lost
    assert front.listener.connection_count == 0
