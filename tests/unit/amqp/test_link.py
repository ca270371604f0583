"""Attach and detach, credit and drain."""

import pytest

from partibus.amqp import conditions
from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_described_list, encode_value
from partibus.amqp.codec.types import Symbol, UByte, UInt, ULong
from partibus.amqp.delivery import ACCEPTED
from partibus.amqp.errors import AmqpError
from partibus.amqp.events import (
    AttachConfirmed,
    AttachReceived,
    DetachReceived,
    FlowReceived,
    LinkFailed,
    TransferReceived,
)
from partibus.amqp.framing import encode_frame
from partibus.amqp.settings import TRANSFERS_WITHOUT_CREDIT_MAX
from partibus.amqp.terminus import encode_source, encode_target
from support.amqp.engines import Peers, RawPeer, attach_fields, frame, of

ATTACH = 0x12
DETACH = 0x16
FLOW = 0x13


@pytest.fixture
def peer():
    raw = RawPeer().opened()
    raw.begun()
    return raw


def flow(peer, handle, *, credit, count=0, drain=False):
    return peer.frame(
        1, FLOW, UInt(1), UInt(1000), UInt(0), UInt(1000), UInt(handle), UInt(count),
        UInt(credit), None, drain,
    )  # fmt: skip


# --- attach -----------------------------------------------------------------------------------


@pytest.mark.parametrize("peer_sends", [True, False])
def test_an_attach_is_answered_with_both_ends_byte_for_byte(peer, peer_sends):
    # Encodings that no encoder of ours would choose: list32, str32, a wide ulong descriptor.
    source = b"\x00\x80" + (0x28).to_bytes(8, "big") + b"\xd0\x00\x00\x00\x0b\x00\x00\x00\x01"
    source += b"\xb1\x00\x00\x00\x02q1"
    target = b"\x00\xa3\x10amqp:target:list\xc0\x05\x01\xa1\x02q2"
    fields = [
        encode_value(value) for value in ("link", UInt(7), not peer_sends, UByte(0), UByte(1))
    ]
    body = encode_described_list(ATTACH, [*fields, source, target])
    (event,) = peer.send(encode_frame(1, body))
    assert isinstance(event, AttachReceived)
    link = event.link
    assert (link.name, link.is_sender) == ("link", not peer_sends)
    assert (link.source.address, link.target.address) == ("q1", "q2")
    assert (link.snd_settle_mode, link.rcv_settle_mode) == (0, 1)
    link.accept(max_message_size=4096, properties={"key": ULong(5)})
    data = peer.engine.data_to_send()
    assert source in data
    assert target in data
    value, _ = decode_value(data, 8, len(data))
    assert value.descriptor == ATTACH
    reply = value.value
    assert len(reply) == 14
    assert reply[:5] == ["link", 7, peer_sends, 0, 1]
    assert reply[9] == (None if peer_sends else 0)
    assert reply[10] == 4096
    assert reply[13] == {"key": 5}
    assert link.attached


def test_settle_modes_that_are_null_stay_null(peer):
    link = peer.attached()
    assert (link.snd_settle_mode, link.rcv_settle_mode) == (None, None)


def test_the_owner_may_give_its_own_ends(peer):
    (event,) = peer.frame(1, ATTACH, *attach_fields("link", 0, True))
    event.link.accept(source=encode_source("s2"), target=encode_target("t2"))
    ((_, _, fields),) = peer.answers()
    assert fields[5].value[0] == "s2"
    assert fields[6].value[0] == "t2"


def test_properties_and_capabilities_of_the_peer_are_kept(peer):
    fields = attach_fields("link", 0, True)
    fields += [ULong(1024), None, Symbol("wish"), {Symbol("com.microsoft:timeout"): UInt(5)}]
    (event,) = peer.frame(1, ATTACH, *fields)
    assert event.link.remote_max_message_size == 1024
    assert event.link.desired_capabilities == ["wish"]
    assert event.link.properties == {"com.microsoft:timeout": 5}


def test_a_refusal_attaches_nothing_and_detaches(peer):
    (event,) = peer.frame(1, ATTACH, *attach_fields("link", 3, True))
    event.link.refuse(AmqpError("amqp:not-found", "no such queue"))
    event.link.refuse(AmqpError("amqp:not-found", "again"))
    event.link.accept()
    attach, detach = peer.answers()
    assert attach[2][:3] == ["link", 3, False]
    assert attach[2][5:7] == [None, None]
    assert detach[2][:2] == [3, True]
    assert detach[2][2].value == ["amqp:not-found", "no such queue", None]
    (event,) = peer.frame(1, DETACH, UInt(3), True)
    assert isinstance(event, DetachReceived)
    assert peer.answers() == []


def test_an_attach_may_be_answered_late(peer):
    (event,) = peer.frame(1, ATTACH, *attach_fields("slow", 0, True))
    assert flow(peer, 0, credit=5)
    other = peer.attached(handle=1, name="quick")
    assert other.attached
    assert event.link.sendable() == 0
    event.link.accept()
    assert event.link.sendable() == 5


def test_a_link_that_went_before_its_answer_is_not_accepted(peer):
    (event,) = peer.frame(1, ATTACH, *attach_fields("slow", 0, True))
    link = event.link
    (event,) = peer.frame(1, DETACH, UInt(0), True)
    assert isinstance(event, DetachReceived)
    assert [code for _, code, _ in peer.answers()] == [ATTACH, DETACH]
    link.accept()
    assert not link.attached
    assert peer.answers() == []


def test_the_initiator_learns_what_the_other_side_is():
    peers = Peers().opened()
    session = peers.client.begin()
    client_link = session.attach(
        "link", is_sender=True, source=encode_source(None), target=encode_target("q"),
        snd_settle_mode=0, rcv_settle_mode=1, properties={"p": 1},
    )  # fmt: skip
    _, server_events = peers.take()
    (event,) = of(AttachReceived, server_events)
    assert event.link.target.address == "q"
    assert event.link.source.address is None
    assert event.link.properties == {"p": 1}
    assert not client_link.attached
    event.link.accept(max_message_size=99)
    client_events, _ = peers.take()
    assert of(AttachConfirmed, client_events)[0].link is client_link
    assert client_link.attached
    assert client_link.remote_max_message_size == 99


def test_the_initiator_learns_of_a_refusal():
    peers = Peers().opened()
    session = peers.client.begin()
    client_link = session.attach(
        "link", is_sender=True, source=encode_source(None), target=encode_target("q")
    )
    _, server_events = peers.take()
    of(AttachReceived, server_events)[0].link.refuse(AmqpError("amqp:not-found", "no"))
    client_events, _ = peers.take()
    assert [type(event) for event in client_events] == [AttachConfirmed, DetachReceived]
    assert client_link.target is None
    assert client_events[1].error.condition == "amqp:not-found"
    assert not session.links


def test_a_link_detached_before_its_confirmation_is_not_taken_for_a_new_one():
    peers = Peers().opened()
    session = peers.client.begin()
    link = session.attach(
        "link", is_sender=True, source=encode_source(None), target=encode_target("q")
    )
    link.detach()
    client_events, server_events = peers.take()
    assert not of(AttachReceived, client_events)
    assert [type(event) for event in server_events][-2:] == [AttachReceived, DetachReceived]
    assert not session.links
    assert not peers.client.link_names


# --- detach -----------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_is_answered_alike(peer, closed):
    link = peer.attached(handle=2)
    (event,) = peer.frame(1, DETACH, UInt(2), closed)
    assert repr(event) == f"DetachReceived(link={link!r}, closed={closed}, error=None)"
    assert peer.answers() == [(1, DETACH, [2, closed, None])]
    assert not link.attached


def test_we_never_detach_twice(peer):
    link = peer.attached()
    link.detach(AmqpError("amqp:link:detach-forced", "token expired"))
    link.detach()
    (event,) = peer.frame(1, DETACH, UInt(0), True)
    assert isinstance(event, DetachReceived)
    ((_, code, fields),) = peer.answers()
    assert (code, fields[0]) == (DETACH, 0)
    link.detach()
    assert peer.answers() == []


def test_a_handle_and_a_name_are_used_again_after_detach(peer):
    first = peer.attached(handle=2, name="same")
    peer.frame(1, DETACH, UInt(2), True)
    peer.answers()
    second = peer.attached(handle=2, name="same")
    assert second is not first
    assert second.handle == 2
    second.set_credit(1)
    (event,) = peer.frame(1, 0x14, UInt(2), UInt(0), b"t")
    assert event.link is second


def test_our_handle_differs_when_the_number_is_taken(peer):
    first = peer.attached(handle=2, name="one")
    first.detach()
    assert first.handle == 2
    other = peer.attached(handle=3, name="two")
    peer.frame(1, DETACH, UInt(2), True)
    assert other.handle == 3
    session = peer.engine.sessions[1]
    mine = session.attach("mine", is_sender=True, source=b"\x40", target=b"\x40")
    assert mine.handle == 0
    (event,) = peer.frame(1, ATTACH, *attach_fields("theirs", 0, False))
    assert event.link.handle == 1


def test_what_comes_for_a_link_that_we_detached_is_ignored(peer):
    link = peer.attached(handle=0)
    link.set_credit(5)
    link.detach()
    peer.answers()
    assert peer.frame(1, 0x14, UInt(0), UInt(0), b"t") == []
    assert flow(peer, 0, credit=1) == []
    assert peer.engine.sessions[1].next_incoming_id == 1


def test_unsettled_deliveries_are_forgotten_with_their_link(peer):
    one = peer.attached(handle=0, name="one", peer_sends=False)
    two = peer.attached(handle=1, name="two", peer_sends=False)
    flow(peer, 0, credit=5)
    flow(peer, 1, credit=5)
    one.send(b"m", b"t", False, 0, None)
    kept = two.send(b"m", b"t", False, 0, None)
    peer.frame(1, DETACH, UInt(0), True)
    assert list(peer.engine.sessions[1].outgoing.unsettled.values()) == [kept]


def test_a_name_attached_again_is_stolen(peer):
    peer.begun(2)
    first = peer.attached(handle=0, name="same")
    receiver = peer.attached(handle=1, name="same", peer_sends=False)
    failed, attached = peer.frame(2, ATTACH, *attach_fields("same", 0, False))
    assert isinstance(failed, LinkFailed)
    assert failed.link is first
    assert failed.error.condition == conditions.LINK_STOLEN
    assert isinstance(attached, AttachReceived)
    attached.link.accept()
    assert [(channel, code) for channel, code, _ in peer.answers()] == [(1, DETACH), (2, ATTACH)]
    assert receiver.attached
    assert peer.frame(1, DETACH, UInt(0), True) == []


# --- credit where we send ---------------------------------------------------------------------


def test_credit_is_relative_to_what_the_peer_has_seen(peer):
    link = peer.attached(peer_sends=False)
    (event,) = flow(peer, 0, credit=10)
    assert isinstance(event, FlowReceived)
    assert link.sendable() == 10
    for _ in range(4):
        link.send(b"m", b"t", True, 0, None)
    assert link.credit == 6
    flow(peer, 0, credit=10, count=1)
    assert link.credit == 7
    flow(peer, 0, credit=2, count=0)
    assert link.credit == 0
    flow(peer, 0, credit=0xFFFFFFFF, count=4)
    assert link.credit == 0xFFFFFFFF
    flow(peer, 0, credit=5, count=6)
    assert link.credit == 7


def test_credit_survives_the_wrap_of_the_count(peer):
    link = peer.attached(peer_sends=False)
    link.delivery_count = 2
    flow(peer, 0, credit=10, count=0xFFFFFFFF)
    assert link.credit == 7


def test_a_flow_without_a_count_speaks_of_the_start(peer):
    link = peer.attached(peer_sends=False)
    peer.frame(1, FLOW, UInt(1), UInt(1000), UInt(0), UInt(1000), UInt(0), None, UInt(10))
    assert link.credit == 10


def test_sending_takes_credit(peer):
    link = peer.attached(peer_sends=False)
    with pytest.raises(AssertionError):
        link.send(b"m", b"t", False, 0, None)


def test_a_drain_is_answered_with_the_credit_given_back(peer):
    link = peer.attached(peer_sends=False)
    (event,) = flow(peer, 0, credit=10, drain=True)
    assert event.link.drain
    link.send(b"m", b"t", True, 0, None)
    peer.engine.data_to_send()
    link.drained()
    ((_, code, fields),) = peer.answers()
    assert code == FLOW
    assert fields[4:9] == [0, 10, 0, None, True]
    assert link.credit == 0
    assert not link.drain


def test_a_drain_without_credit_is_answered_too(peer):
    link = peer.attached(peer_sends=False)
    flow(peer, 0, credit=0, drain=True)
    assert link.drain
    link.drained()
    assert peer.answers()[0][2][4:9] == [0, 0, 0, None, True]


def test_a_drain_is_answered_behind_the_messages_that_wait(peer):
    link = peer.attached(peer_sends=False)
    peer.frame(
        1, FLOW, UInt(1), UInt(1), UInt(0), UInt(1000), UInt(0), UInt(0), UInt(10), None, True
    )
    link.send(b"one", b"t", True, 0, None)
    link.send(b"two", b"t", True, 0, None)
    link.drained()
    assert [code for _, code, _ in peer.answers()] == [0x14]
    peer.frame(1, FLOW, UInt(2), UInt(5), UInt(0), UInt(1000))
    frames = peer.answers()
    assert [code for _, code, _ in frames] == [0x14, FLOW]
    assert frames[1][2][4:9] == [0, 10, 0, None, True]


def test_messages_that_wait_are_dropped_with_their_link(peer):
    peer.begun(2, incoming_window=1)
    one = peer.attached(handle=0, name="one", peer_sends=False, channel=2)
    two = peer.attached(handle=1, name="two", peer_sends=False, channel=2)
    for handle in (0, 1):
        peer.frame(2, FLOW, UInt(1), UInt(1), UInt(0), UInt(9), UInt(handle), UInt(0), UInt(9))
    one.send(b"gone", b"t", True, 0, None)
    one.send(b"lost", b"t", True, 0, None)
    kept = two.send(b"kept", b"t", True, 0, None)
    peer.answers()
    one.detach()
    peer.frame(2, FLOW, UInt(2), UInt(5), UInt(0), UInt(1000))
    assert [code for _, code, _ in peer.answers()] == [DETACH, 0x14]
    assert kept.delivery_id == 2


# --- credit where we receive ------------------------------------------------------------------


def test_granting_credit_is_a_flow_in_full(peer):
    link = peer.attached(handle=6)
    link.set_credit(300)
    ((_, code, fields),) = peer.answers()
    assert code == FLOW
    assert fields == [0, 5000, 1, 5000, 6, 0, 300, None, False, False, None]


def test_credit_is_counted_down(peer):
    link = peer.attached()
    link.set_credit(2)
    peer.frame(1, 0x14, UInt(0), UInt(0), b"t")
    assert (link.credit, link.delivery_count) == (1, 1)
    link.set_credit(5)
    assert peer.answers()[-1][2][5:7] == [1, 5]


def test_no_credit_is_granted_before_the_attach_is_answered(peer):
    (event,) = peer.frame(1, ATTACH, *attach_fields("link", 0, False))
    event.link.set_credit(5)
    assert peer.answers() == []


def test_transfers_without_credit_are_borne_up_to_a_limit(peer):
    link = peer.attached()
    for _ in range(TRANSFERS_WITHOUT_CREDIT_MAX):
        (event,) = peer.frame(1, 0x14, UInt(0), UInt(0), b"t")
        assert isinstance(event, TransferReceived)
    (event,) = peer.frame(1, 0x14, UInt(0), UInt(0), b"t")
    assert isinstance(event, LinkFailed)
    assert event.error.condition == conditions.LINK_TRANSFER_LIMIT_EXCEEDED
    assert not link.attached


def test_a_flow_starts_the_overdraft_anew(peer):
    link = peer.attached()
    peer.frame(1, 0x14, UInt(0), UInt(0), b"t")
    assert link.overdraft == 1
    link.set_credit(5)
    assert link.overdraft == 0


def test_a_transfer_before_the_attach_is_answered_is_reported(peer):
    attach = frame(1, ATTACH, *attach_fields("link", 0, False))
    transfer = frame(1, 0x14, UInt(0), UInt(0), b"t")
    attached, received = peer.send(attach + transfer)
    assert isinstance(received, TransferReceived)
    assert received.link is attached.link
    assert not received.link.attached
    attached.link.refuse(AmqpError("amqp:not-found", "no"))
    assert peer.send(transfer) == []


def test_a_transfer_from_a_receiver_fails_the_link(peer):
    link = peer.attached(peer_sends=False)
    (event,) = peer.frame(1, 0x14, UInt(0), UInt(0), b"t")
    assert isinstance(event, LinkFailed)
    assert event.error.condition == conditions.NOT_ALLOWED
    assert not link.attached
    assert peer.engine.sessions[1].active


def test_flows_of_a_sender_are_ignored(peer):
    link = peer.attached()
    link.set_credit(5)
    peer.answers()
    assert flow(peer, 0, credit=10000, count=77) == []
    assert (link.credit, link.delivery_count) == (5, 0)
    assert peer.answers() == []


def test_a_receiver_drains():
    peers = Peers().opened()
    client_link, server_link = peers.link(peers.client.begin(), client_sends=False, credit=0)
    client_link.set_credit(10, drain=True)
    _, server_events = peers.take()
    assert of(FlowReceived, server_events)[0].link is server_link
    assert server_link.drain
    server_link.send(b"m", b"t", True, 0, None)
    server_link.drained()
    client_events, _ = peers.take()
    assert [type(event) for event in client_events] == [TransferReceived, FlowReceived]
    assert (client_link.credit, client_link.delivery_count, client_link.drain) == (0, 10, False)
    client_link.set_credit(3)
    peers.take()
    assert server_link.sendable() == 3


def test_a_settlement_after_the_link_has_gone_is_not_written(peer):
    link = peer.attached()
    peer.frame(1, DETACH, UInt(0), True)
    peer.answers()
    link.settle(0, ACCEPTED)
    assert not peer.engine.has_output


def test_a_settlement_goes_out_before_the_detach(peer):
    link = peer.attached()
    link.settle(0, ACCEPTED)
    link.detach()
    assert [code for _, code, _ in peer.answers()] == [0x15, DETACH]
