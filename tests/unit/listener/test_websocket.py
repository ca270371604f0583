"""AMQP in WebSocket messages: the same pump as TCP, the closing handshake, hostile peers."""

import asyncio
import logging

import pytest
from wsproto.events import BytesMessage, CloseConnection, Pong

from partibus.listener import websocket
from partibus.listener.listener import CLOSING_MS, HANDSHAKE_MS
from partibus.listener.tcp import WRITE_BUFFER_BYTES_HIGH
from partibus.listener.websocket import FRAMES_WITHOUT_DATA_MAX, SENT_MESSAGE_BYTES_MAX
from unit.listener.front import Dial, Front, RecordingClient
from unit.listener.web_peer import PATH, Web, masked, opening

BINARY, TEXT, CONTINUATION, CLOSE, PING = 0x82, 0x81, 0x80, 0x88, 0x89
NOT_FINAL = 0x7F
CHUNK = bytes(64 * 1024)
CHUNKS_MAX = 1024


async def received(front: Front, client: RecordingClient, data: bytes) -> None:
    await front.until(lambda: len(client.received) >= len(data))
    assert client.received == data


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_bytes_both_ways(front: Front, secure: bool, web: Web) -> None:
    peer = await web(front.trusting() if secure else None)
    peer.send(BytesMessage(data=b"AMQP\x00\x01\x00\x00"))
    await received(front, peer.client, b"AMQP\x00\x01\x00\x00")
    assert peer.client.wire.secure is secure
    assert peer.client.wire.peer.startswith("127.0.0.1:")
    peer.client.wire.write(b"answer")
    assert await peer.message() == b"answer"
    assert (front.listener.connection_count, front.listener.socket_count) == (1, 1)


async def test_the_path_of_net_and_a_proxys_escapes(front: Front, dial: Dial) -> None:
    for path in (PATH + "/", "/%24servicebus/websocket", PATH + "?sb-hc-action=connect"):
        reader, writer = await dial()
        writer.write(opening(path))
        assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")


@pytest.mark.parametrize("address", ["https://localhost", "HTTP://localhost:5671"])
async def test_the_whole_address_in_place_of_the_path(
    front: Front, dial: Dial, address: str
) -> None:
    """As Java's client asks; a server must take it (RFC 9112, 3.2.2)."""
    reader, writer = await dial()
    writer.write(opening(address + PATH))
    assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")


async def test_another_path_is_no_websocket(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(opening("/chat"))
    assert (await reader.readline()).startswith(b"HTTP/1.1 404 ")


async def test_another_sub_protocol_is_refused(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(opening(protocol="mqtt"))
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"AMQPWSB10" in answer
    assert front.clients.empty()
    await front.until(lambda: front.listener.socket_count == 0)


async def test_an_upgrade_behind_other_requests(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" + opening())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    await reader.readuntil(b"HTTP/1.1 101 ")
    assert front.listener.socket_count == 1


async def test_what_comes_right_behind_the_request_is_not_lost(front: Front, dial: Dial) -> None:
    _reader, writer = await dial()
    writer.write(opening() + masked(BINARY, b"hasty"))
    client = await front.clients.get()
    await received(front, client, b"hasty")


async def test_the_profiles_connections_are_counted(front: Front, web: Web, dial: Dial) -> None:
    front.listen(connections_max=1, sockets_max=50)
    await web()
    reader, writer = await dial()
    writer.write(opening())
    assert (await reader.read()).startswith(b"HTTP/1.1 503 ")


async def test_a_head_that_never_ends_is_cut_off_in_time(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(opening()[:-2])
    await front.until(lambda: len(front.listener.asking) == 1)
    front.clock.advance(HANDSHAKE_MS)
    assert front.listener.asking.sweep() == 1
    assert await reader.read() == b""


async def test_an_upgraded_connection_owes_no_further_request(front: Front, web: Web) -> None:
    await web()
    assert len(front.listener.asking) == 0


async def test_a_head_without_end_is_refused(front: Front, dial: Dial) -> None:
    reader, writer = await dial()
    writer.write(opening()[:-2] + b"X: " + b"x" * 100_000)
    assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")


# --- messages -----------------------------------------------------------------------------------


async def test_message_borders_mean_nothing(front: Front, web: Web) -> None:
    peer = await web()
    peer.raw(masked(BINARY & NOT_FINAL, b"one ") + masked(PING, b"p"))
    peer.raw(masked(CONTINUATION & NOT_FINAL, b"two ") + masked(CONTINUATION, b"three"))
    peer.raw(masked(BINARY, b" four"))
    await received(front, peer.client, b"one two three four")


async def test_a_frame_that_trickles_in_is_passed_on_as_it_comes(front: Front, web: Web) -> None:
    peer = await web()
    frame = masked(BINARY, bytes(300))
    for at in range(len(frame)):
        peer.raw(frame[at : at + 1])
        await peer.writer.drain()
    await received(front, peer.client, bytes(300))


async def test_a_large_write_goes_out_in_messages_that_every_client_takes(
    front: Front, web: Web
) -> None:
    peer = await web()
    data = bytes(range(256)) * 1024
    peer.client.wire.write(data)
    messages = []
    while sum(map(len, messages)) < len(data):
        messages.append(await peer.message())
    assert b"".join(messages) == data
    assert {len(message) for message in messages} == {SENT_MESSAGE_BYTES_MAX}


async def test_the_latest_ping_is_answered(front: Front, web: Web) -> None:
    peer = await web()
    peer.raw(masked(PING, b"first") + masked(PING, b"latest") + masked(BINARY, b"data"))
    event = await peer.event()
    while event != Pong(payload=b"latest"):
        assert event == Pong(payload=b"first")
        event = await peer.event()
    assert peer.client.received == b"data"


# --- back-pressure -------------------------------------------------------------------------------


def fill(client: RecordingClient) -> int:
    for count in range(1, CHUNKS_MAX):
        client.wire.write(CHUNK)
        if client.pauses:
            return count * len(CHUNK)
    raise AssertionError("the gateway was never asked to pause")


async def test_a_peer_that_does_not_read_pauses_the_gateway(front: Front, web: Web) -> None:
    peer = await web()
    sent = fill(peer.client)
    count = 0
    while count < sent:
        count += len(await peer.message())
    await peer.client.resumed.wait()
    assert (peer.client.pauses, peer.client.resumes) == (1, 1)


async def test_pings_of_a_peer_that_does_not_read_pile_up_no_answers(
    front: Front, web: Web
) -> None:
    peer = await web()
    fill(peer.client)
    transport = peer.client.wire._transport
    assert transport is not None
    before = transport.get_write_buffer_size()
    for number in range(50):
        peer.raw(masked(PING, bytes(125)) + masked(BINARY, b"."))
        await front.until(lambda: len(peer.client.received) > number)  # noqa: B023
    assert transport.get_write_buffer_size() <= before <= WRITE_BUFFER_BYTES_HIGH + 2 * len(CHUNK)


async def test_a_paused_wire_holds_the_peer_back(front: Front, web: Web, dial: Dial) -> None:
    peer = await web()
    peer.client.wire.pause_reading()
    peer.send(BytesMessage(data=b"early"))
    await peer.writer.drain()
    reader, writer = await dial()
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readline()
    assert not peer.client.received
    peer.client.wire.resume_reading()
    await received(front, peer.client, b"early")


# --- the end ------------------------------------------------------------------------------------


async def test_a_peers_goodbye_is_answered(front: Front, web: Web) -> None:
    peer = await web()
    peer.send(BytesMessage(data=b"last words"))
    peer.send(CloseConnection(code=1000, reason="done"))
    assert await peer.goodbye() == (1000, "done")
    await peer.client.lost
    assert peer.client.received == b"last words"
    assert await peer.is_ended()
    assert front.listener.connection_count == 0


async def test_a_goodbye_without_a_code(front: Front, web: Web) -> None:
    peer = await web()
    peer.raw(masked(CLOSE))
    assert (await peer.goodbye())[0] == 1005
    await peer.client.lost


async def test_our_goodbye_comes_behind_what_was_written_and_waits_for_an_answer(
    front: Front, web: Web
) -> None:
    peer = await web()
    peer.client.wire.write(b"last words")
    peer.client.wire.close()
    peer.client.wire.close()
    peer.client.wire.write(b"too late")
    assert await peer.message() == b"last words"
    assert await peer.goodbye() == (1000, "")
    assert not peer.client.lost.done()
    peer.raw(masked(BINARY, b"unheard"))
    peer.raw(masked(CLOSE, b"\x03\xe8"))
    await peer.client.lost
    assert not peer.client.received
    assert len(front.listener.closing) == 0


async def test_a_goodbye_that_is_not_answered_is_waited_for_only_so_long(
    front: Front, web: Web
) -> None:
    peer = await web()
    peer.client.wire.close()
    assert front.listener.closing.sweep() == 0
    front.clock.advance(CLOSING_MS)
    assert front.listener.closing.sweep() == 1
    await peer.client.lost


async def test_a_stop_waits_for_no_answers(front: Front, web: Web) -> None:
    peer = await web()
    peer.client.wire.close()
    front.listener.close_ports()
    await front.listener.drain(grace_s=600)
    assert await peer.goodbye() == (1000, "")


async def test_a_wire_without_a_connection_is_harmless(front: Front, web: Web) -> None:
    peer = await web()
    peer.writer.transport.abort()
    await peer.client.lost
    peer.client.wire.write(b"anybody?")
    peer.client.wire.pause_reading()
    peer.client.wire.resume_reading()
    peer.client.wire.close()
    peer.client.wire.abort()


# --- hostile peers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        pytest.param(masked(TEXT, b"hello"), 1003, id="text"),
        pytest.param(masked(TEXT & NOT_FINAL, b""), 1003, id="beginning of a text"),
        pytest.param(b"\x82\x05hello", 1002, id="not masked"),
        pytest.param(masked(0x83, b"x"), 1002, id="unknown opcode"),
        pytest.param(masked(BINARY | 0x40, b"x"), 1002, id="compressed"),
        pytest.param(masked(CONTINUATION, b"x"), 1002, id="continuation of nothing"),
        pytest.param(
            masked(BINARY & NOT_FINAL, b"x") + masked(BINARY, b"y"), 1002, id="no continuation"
        ),
        pytest.param(masked(PING & NOT_FINAL, b"x"), 1002, id="ping in pieces"),
        pytest.param(masked(PING, bytes(126)), 1002, id="ping too long"),
        pytest.param(masked(CLOSE, b"\x01"), 1002, id="half a close code"),
        pytest.param(masked(CLOSE, b"\x03\xe7"), 1002, id="close code 999"),
        pytest.param(masked(CLOSE, b"\x03\xe8\xff"), 1007, id="close reason not UTF-8"),
        pytest.param(masked(BINARY, b"", length=1 << 63), 1002, id="length with the top bit"),
        pytest.param(masked(PING) * (FRAMES_WITHOUT_DATA_MAX + 1), 1008, id="nothing but pings"),
        pytest.param(
            masked(BINARY & NOT_FINAL)
            + masked(CONTINUATION & NOT_FINAL) * (FRAMES_WITHOUT_DATA_MAX + 1),
            1008,
            id="empty pieces for ever",
        ),
    ],
)
async def test_a_peer_that_breaks_the_protocol_is_told_and_cut_off(
    front: Front, frames: bytes, code: int, caplog: pytest.LogCaptureFixture, web: Web
) -> None:
    with caplog.at_level(logging.INFO):
        peer = await web()
        peer.raw(frames)
        event = await peer.event()
        while isinstance(event, Pong):
            event = await peer.event()
        assert isinstance(event, CloseConnection)
        assert event.code == code
        await peer.client.lost
        assert await peer.is_ended()
    assert not caplog.records
    assert front.listener.socket_count == 0


async def test_a_message_without_end_is_cut_off(
    front: Front, monkeypatch: pytest.MonkeyPatch, web: Web
) -> None:
    monkeypatch.setattr(websocket, "TAKEN_MESSAGE_BYTES_MAX", 100_000)
    peer = await web()
    peer.raw(masked(BINARY, bytes(90_000)) + masked(BINARY, bytes(90_000)))
    await received(front, peer.client, bytes(180_000))
    peer.raw(masked(BINARY & NOT_FINAL, bytes(90_000)) + masked(CONTINUATION, bytes(10_001)))
    assert (await peer.goodbye())[0] == 1009


async def test_a_length_that_was_promised_takes_no_memory(front: Front, web: Web) -> None:
    peer = await web()
    peer.raw(masked(BINARY, b"a little", length=1 << 62))
    await received(front, peer.client, b"a little")


async def test_heartbeats_between_data_are_no_offence(front: Front, web: Web) -> None:
    peer = await web()
    for _ in range(3):
        peer.raw(masked(PING) * (FRAMES_WITHOUT_DATA_MAX - 1) + masked(BINARY, b"."))
    await received(front, peer.client, b"...")


async def test_garbage_after_our_goodbye_ends_the_connection(front: Front, web: Web) -> None:
    peer = await web()
    peer.client.wire.close()
    await peer.goodbye()
    peer.raw(b"\xff" * 64)
    await peer.client.lost


async def test_a_crowd_of_peers_that_vanish(front: Front, web: Web) -> None:
    peers = [await web() for _ in range(20)]
    for peer in peers:
        peer.raw(masked(BINARY, bytes(100))[:50])
        peer.writer.transport.abort()
    await asyncio.gather(*[peer.client.lost for peer in peers])
    await front.until(lambda: front.listener.socket_count == 0)
