"""Headers, open and close, channels, framing errors and idle time-outs."""

import pytest

from partibus.amqp import conditions
from partibus.amqp.codec.types import Symbol, UInt, UShort
from partibus.amqp.delivery import ACCEPTED
from partibus.amqp.errors import AmqpError
from partibus.amqp.events import (
    AttachReceived,
    BeginConfirmed,
    BeginReceived,
    CloseReceived,
    ConnectionFailed,
    EndReceived,
    OpenReceived,
    TransferReceived,
)
from partibus.amqp.framing import AMQP_HEADER, EMPTY_FRAME, SASL_HEADER
from partibus.amqp.settings import ConnectionSettings
from support.amqp.engines import Peers, RawPeer, attach_fields, frame, of, parse_frames

BEGIN = [None, UInt(0), UInt(1000), UInt(1000)]
CLOSE = 0x18


def condition_of(fields):
    return fields[0].value[0]


# --- headers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x00\x00\x09\x01", b"AMQP\x02\x01\x00\x00", b"GET / HT", b"\x16\x03\x01\0\0\0\0\0"],
)
def test_an_unknown_protocol_is_answered_with_ours_and_ends(header):
    peer = RawPeer()
    (event,) = peer.send(header + b"whatever follows")
    assert isinstance(event, ConnectionFailed)
    assert peer.engine.data_to_send() == SASL_HEADER
    assert peer.engine.closed
    assert peer.send(AMQP_HEADER) == []


def test_sasl_is_optional():
    peer = RawPeer()
    peer.send(AMQP_HEADER)
    assert peer.engine.data_to_send() == AMQP_HEADER
    (event,) = peer.frame(0, 0x10, "peer")
    assert isinstance(event, OpenReceived)


def test_the_initiator_may_leave_sasl_out():
    peers = Peers()
    peers.client.open()
    client_events, server_events = peers.take()
    assert of(OpenReceived, client_events)
    assert of(OpenReceived, server_events)


def test_the_initiator_gives_up_on_another_protocol():
    peers = Peers()
    peers.client.open()
    peers.client.data_to_send()
    (event,) = peers.client.receive_data(SASL_HEADER, 0)
    assert isinstance(event, ConnectionFailed)
    assert peers.client.closed
    assert not peers.client.has_output


# --- open and close ---------------------------------------------------------------------------


def test_the_open_tells_everything():
    settings = ConnectionSettings(
        container_id="server",
        idle_timeout_ms=240_000,
        properties={"product": "partibus"},
        offered_capabilities=("one", "two"),
    )
    peer = RawPeer(settings)
    peer.send(AMQP_HEADER)
    events = peer.frame(
        0, 0x10, "peer", "bus", UInt(65536), UShort(9), UInt(60000), None, None, None, None,
        {Symbol("product"): "test"},
    )  # fmt: skip
    assert repr(events) == (
        "[OpenReceived(frame=OpenFrame('peer', 'bus', 65536, 9, 60000, {'product': 'test'}))]"
    )
    peer.engine.open()
    ((channel, code, fields),) = peer.answers()
    assert (channel, code, len(fields)) == (0, 0x10, 10)
    assert fields[:5] == ["server", None, 262_144, 4_999, 240_000]
    assert fields[7].items == ["one", "two"]
    assert fields[9] == {"product": "partibus"}


def test_the_owner_may_give_other_properties():
    peer = RawPeer()
    peer.send(AMQP_HEADER)
    peer.engine.open({"version": "1"})
    assert peer.answers()[0][2][9] == {"version": "1"}


def test_what_is_pipelined_before_our_open_is_answered_behind_it():
    peer = RawPeer()
    data = AMQP_HEADER + frame(0, 0x10, "peer") + frame(3, 0x11, *BEGIN)
    data += frame(3, 0x12, *attach_fields("link", 5, False))
    events = peer.send(data)
    assert [type(event) for event in events] == [OpenReceived, BeginReceived, AttachReceived]
    events[2].link.accept()
    assert peer.engine.data_to_send() == AMQP_HEADER
    assert not peer.engine.has_output
    peer.engine.open()
    answers = peer.answers()
    assert [(channel, code) for channel, code, _ in answers] == [(0, 0x10), (3, 0x11), (3, 0x12)]
    assert answers[2][2][1] == 5


def test_frames_before_open_are_out_of_place():
    peer = RawPeer()
    (event,) = peer.send(AMQP_HEADER + frame(1, 0x11, *BEGIN))
    assert event.error.condition == conditions.CONNECTION_FRAMING_ERROR
    assert [code for _, code, _ in peer.answers()] == [0x10, CLOSE]


def test_a_close_before_open_is_out_of_place():
    peer = RawPeer()
    (event,) = peer.send(AMQP_HEADER + frame(0, CLOSE))
    assert event.error.condition == conditions.CONNECTION_FRAMING_ERROR


def test_a_second_open_is_refused():
    peer = RawPeer().opened()
    (event,) = peer.frame(0, 0x10, "again")
    assert event.error.condition == conditions.ILLEGAL_STATE


def test_a_tiny_max_frame_size_is_refused():
    peer = RawPeer()
    (event,) = peer.send(AMQP_HEADER + frame(0, 0x10, "peer", None, UInt(511)))
    assert event.error.condition == conditions.INVALID_FIELD


def test_an_answer_that_does_not_fit_the_peer_closes_the_connection():
    peer = RawPeer().opened(max_frame_size=UInt(512))
    peer.begun()
    (event,) = peer.frame(1, 0x12, *attach_fields("n" * 600, 0, True))
    event.link.accept()
    ((_, code, fields),) = peer.answers()
    assert code == CLOSE
    assert condition_of(fields) == conditions.FRAME_SIZE_TOO_SMALL


def test_the_peer_closes():
    peer = RawPeer().opened()
    peer.begun()
    link = peer.attached()
    (event,) = peer.frame(0, CLOSE)
    assert isinstance(event, CloseReceived)
    assert peer.answers() == [(0, CLOSE, [None])]
    assert peer.engine.closed
    assert not link.attached


def test_the_peer_closes_with_an_error():
    peers = Peers().opened()
    peers.client.close(AmqpError("amqp:internal-error", "broken", {"detail": 1}))
    client_events, server_events = peers.take()
    (event,) = of(CloseReceived, server_events)
    assert event.error == AmqpError("amqp:internal-error", "broken", {"detail": 1})
    assert len(of(CloseReceived, client_events)) == 1
    assert peers.client.closed
    assert peers.server.closed


def test_we_close_and_wait_for_the_answer():
    peer = RawPeer().opened()
    peer.begun()
    link = peer.attached()
    peer.engine.close(AmqpError("amqp:connection:forced", "stopping"))
    peer.engine.close()
    ((_, code, fields),) = peer.answers()
    assert code == CLOSE
    assert fields[0].value == ["amqp:connection:forced", "stopping", None]
    assert not link.attached
    assert not peer.engine.closed
    assert peer.frame(1, 0x14, UInt(0), UInt(0), b"t") == []
    assert peer.frame(2, 0x11, *BEGIN) == []
    (event,) = peer.frame(0, CLOSE)
    assert isinstance(event, CloseReceived)
    assert peer.engine.closed
    assert not peer.engine.has_output


def test_a_close_carries_the_settlements_before_it():
    peer = RawPeer().opened()
    peer.begun()
    link = peer.attached()
    link.settle(7, ACCEPTED)
    peer.engine.close()
    assert [code for _, code, _ in peer.answers()] == [0x15, CLOSE]


def test_a_refused_connection_is_opened_first():
    peer = RawPeer()
    peer.send(AMQP_HEADER + frame(0, 0x10, "peer"))
    peer.engine.close(AmqpError("amqp:not-allowed", "no"))
    assert [code for _, code, _ in peer.answers()] == [0x10, CLOSE]


# --- broken frames ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (b"\x00\x04\x00\x01\x02\x00\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x08\x01\x00\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x08\x03\x00\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (b"\x00\x00\x00\x08\x02\x01\x00\x00", conditions.CONNECTION_FRAMING_ERROR),
        (frame(0, 0x19), conditions.CONNECTION_FRAMING_ERROR),
        (frame(9, 0x13, None, UInt(1), UInt(1), UInt(1)), conditions.CONNECTION_FRAMING_ERROR),
        (frame(5000, 0x11, *BEGIN), conditions.CONNECTION_FRAMING_ERROR),
        (frame(1, 0x11, None), conditions.DECODE_ERROR),
        (b"\x00\x00\x00\x09\x02\x00\x00\x00\x45", conditions.DECODE_ERROR),
        (frame(0, 0x11, UShort(4), UInt(0), UInt(1), UInt(1)), conditions.NOT_ALLOWED),
    ],
    ids=[
        "too large",
        "too small",
        "offset too small",
        "offset too large",
        "type",
        "performative",
        "unknown channel",
        "channel above the maximum",
        "missing fields",
        "no descriptor",
        "begin answers nothing",
    ],
)
def test_a_broken_frame_closes_the_connection(data, condition):
    peer = RawPeer().opened()
    (event,) = peer.send(data + frame(1, 0x11, *BEGIN))
    assert isinstance(event, ConnectionFailed)
    assert event.error.condition == condition
    ((_, code, fields),) = peer.answers()
    assert code == CLOSE
    assert condition_of(fields) == condition
    assert len(fields[0].value) == 3
    assert peer.engine.closed


def test_a_frame_as_large_as_allowed_is_taken_in_any_pieces():
    settings = ConnectionSettings(container_id="server", max_frame_size=4096)
    peer = RawPeer(settings).opened()
    peer.begun()
    peer.attached()
    head = frame(1, 0x14, UInt(0), UInt(0), b"t")
    data = frame(1, 0x14, UInt(0), UInt(0), b"t", payload=b"x" * (4096 - len(head)))
    assert len(data) == 4096
    events = []
    for at in range(0, len(data), 7):
        events += peer.send(data[at : at + 7])
    (event,) = events
    assert isinstance(event, TransferReceived)
    assert len(event.payload) == 4096 - len(head)


def test_an_extended_header_is_stepped_over():
    peer = RawPeer().opened()
    plain = frame(1, 0x11, *BEGIN)
    size = (len(plain) + 4).to_bytes(4, "big")
    (event,) = peer.send(size + b"\x03" + plain[5:8] + b"\xde\xad\xbe\xef" + plain[8:])
    assert isinstance(event, BeginReceived)


# --- channels ---------------------------------------------------------------------------------


def test_a_begin_is_answered_in_full():
    peer = RawPeer().opened()
    (event,) = peer.frame(7, 0x11, *BEGIN)
    assert isinstance(event, BeginReceived)
    ((channel, code, fields),) = peer.answers()
    assert (channel, code) == (7, 0x11)
    assert fields == [7, 1, 5000, 5000, 1023, None, None, None]


def test_a_channel_in_use_cannot_be_begun():
    peer = RawPeer().opened()
    peer.begun(1)
    (event,) = peer.frame(1, 0x11, *BEGIN)
    assert event.error.condition == conditions.NOT_ALLOWED


def test_a_channel_is_used_again_after_end():
    peer = RawPeer().opened()
    first = peer.begun(1)
    (event,) = peer.frame(1, 0x17)
    assert isinstance(event, EndReceived)
    assert event.session is first
    assert peer.answers() == [(1, 0x17, [None])]
    second = peer.begun(1)
    assert second is not first
    assert second.active
    assert not first.active


def test_the_initiator_begins_and_ends():
    peers = Peers().opened()
    session = peers.client.begin()
    client_events, server_events = peers.take()
    assert of(BeginConfirmed, client_events)[0].session is session
    assert len(of(BeginReceived, server_events)) == 1
    session.end()
    client_events, server_events = peers.take()
    assert of(EndReceived, client_events)[0].session is session
    assert len(of(EndReceived, server_events)) == 1
    assert not peers.client.sessions
    assert not peers.server.sessions


def test_both_sides_may_use_a_channel_number_for_different_sessions():
    peers = Peers().opened()
    ours = peers.server.begin()
    theirs = peers.client.begin()
    peers.take()
    assert ours.remote_channel >= 0
    assert theirs.remote_channel >= 0
    assert {session.active for session in peers.client.sessions.values()} == {True}
    assert len(peers.client.sessions) == len(peers.server.sessions) == 2


# --- time -------------------------------------------------------------------------------------


def test_an_empty_frame_goes_out_at_half_of_what_the_peer_asks():
    peer = RawPeer().opened(idle_timeout_ms=UInt(60_000))
    assert peer.engine.next_tick_ms() == 30_000
    assert peer.engine.tick(29_999) == []
    assert not peer.engine.has_output
    peer.engine.tick(30_000)
    assert peer.engine.data_to_send() == EMPTY_FRAME
    assert peer.engine.next_tick_ms() == 60_000


def test_no_empty_frame_is_due_behind_our_close():
    """Otherwise the timer of a client whose server does not answer would be due again at once
    (simulator: seed 710001745, 2,000 steps)."""
    peer = RawPeer().opened(idle_timeout_ms=UInt(60_000))
    peer.engine.close()
    peer.engine.data_to_send()
    assert peer.engine.tick(30_000) == []
    assert not peer.engine.has_output
    assert peer.engine.next_tick_ms() == 480_000


def test_empty_frames_are_at_most_30_seconds_apart():
    peer = RawPeer().opened(idle_timeout_ms=UInt(10_000_000))
    assert peer.engine.next_tick_ms() == 30_000


def test_a_peer_that_asks_for_a_storm_does_not_get_it():
    peer = RawPeer().opened(idle_timeout_ms=UInt(1))
    assert peer.engine.next_tick_ms() == 100


def test_a_peer_that_does_not_ask_gets_no_empty_frames():
    peer = RawPeer().opened()
    assert peer.engine.next_tick_ms() == 480_000


def test_a_silent_peer_is_given_up():
    peer = RawPeer().opened()
    assert peer.engine.tick(479_999) == []
    (event,) = peer.engine.tick(480_000)
    assert isinstance(event, ConnectionFailed)
    assert event.error.condition == conditions.RESOURCE_LIMIT_EXCEEDED
    assert "idle" in event.error.description
    assert [code for _, code, _ in peer.answers()] == [CLOSE]
    assert peer.engine.closed
    assert peer.engine.next_tick_ms() is None
    assert peer.engine.tick(999_999) == []


def test_an_empty_frame_keeps_a_peer_alive():
    peer = RawPeer().opened()
    assert peer.engine.receive_data(EMPTY_FRAME, 400_000) == []
    assert peer.engine.tick(480_000) == []
    assert peer.engine.next_tick_ms() == 880_000


def test_idle_time_outs_can_be_switched_off():
    peer = RawPeer(ConnectionSettings(container_id="server", idle_timeout_ms=0))
    assert peer.engine.next_tick_ms() is None
    peer.send(AMQP_HEADER)
    peer.engine.open()
    assert parse_frames(peer.engine.data_to_send())[0][2][4] is None
