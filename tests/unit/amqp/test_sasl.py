"""The SASL exchange, from both sides and broken."""

import pytest

from partibus.amqp import conditions, sasl
from partibus.amqp.codec.encode import encode_described_list, encode_value
from partibus.amqp.codec.types import Array, Symbol
from partibus.amqp.events import (
    ConnectionFailed,
    OpenReceived,
    SaslInitReceived,
    SaslOutcomeReceived,
)
from partibus.amqp.framing import AMQP_HEADER, FRAME_SASL, SASL_HEADER, encode_frame
from partibus.amqp.settings import ConnectionSettings
from support.amqp.engines import Peers, RawPeer, frame, of, parse_frames


def sasl_frame(code, *fields):
    body = encode_described_list(code, [encode_value(field) for field in fields])
    return encode_frame(0, body, FRAME_SASL)


INIT = sasl_frame(sasl.INIT, Symbol("ANONYMOUS"), b"", "localhost")


def test_the_listener_offers_its_mechanisms_behind_the_header():
    peer = RawPeer()
    assert peer.send(SASL_HEADER) == []
    output = peer.engine.data_to_send()
    assert output.startswith(SASL_HEADER)
    ((_, code, fields),) = parse_frames(output)
    assert code == sasl.MECHANISMS
    assert isinstance(fields[0], Array)
    assert fields[0].items == ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"]


def test_an_init_waits_for_the_owner():
    peer = RawPeer()
    (event,) = peer.send(SASL_HEADER + INIT)
    assert repr(event) == (
        "SaslInitReceived(mechanism='ANONYMOUS', response=b'', hostname='localhost')"
    )
    peer.engine.data_to_send()
    assert not peer.engine.has_output
    assert peer.engine.sasl_outcome(True) == []
    ((_, code, fields),) = parse_frames(peer.engine.data_to_send())
    assert (code, fields) == (sasl.OUTCOME, [0])


def test_what_was_sent_behind_the_init_is_read_after_the_verdict():
    peer = RawPeer()
    opening = AMQP_HEADER + frame(0, 0x10, "peer")
    events = peer.send(SASL_HEADER + INIT + opening[:11])
    events += peer.send(opening[11:])
    assert [type(event) for event in events] == [SaslInitReceived]
    (event,) = peer.engine.sasl_outcome(True)
    assert isinstance(event, OpenReceived)


def test_a_refused_init_ends_the_connection():
    peer = RawPeer()
    peer.send(SASL_HEADER + INIT + AMQP_HEADER)
    peer.engine.data_to_send()
    assert peer.engine.sasl_outcome(False) == []
    ((_, code, fields),) = parse_frames(peer.engine.data_to_send())
    assert (code, fields) == (sasl.OUTCOME, [1])
    assert peer.engine.closed


def test_a_mechanism_that_is_not_offered_is_refused():
    peer = RawPeer()
    (event,) = peer.send(SASL_HEADER + sasl_frame(sasl.INIT, Symbol("SCRAM")))
    assert isinstance(event, ConnectionFailed)
    assert event.error.condition == conditions.UNAUTHORIZED_ACCESS
    assert peer.engine.closed
    assert parse_frames(peer.engine.data_to_send())[-1][1:] == (sasl.OUTCOME, [1])


def test_a_flood_before_the_verdict_is_cut_off():
    peer = RawPeer(ConnectionSettings(container_id="server", max_frame_size=512))
    peer.send(SASL_HEADER + INIT + AMQP_HEADER)
    (event,) = peer.send(b"x" * 600)
    assert isinstance(event, ConnectionFailed)
    assert event.error.condition == conditions.RESOURCE_LIMIT_EXCEEDED


@pytest.mark.parametrize(
    "data",
    [
        sasl_frame(sasl.OUTCOME, 0),
        sasl_frame(0x43, b"response"),
        frame(0, 0x10, "an AMQP frame"),
        sasl_frame(sasl.INIT),
        sasl_frame(sasl.INIT, Symbol("PLAIN"), "text"),
        b"\x00\x00\x20\x00\x02\x01\x00\x00",
    ],
    ids=["outcome", "response", "amqp", "no mechanism", "response type", "too large"],
)
def test_a_frame_out_of_place_ends_the_connection(data):
    peer = RawPeer()
    (event,) = peer.send(SASL_HEADER + data)
    assert isinstance(event, ConnectionFailed)
    assert peer.engine.closed


def test_plain_reaches_the_owner_and_is_parsed():
    peers = Peers()
    peers.client.sasl_plain("name", "key")
    peers.client.open()
    client_events, server_events = peers.take()
    (init,) = of(SaslInitReceived, server_events)
    assert init.hostname == "bus"
    assert sasl.parse_plain(init.response) == ("name", "key")
    assert of(SaslOutcomeReceived, client_events)[0].code == 0
    assert peers.client.remote_open.container_id == "server"


@pytest.mark.parametrize("response", [b"", b"name", b"\0a\0b\0c", b"\0\xff\0key"])
def test_what_is_not_plain_is_not_parsed(response):
    assert sasl.parse_plain(response) is None


def test_the_initiator_gives_up_when_its_mechanism_is_not_offered():
    peers = Peers(server=ConnectionSettings(container_id="s", sasl_mechanisms=("EXTERNAL",)))
    peers.client.sasl_anonymous()
    client_events, _ = peers.take()
    assert of(ConnectionFailed, client_events)
    assert peers.client.closed


def test_the_initiator_stops_on_a_refusal():
    peers = Peers()
    peers.client.sasl_anonymous()
    peers.to_server()
    peers.to_client()
    peers.server.receive_data(peers.client.data_to_send(), 0)
    peers.server.sasl_outcome(False)
    peers.to_client()
    assert of(SaslOutcomeReceived, peers.client_events)[0].code == 1
    assert peers.client.closed
