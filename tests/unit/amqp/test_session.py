"""Windows, delivery-ids, handles and dispositions of a session."""

import pytest

from partibus.amqp import conditions
from partibus.amqp.codec.types import UInt
from partibus.amqp.delivery import ACCEPTED, RELEASED, Accepted, Released
from partibus.amqp.disposition import encode_disposition
from partibus.amqp.errors import AmqpError
from partibus.amqp.events import (
    AttachReceived,
    DispositionReceived,
    EndReceived,
    FlowReceived,
    IncomingSettled,
    SessionFailed,
    TransferReceived,
)
from partibus.amqp.settings import LINKS_PER_CONNECTION_MAX, ConnectionSettings
from support.amqp.engines import Peers, RawPeer, attach_fields, frame, of

END = 0x17
FLOW = 0x13
DISPOSITION = 0x15


def transfers(data_frames):
    return [fields for _, code, fields in data_frames if code == 0x14]


def grant(peer, link, credit, *, window=1000, next_incoming_id=1, delivery_count=0):
    """A flow of the peer for a link on which we send."""
    return peer.frame(
        1, FLOW, UInt(next_incoming_id), UInt(window), UInt(0), UInt(1000),
        UInt(link.remote_handle), UInt(delivery_count), UInt(credit),
    )  # fmt: skip


@pytest.fixture
def peer():
    return RawPeer().opened()


# --- ids --------------------------------------------------------------------------------------


def test_delivery_ids_are_contiguous_over_the_links_of_a_session(peer):
    session = peer.begun()
    one = peer.attached(handle=0, name="one", peer_sends=False)
    two = peer.attached(handle=1, name="two", peer_sends=False)
    grant(peer, one, 10)
    grant(peer, two, 10)
    sent = [link.send(b"m", b"t", False, 0, None) for link in (one, two, two, one)]
    assert [delivery.delivery_id for delivery in sent] == [1, 2, 3, 4]
    assert session.outgoing.next_outgoing_id == 5
    peer.engine.data_to_send()


def test_delivery_ids_wrap(peer):
    session = peer.begun()
    link = peer.attached(peer_sends=False)
    grant(peer, link, 10)
    session.outgoing.next_delivery_id = 0xFFFFFFFF
    sent = [link.send(b"m", b"t", False, 0, None) for _ in range(3)]
    assert [delivery.delivery_id for delivery in sent] == [0xFFFFFFFF, 0, 1]
    (event,) = peer.send(encode_disposition(1, True, 0xFFFFFFFF, 1, True, ACCEPTED))
    assert event.deliveries == sent
    assert not session.outgoing.unsettled


# --- the peer's window ------------------------------------------------------------------------


def test_messages_wait_for_the_window_in_order(peer):
    peer.begun(incoming_window=2)
    link = peer.attached(peer_sends=False)
    grant(peer, link, 10, window=2)
    assert link.sendable() == 2
    sent = [link.send(b"%d" % n, b"t", False, 0, n) for n in range(5)]
    assert [fields[1] for fields in transfers(peer.answers())] == [1, 2]
    assert [delivery.delivery_id for delivery in sent] == [1, 2, -1, -1, -1]
    assert link.sendable() == 0
    peer.frame(1, FLOW, UInt(3), UInt(2), UInt(0), UInt(1000))
    assert [fields[1] for fields in transfers(peer.answers())] == [3, 4]
    peer.frame(1, FLOW, UInt(5), UInt(10), UInt(0), UInt(1000))
    assert [fields[1] for fields in transfers(peer.answers())] == [5]
    assert link.sendable() == 5


def test_frames_in_flight_count_against_the_window(peer):
    session = peer.begun(incoming_window=10)
    link = peer.attached(peer_sends=False)
    grant(peer, link, 10, window=10)
    for _ in range(4):
        link.send(b"m", b"t", True, 0, None)
    peer.frame(1, FLOW, UInt(3), UInt(10), UInt(0), UInt(1000))
    assert session.outgoing.window == 8
    peer.frame(1, FLOW, None, UInt(10), UInt(0), UInt(1000))
    assert session.outgoing.window == 6
    peer.frame(1, FLOW, UInt(1), UInt(3), UInt(0), UInt(1000))
    assert session.outgoing.window == 0
    # A peer that has seen more than was sent counts in its own way, and may.
    peer.frame(1, FLOW, UInt(7), UInt(10), UInt(0), UInt(1000))
    assert session.outgoing.window == 12


def test_a_starved_link_hears_of_the_window_that_opens(peer):
    peer.begun(incoming_window=1)
    one = peer.attached(handle=0, name="one", peer_sends=False)
    two = peer.attached(handle=1, name="two", peer_sends=False)
    grant(peer, one, 5, window=1)
    grant(peer, two, 5, window=1)
    one.send(b"m", b"t", True, 0, None)
    assert two.sendable() == 0
    events = peer.frame(1, FLOW, UInt(2), UInt(9), UInt(0), UInt(1000))
    assert [event.link for event in of(FlowReceived, events)] == [one, two]
    assert peer.frame(1, FLOW, UInt(2), UInt(9), UInt(0), UInt(1000)) == []


def test_rhea_never_has_more_than_2047_unsettled(peer):
    session = peer.begun(incoming_window=2048)
    link = peer.attached(peer_sends=False)
    grant(peer, link, 5000, window=2048)
    assert link.sendable() == 2047
    sent = [link.send(b"m", b"t", False, 0, None) for _ in range(2047)]
    grant(peer, link, 5000, window=2048, next_incoming_id=2048, delivery_count=2047)
    assert link.sendable() == 0
    events = peer.send(encode_disposition(1, True, 1, 10, True, ACCEPTED))
    assert [type(event) for event in events] == [DispositionReceived, FlowReceived]
    assert link.sendable() == 10
    assert session.wakeable() == [link]
    assert link.sendable() == 10
    for delivery in sent[10:20]:
        link.settle_sent(delivery, ACCEPTED)
    assert session.wakeable() == [link]
    assert session.wakeable() == []
    assert link.sendable() == 20


def test_other_peers_may_have_more_unsettled(peer):
    peer.begun(incoming_window=5000)
    link = peer.attached(peer_sends=False)
    grant(peer, link, 9000, window=5000)
    assert link.sendable() == 5000


# --- our window -------------------------------------------------------------------------------


def test_the_window_is_replenished_at_half():
    peer = RawPeer(ConnectionSettings(container_id="server", incoming_window=10)).opened()
    session = peer.begun()
    link = peer.attached()
    link.set_credit(100)
    peer.answers()
    for number in range(4):
        peer.frame(1, 0x14, UInt(0), UInt(number), b"t")
    assert peer.answers() == []
    peer.frame(1, 0x14, UInt(0), UInt(4), b"t")
    ((_, code, fields),) = peer.answers()
    assert code == FLOW
    assert fields == [5, 10, 1, 5000, None, None, None, None, None, False, None]
    assert session.incoming_left == 10


def test_every_flow_opens_the_window_anew():
    peer = RawPeer(ConnectionSettings(container_id="server", incoming_window=10)).opened()
    session = peer.begun()
    link = peer.attached()
    link.set_credit(100)
    for number in range(3):
        peer.frame(1, 0x14, UInt(0), UInt(number), b"t")
    link.set_credit(100)
    assert session.incoming_left == 10


def test_an_echo_is_answered_and_nothing_else_is(peer):
    peer.begun()
    assert peer.frame(1, FLOW, UInt(1), UInt(10), UInt(0), UInt(10)) == []
    assert peer.answers() == []
    echo = [UInt(1), UInt(10), UInt(0), UInt(10), None, None, None, None, None, True]
    peer.frame(1, FLOW, *echo)
    ((_, code, fields),) = peer.answers()
    assert (code, fields[4:7]) == (FLOW, [None, None, None])
    link = peer.attached(handle=3, peer_sends=False)
    grant(peer, link, 7)
    echo[4:7] = [UInt(3), UInt(0), UInt(7)]
    peer.frame(1, FLOW, *echo)
    ((_, code, fields),) = peer.answers()
    assert (code, fields[4:7]) == (FLOW, [3, 0, 7])


# --- rules of handles -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        frame(1, 0x14, UInt(9), UInt(0), b"t"),
        frame(1, FLOW, UInt(1), UInt(1), UInt(1), UInt(1), UInt(9), UInt(0), UInt(1)),
        frame(1, 0x16, UInt(9), True),
    ],
    ids=["transfer", "flow", "detach"],
)
def test_an_unattached_handle_ends_the_session(peer, data):
    session = peer.begun()
    (event,) = peer.send(data)
    assert isinstance(event, SessionFailed)
    assert event.session is session
    assert event.error.condition == conditions.SESSION_UNATTACHED_HANDLE
    ((channel, code, fields),) = peer.answers()
    assert (channel, code) == (1, END)
    assert fields[0].value[0] == conditions.SESSION_UNATTACHED_HANDLE
    assert not peer.engine.closed


def test_what_comes_for_a_failed_session_is_ignored_until_its_end(peer):
    peer.begun()
    peer.attached()
    peer.frame(1, 0x16, UInt(9), True)
    peer.answers()
    assert peer.frame(1, 0x14, UInt(0), UInt(0), b"t") == []
    assert peer.frame(1, 0x12, *attach_fields("other", 4, False)) == []
    assert peer.frame(1, END) == []
    assert peer.answers() == []
    assert peer.begun(1).active


def test_another_session_is_untouched(peer):
    peer.begun(1)
    other = peer.begun(2)
    link = peer.attached(channel=2)
    link.set_credit(5)
    peer.frame(1, 0x16, UInt(9), True)
    assert other.active
    (event,) = peer.frame(2, 0x14, UInt(0), UInt(0), b"t")
    assert isinstance(event, TransferReceived)


def test_a_handle_in_use_ends_the_session(peer):
    peer.begun()
    peer.attached(handle=4)
    (event,) = peer.frame(1, 0x12, *attach_fields("other", 4, False))
    assert event.error.condition == conditions.SESSION_HANDLE_IN_USE


def test_a_handle_above_the_maximum_closes_the_connection(peer):
    peer.begun()
    (event,) = peer.frame(1, 0x12, *attach_fields("link", 1024, False))
    assert event.error.condition == conditions.CONNECTION_FRAMING_ERROR
    assert peer.engine.closed


def test_an_attach_that_is_too_large_ends_the_session(peer):
    peer.begun()
    (event,) = peer.frame(1, 0x12, *attach_fields("n" * 40_000, 0, False))
    assert isinstance(event, SessionFailed)
    assert event.error.condition == conditions.RESOURCE_LIMIT_EXCEEDED


# --- end --------------------------------------------------------------------------------------


def test_the_peer_ends_a_session_with_its_links():
    peers = Peers().opened()
    session = peers.client.begin()
    client_link, server_link = peers.link(session)
    session.end(AmqpError("amqp:internal-error", "why"))
    client_events, server_events = peers.take()
    (event,) = of(EndReceived, server_events)
    assert event.error == AmqpError("amqp:internal-error", "why")
    assert event.session.links == {0: server_link}
    assert not server_link.attached
    assert not client_link.attached
    assert len(of(EndReceived, client_events)) == 1


def test_nothing_is_written_on_an_ended_session(peer):
    session = peer.begun()
    link = peer.attached()
    session.end()
    session.end()
    link.settle(1, ACCEPTED)
    link.set_credit(5)
    link.detach()
    assert [code for _, code, _ in peer.answers()] == [END]


def test_a_settlement_goes_out_before_the_end(peer):
    session = peer.begun()
    link = peer.attached()
    link.settle(0, ACCEPTED)
    session.end()
    assert [code for _, code, _ in peer.answers()] == [DISPOSITION, END]


# --- dispositions -----------------------------------------------------------------------------


def test_settlements_are_gathered_into_ranges_whatever_their_order(peer):
    peer.begun()
    link = peer.attached()
    other = peer.attached(handle=1, name="other")
    for delivery_id in (4, 2, 3, 9):
        link.settle(delivery_id, ACCEPTED)
    other.settle(1, ACCEPTED)
    link.settle(5, RELEASED)
    ranges = [(code, fields[:4]) for _, code, fields in peer.answers()]
    assert ranges == [
        (DISPOSITION, [True, 1, 4, True]),
        (DISPOSITION, [True, 9, 9, True]),
        (DISPOSITION, [True, 5, 5, True]),
    ]
    assert not peer.engine.has_output


def test_a_settled_disposition_forgets(peer):
    session = peer.begun()
    link = peer.attached(peer_sends=False)
    grant(peer, link, 10)
    sent = [link.send(b"m", b"t", False, 0, n) for n in range(3)]
    (event,) = peer.send(encode_disposition(1, True, 1, 2, True, RELEASED))
    assert event.deliveries == sent[:2]
    assert event.settled
    assert isinstance(event.state, Released)
    assert all(delivery.settled for delivery in sent[:2])
    assert list(session.outgoing.unsettled) == [3]
    assert peer.send(encode_disposition(1, True, 1, 2, True, RELEASED)) == []


def test_settlement_in_two_steps():
    peers = Peers().opened()
    client_link, server_link = peers.link(peers.client.begin(), client_sends=False)
    sent = [server_link.send(b"m", b"t", False, 0, n) for n in range(2)]
    client_events, _ = peers.take()
    for event in of(TransferReceived, client_events):
        client_link.propose(event.delivery_id, ACCEPTED)
    _, server_events = peers.take()
    (event,) = of(DispositionReceived, server_events)
    assert (event.deliveries, event.settled) == (sent, False)
    assert isinstance(event.state, Accepted)
    for delivery in sent:
        server_link.settle_sent(delivery, ACCEPTED)
        server_link.settle_sent(delivery, ACCEPTED)
    client_events, _ = peers.take()
    (event,) = of(IncomingSettled, client_events)
    assert (event.first, event.last) == (1, 2)
    assert isinstance(event.state, Accepted)
    assert not server_link.session.outgoing.unsettled


def test_a_hostile_range_costs_what_is_unsettled(peer):
    peer.begun()
    link = peer.attached(peer_sends=False)
    grant(peer, link, 10)
    sent = [link.send(b"m", b"t", False, 0, n) for n in range(3)]
    (event,) = peer.send(encode_disposition(1, True, 2, 0xFFFFFFFF, False, ACCEPTED))
    assert event.deliveries == sent[1:]
    (event,) = peer.send(encode_disposition(1, True, 0, 0x7FFFFFFF, True, ACCEPTED))
    assert event.deliveries == sent


def test_what_was_sent_settled_is_not_remembered(peer):
    session = peer.begun()
    link = peer.attached(peer_sends=False)
    grant(peer, link, 10)
    delivery = link.send(b"m", b"t", True, 0, None)
    assert delivery.delivery_id == 1
    assert not session.outgoing.unsettled
    link.settle_sent(delivery, ACCEPTED)
    assert [code for _, code, _ in peer.answers() if code == DISPOSITION] == []


def test_a_sender_that_does_not_settle_is_not_reported(peer):
    peer.begun()
    assert peer.send(encode_disposition(1, False, 0, 3, False, ACCEPTED)) == []
    (event,) = peer.send(encode_disposition(1, False, 0, 3, True, ACCEPTED))
    assert isinstance(event, IncomingSettled)
    assert peer.send(encode_disposition(1, False, 3, 0, True, ACCEPTED)) == []


def test_links_are_limited_per_connection(peer):
    channels = range(1, 6)
    for channel in channels:
        peer.begun(channel)
    places = [(channel, handle) for channel in channels for handle in range(1000)]
    assert len(places) == LINKS_PER_CONNECTION_MAX
    for channel, handle in places:
        peer.frame(channel, 0x12, *attach_fields(f"{channel}-{handle}", handle, False))
    peer.answers()
    assert peer.frame(1, 0x12, *attach_fields("one more", 1000, False)) == []
    attach, detach = peer.answers()
    assert (attach[1], attach[2][5:7]) == (0x12, [None, None])
    assert detach[2][2].value[0] == conditions.RESOURCE_LIMIT_EXCEEDED
    assert peer.frame(1, 0x16, UInt(1000), True) == []
    peer.frame(2, 0x16, UInt(0), True)
    (event,) = peer.frame(1, 0x12, *attach_fields("one more", 1000, False))
    assert isinstance(event, AttachReceived)
