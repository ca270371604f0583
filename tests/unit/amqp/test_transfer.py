"""Transfers: reading, writing, and messages of several frames."""

import struct

import pytest

from partibus.amqp import conditions
from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import encode_list, encode_value
from partibus.amqp.codec.types import Described, UByte, UInt, ULong
from partibus.amqp.delivery import TransactionalState, transactional_state
from partibus.amqp.events import LinkFailed, SessionFailed, TransferReceived, TransferRefused
from partibus.amqp.settings import ASSEMBLY_BYTES_MAX, FRAME_OVERHEAD_BYTES, ConnectionSettings
from partibus.amqp.transfer import decode_transfer
from support.amqp.engines import Peers, RawPeer, frame, of, parse_frames

BATCH_FORMAT = 0x80013700


def decode(body: bytes, tails=None):
    return decode_transfer(body, 0, len(body), {} if tails is None else tails)


def fields_of(data: bytes):
    return [fields for _, _, fields in parse_frames(data)]


def listed(*values: object) -> bytes:
    return encode_list([encode_value(value) for value in values])


# --- reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ((UInt(0),), (0, -1, None)),
        ((UInt(7), UInt(0)), (7, 0, None)),
        ((UInt(7), UInt(5), b""), (7, 5, b"")),
        ((UInt(300), UInt(70000), b"t" * 32), (300, 70000, b"t" * 32)),
        ((UInt(1), None, None, None, None, True), (1, -1, None)),
        ((UInt(1), UInt(2), b"t" * 300), (1, 2, b"t" * 300)),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_the_fields_in_front(fields, expected, wide):
    body = listed(*fields)
    if wide and body[0] == 0xC0:
        body = struct.pack(">BII", 0xD0, len(body) + 1, body[2]) + body[3:]
    handle, delivery_id, tag, _, at = decode(body + b"")
    assert (handle, delivery_id, tag) == expected
    assert at == len(body)


def test_the_tail_is_decoded_once_and_found_again():
    tails = {}
    state = transactional_state(b"txn")
    front = [encode_value(value) for value in (UInt(1), UInt(2), b"t")]
    rest = [encode_value(value) for value in (UInt(BATCH_FORMAT), True, True, UByte(1))]
    last = [encode_value(value) for value in (False, True, False)]
    body = encode_list([*front, *rest, state, *last])
    tail = decode(body, tails)[3]
    assert (tail.message_format, tail.settled, tail.more) == (BATCH_FORMAT, True, True)
    assert tail.aborted
    assert isinstance(tail.state, TransactionalState)
    assert decode(body, tails)[3] is tail


def test_the_cache_of_tails_is_bounded():
    tails = {}
    for number in range(1000):
        decode(listed(UInt(1), UInt(2), b"t", UInt(number)), tails)
    assert len(tails) <= 64
    assert decode(listed(UInt(1), UInt(2), b"t", UInt(999)), tails)[3].message_format == 999


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x45",
        b"\xc0",
        b"\xc0\x01\x00",
        b"\xc0\x02\x01\x40",
        b"\xc0\x02\x02\x43",
        b"\xc0\x03\x01\x52",
        b"\xc0\x09\x01\x43",
        b"\xd0\x00\x00\x00\x05\x00\x00\x00\x01",
        listed(UInt(1), "id"),
        listed(UInt(1), UInt(1), "tag"),
        listed(UInt(1), UInt(1), b"t", "format"),
        listed(UInt(1), UInt(1), b"t", UInt(0), UInt(1)),
        listed(UInt(1), UInt(1), b"t", UInt(0), None, None, None, "state"),
        listed(UInt(1), *[None] * 11),
        b"\xc0\x05\x03\x43\x43\xa0\x20",
    ],
)
def test_what_is_no_transfer_is_a_decode_error(body):
    with pytest.raises(DecodeError):
        decode(body)


def test_a_list_does_not_reach_into_the_next_frame():
    body = listed(UInt(1), UInt(2), b"tag")
    with pytest.raises(DecodeError):
        decode_transfer(body + body, 0, len(body) - 1, {})


# --- one frame --------------------------------------------------------------------------------


@pytest.fixture
def peer():
    raw = RawPeer(ConnectionSettings(container_id="server", max_message_size=1000)).opened()
    raw.begun()
    return raw


def test_a_message_in_one_frame(peer):
    link = peer.attached()
    (event,) = peer.send(
        frame(1, 0x14, UInt(0), UInt(9), b"tag", UInt(0), None, False, payload=b"message")
    )
    assert repr(event) == (
        f"TransferReceived(link={link!r}, delivery_id=9, tag=b'tag', message_format=0, "
        "settled=False, payload=b'message', state=None)"
    )


@pytest.mark.parametrize(
    "fields", [(UInt(0),), (UInt(0), UInt(1)), (UInt(0), None, b"t"), (UInt(0), UInt(1), b"t" * 33)]
)
def test_a_message_needs_an_id_and_a_tag(peer, fields):
    peer.attached()
    (event,) = peer.frame(1, 0x14, *fields)
    assert isinstance(event, LinkFailed)
    assert event.error.condition == conditions.INVALID_FIELD


def refusals(peer):
    return [
        (fields[1], fields[3], fields[4].value[0].value[0])
        for _, code, fields in peer.answers()
        if code == 0x15
    ]


def test_an_oversized_message_is_rejected_and_the_link_goes_on(peer):
    link = peer.attached()
    link.set_credit(5)
    peer.answers()
    (event,) = peer.send(frame(1, 0x14, UInt(0), UInt(8), b"tag", payload=b"x" * 1000))
    assert isinstance(event, TransferReceived)
    assert peer.send(frame(1, 0x14, UInt(0), UInt(9), b"tag", payload=b"x" * 1001)) == []
    assert refusals(peer) == [(9, True, conditions.LINK_MESSAGE_SIZE_EXCEEDED)]
    assert link.attached
    assert (link.credit, link.delivery_count) == (4, 2)


def test_an_oversized_message_that_is_settled_fails_the_link(peer):
    peer.attached()
    data = frame(1, 0x14, UInt(0), UInt(9), b"tag", UInt(0), True, payload=b"x" * 1001)
    (event,) = peer.send(data)
    assert isinstance(event, LinkFailed)
    assert event.error.condition == conditions.LINK_MESSAGE_SIZE_EXCEEDED


@pytest.mark.parametrize("sizes", [[1001], [600, 600]])
def test_an_oversized_message_of_a_transaction_is_told(peer, sizes):
    link = peer.attached()
    state = Described(ULong(0x34), [b"txn"])
    fields, events = [UInt(9), b"tag"], []
    for left, size in zip(reversed(range(len(sizes))), sizes, strict=True):
        more = [UInt(0), None, left > 0, None, state]
        events += peer.send(frame(1, 0x14, UInt(0), *fields, *more, payload=b"x" * size))
    (event,) = events
    assert isinstance(event, TransferRefused)
    assert (event.link, event.state.txn_id) == (link, b"txn")
    assert refusals(peer) == [(9, True, conditions.LINK_MESSAGE_SIZE_EXCEEDED)]


def test_what_we_write_has_every_field(peer):
    link = peer.attached(handle=5, peer_sends=False)
    peer.frame(1, 0x13, UInt(1), UInt(9), UInt(0), UInt(9), UInt(5), UInt(0), UInt(9))
    link.send(b"payload", b"0123456789abcdef", False, 0, None)
    link.send(b"payload", b"", True, BATCH_FORMAT, None)
    data = peer.engine.data_to_send()
    size = int.from_bytes(data[:4], "big")
    assert data[:size].endswith(b"payload")
    first, second = fields_of(data)
    tag = b"0123456789abcdef"
    assert first == [5, 1, tag, 0, False, False, None, None, False, False, True]
    assert second == [5, 2, b"", BATCH_FORMAT, True, False, None, None, False, False, True]


# --- several frames ---------------------------------------------------------------------------


def pieces(*parts, **last):
    """Transfers of one delivery, all but the last with `more`."""
    frames = [
        frame(1, 0x14, UInt(0), UInt(3), b"t", UInt(0), None, True, payload=part)
        for part in parts[:-1]
    ]
    settled = last.get("settled")
    frames.append(frame(1, 0x14, UInt(0), None, None, None, settled, False, payload=parts[-1]))
    return b"".join(frames)


def test_a_message_in_several_frames(peer):
    link = peer.attached()
    link.set_credit(5)
    (event,) = peer.send(pieces(b"one ", b"two ", b"three"))
    assert event.payload == b"one two three"
    assert (event.delivery_id, event.tag, event.settled) == (3, b"t", False)
    assert (link.credit, link.delivery_count) == (4, 1)
    assert peer.engine.sessions[1].next_incoming_id == 3
    assert peer.engine.unfinished.bytes_held == 0


def test_a_large_message_is_reported_as_it_lies_in_what_was_read(peer):
    peer.attached().max_message_size = 1 << 20
    first, second = b"a" * 20_000, b"b" * 30_000
    read = frame(1, 0x14, UInt(0), UInt(3), b"t", UInt(0), None, True, payload=first)
    assert peer.send(read) == []
    read_last = frame(1, 0x14, UInt(0), payload=second)
    (event,) = peer.send(read_last)
    assert event.buf is read and event.buf[event.start : event.end] == first
    assert [view.obj is read_last for view in event.rest] == [True]
    assert event.payload == first + second
    assert peer.engine.unfinished.bytes_held == 0


def test_a_small_frame_does_not_keep_the_large_read_that_brought_it(peer):
    peer.attached().max_message_size = 1 << 20
    small = frame(1, 0x14, UInt(0), UInt(3), b"t", UInt(0), None, True, payload=b"a" * 5_000)
    other = frame(1, 0x14, UInt(0), payload=b"b" * 5_000)
    rest = frame(1, 0x14, UInt(0), UInt(4), b"t", payload=b"c" * 100_000)
    event, _ = peer.send(small + other + rest)
    assert len(event.buf) == 5_000
    assert [type(piece) for piece in event.rest] == [bytes]


def test_settled_on_any_frame_settles(peer):
    peer.attached()
    (event,) = peer.send(pieces(b"one", b"two", settled=True))
    assert event.settled


def test_messages_of_two_links_may_interleave(peer):
    peer.attached(handle=0, name="one")
    peer.attached(handle=1, name="two")
    more = [UInt(0), None, True]
    peer.send(frame(1, 0x14, UInt(0), UInt(1), b"a", *more, payload=b"a1"))
    peer.send(frame(1, 0x14, UInt(1), UInt(2), b"b", *more, payload=b"b1"))
    (first,) = peer.send(frame(1, 0x14, UInt(1), payload=b"b2"))
    (second,) = peer.send(frame(1, 0x14, UInt(0), payload=b"a2"))
    assert (first.payload, second.payload) == (b"b1b2", b"a1a2")


def test_an_aborted_message_is_dropped(peer):
    peer.attached()
    abort = [None, None, None, None, False, None, None, None, True]
    peer.send(frame(1, 0x14, UInt(0), UInt(1), b"a", UInt(0), None, True, payload=b"x" * 10))
    assert peer.engine.unfinished.bytes_held == 10 + FRAME_OVERHEAD_BYTES
    assert peer.send(frame(1, 0x14, UInt(0), *abort)) == []
    assert peer.engine.unfinished.bytes_held == 0
    (event,) = peer.send(frame(1, 0x14, UInt(0), UInt(2), b"b", payload=b"next"))
    assert event.payload == b"next"


def test_a_message_may_be_aborted_in_its_first_frame(peer):
    peer.attached()
    data = frame(1, 0x14, UInt(0), UInt(1), b"a", UInt(0), None, None, None, None, None, True)
    assert peer.send(data) == []


@pytest.mark.parametrize(
    "fields",
    [(UInt(4), None, None), (None, b"other", None), (None, None, UInt(1))],
    ids=["delivery-id", "tag", "format"],
)
def test_another_message_in_the_middle_ends_the_session(peer, fields):
    peer.attached()
    peer.send(frame(1, 0x14, UInt(0), UInt(3), b"t", UInt(0), None, True, payload=b"x"))
    (event,) = peer.send(frame(1, 0x14, UInt(0), *fields))
    assert isinstance(event, SessionFailed)
    assert event.error.condition == conditions.INVALID_FIELD
    assert peer.engine.unfinished.bytes_held == 0


def test_an_oversized_message_is_not_kept_while_it_comes(peer):
    link = peer.attached()
    more = [UInt(0), None, True]
    for size, held in ((600, 600 + FRAME_OVERHEAD_BYTES), (600, 0), (600, 0)):
        peer.send(frame(1, 0x14, UInt(0), UInt(3), b"t", *more, payload=b"x" * size))
        assert peer.engine.unfinished.bytes_held == held
    assert peer.send(frame(1, 0x14, UInt(0))) == []
    assert refusals(peer) == [(3, True, conditions.LINK_MESSAGE_SIZE_EXCEEDED)]
    assert peer.engine.unfinished.bytes_held == 0
    assert link.attached
    (event,) = peer.send(pieces(b"fine", b"again"))
    assert event.payload == b"fineagain"


def test_an_oversized_message_may_still_be_aborted(peer):
    peer.attached()
    more = [UInt(0), None, True]
    peer.send(frame(1, 0x14, UInt(0), UInt(3), b"t", *more, payload=b"x" * 1200))
    abort = [None, None, None, None, False, None, None, None, True]
    assert peer.send(frame(1, 0x14, UInt(0), *abort)) == []
    assert refusals(peer) == []
    assert peer.engine.unfinished.bytes_held == 0


def test_unfinished_messages_of_a_connection_are_bounded(peer):
    # As if other links had left this much room.
    others = peer.engine.unfinished.bytes_held = ASSEMBLY_BYTES_MAX - 1500
    peer.attached(handle=0, name="one")
    peer.attached(handle=1, name="two")
    more = [UInt(0), None, True]
    peer.send(frame(1, 0x14, UInt(0), UInt(1), b"a", *more, payload=b"x" * 900))
    (event,) = peer.send(frame(1, 0x14, UInt(1), UInt(2), b"b", *more, payload=b"x" * 900))
    assert isinstance(event, LinkFailed)
    assert event.link.name == "two"
    assert event.error.condition == conditions.RESOURCE_LIMIT_EXCEEDED
    assert peer.engine.unfinished.bytes_held == others + 900 + FRAME_OVERHEAD_BYTES


def test_unfinished_messages_go_with_their_link(peer):
    peer.attached()
    peer.send(frame(1, 0x14, UInt(0), UInt(3), b"t", UInt(0), None, True, payload=b"x"))
    peer.frame(1, 0x16, UInt(0), True)
    assert peer.engine.unfinished.bytes_held == 0


def test_a_large_message_is_split_by_the_peers_frame_size():
    small = ConnectionSettings(container_id="client", max_frame_size=512, max_message_size=9000)
    peers = Peers(client=small).opened()
    client_link, server_link = peers.link(peers.client.begin(), client_sends=False)
    payload = bytes(range(256)) * 8
    server_link.send(payload, b"0123456789abcdef", False, BATCH_FORMAT, None)
    server_link.send(b"small", b"t", False, 0, None)
    client_events, _ = peers.take()
    large, little = of(TransferReceived, client_events)
    assert (large.payload, large.message_format) == (payload, BATCH_FORMAT)
    assert (little.payload, little.delivery_id) == (b"small", large.delivery_id + 1)
    session = client_link.session
    assert session.next_incoming_id == server_link.session.outgoing.next_outgoing_id > 5
    assert peers.client.unfinished.bytes_held == 0


def test_a_large_message_goes_on_when_the_window_opens():
    small = ConnectionSettings(container_id="client", max_frame_size=512, incoming_window=4)
    peers = Peers(client=small).opened()
    _, server_link = peers.link(peers.client.begin(), client_sends=False)
    payloads = [bytes([n]) * 5000 for n in range(3)]
    for payload in payloads:
        server_link.send(payload, b"t", False, 0, None)
    client_events, _ = peers.take()
    assert [event.payload for event in of(TransferReceived, client_events)] == payloads


def test_a_message_that_just_fits_takes_one_frame():
    peer = RawPeer().opened(max_frame_size=UInt(512))
    peer.begun()
    link = peer.attached(peer_sends=False)
    peer.frame(1, 0x13, UInt(1), UInt(9), UInt(0), UInt(9), UInt(0), UInt(0), UInt(9))
    link.send(b"", b"tag", True, 0, None)
    overhead = len(peer.engine.data_to_send())
    link.send(b"x" * (512 - overhead), b"tag", True, 0, None)
    assert len(peer.engine.data_to_send()) == 512
    link.send(b"x" * (513 - overhead), b"tag", True, 0, None)
    first, second = fields_of(peer.engine.data_to_send())
    assert (first[5], second[5]) == (True, False)
    assert first[1] == second[1]
    link.send(b"x" * 2 * (512 - overhead), b"tag", True, 0, None)
    assert [fields[5] for fields in fields_of(peer.engine.data_to_send())] == [True, False]


@pytest.mark.parametrize("size", [1, 200_000])
def test_a_state_travels_with_its_message(size):
    """Whole, or in several frames; and what is sent before and after has none."""
    peers = Peers().opened()
    sender, _ = peers.link(peers.client.begin())
    state = transactional_state(b"t" * 16)
    sender.send(b"before", b"1", False, 0, None)
    sender.send_with_state(b"x" * size, b"2", state, "context")
    sender.send(b"after", b"3", False, 0, None)
    _, events = peers.take()
    before, within, after = of(TransferReceived, events)
    assert (before.state, after.state) == (None, None)
    assert isinstance(within.state, TransactionalState)
    assert within.state.txn_id == b"t" * 16
    assert (within.payload, within.tag, within.settled) == (b"x" * size, b"2", False)
    assert [event.delivery_id for event in (before, within, after)] == [1, 2, 3]
    assert sender.credit == 97
