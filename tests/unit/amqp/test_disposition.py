"""Dispositions: reading, writing, and gathering into ranges."""

import pytest

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import encode_list, encode_value
from partibus.amqp.codec.types import UInt
from partibus.amqp.delivery import ACCEPTED, RELEASED, Accepted, Rejected, rejected
from partibus.amqp.disposition import PendingDispositions, decode_disposition, encode_disposition
from partibus.amqp.errors import AmqpError
from support.amqp.engines import parse_frames


def decode(body: bytes, tails=None):
    return decode_disposition(body, 0, len(body), {} if tails is None else tails)


def listed(*values: object) -> bytes:
    return encode_list([encode_value(value) for value in values])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ((True, UInt(0)), (True, 0, 0)),
        ((False, UInt(7), None), (False, 7, 7)),
        ((True, UInt(7), UInt(0)), (True, 7, 0)),
        ((True, UInt(300), UInt(70000), True), (True, 300, 70000)),
    ],
)
def test_the_range(fields, expected):
    assert decode(listed(*fields))[:3] == expected


def test_a_role_in_its_wide_form():
    assert decode(b"\xc0\x04\x02\x56\x01\x43")[:3] == (True, 0, 0)
    assert decode(b"\xc0\x04\x02\x56\x00\x43")[:3] == (False, 0, 0)


def test_a_list_in_its_wide_form():
    assert decode(b"\xd0\x00\x00\x00\x07\x00\x00\x00\x02\x41\x52\x09")[:3] == (True, 9, 9)


def test_the_tail_is_decoded_once_and_found_again():
    tails = {}
    head = [encode_value(value) for value in (True, UInt(3), None, True)]
    body = encode_list([*head, ACCEPTED, b"\x42"])
    tail = decode(body, tails)[3]
    assert tail.settled
    assert isinstance(tail.state, Accepted)
    assert decode(body, tails)[3] is tail


def test_the_cache_of_tails_is_bounded_in_number_and_size():
    tails = {}
    for number in range(200):
        error = AmqpError("c:c", str(number))
        body = encode_list([b"\x41", b"\x43", b"\x40", b"\x41", rejected(error)])
        state = decode(body, tails)[3].state
        assert isinstance(state, Rejected)
        assert state.error == error
    assert 0 < len(tails) <= 64
    long = encode_list([b"\x41", b"\x43", b"\x40", b"\x41", rejected(AmqpError("c", "d" * 90))])
    before = dict(tails)
    decode(long, tails)
    assert tails == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x45",
        b"\xc0\x01\x00",
        listed(True),
        listed(UInt(1), UInt(1)),
        listed(True, "first"),
        listed(True, UInt(1), "last"),
        listed(True, UInt(1), None, UInt(1)),
        listed(True, UInt(1), None, True, "state"),
        listed(True, UInt(1), None, True, None, None, None),
        b"\xc0\x03\x03\x41\x43",
        b"\xc0\x04\x02\x41\x70\x00",
    ],
)
def test_what_is_no_disposition_is_a_decode_error(body):
    with pytest.raises(DecodeError):
        decode(body)


def test_a_list_does_not_reach_into_the_next_frame():
    body = listed(True, UInt(1), None, True)
    with pytest.raises(DecodeError):
        decode_disposition(body + body, 0, len(body) - 1, {})


@pytest.mark.parametrize("text", ["", "x" * 150, "x" * 215, "x" * 216, "x" * 217, "x" * 5000])
@pytest.mark.parametrize("settled", [True, False])
def test_what_we_write_can_be_read(text, settled):
    state = rejected(AmqpError("a:b", text))
    data = encode_disposition(5, False, 1, 0xFFFFFFFF, settled, state)
    assert int.from_bytes(data[:4], "big") == len(data)
    ((channel, code, fields),) = parse_frames(data)
    assert (channel, code) == (5, 0x15)
    assert fields[:4] == [False, 1, 0xFFFFFFFF, settled]
    assert fields[4].value[0].value == ["a:b", text, None]
    assert fields[5] is False
    role, first, last, tail = decode_disposition(data, 11, len(data), {})
    assert (role, first, last, tail.settled) == (False, 1, 0xFFFFFFFF, settled)


def runs(*ids: int) -> list[tuple[int, int]]:
    pending = PendingDispositions(True, True)
    for delivery_id in ids:
        pending.add(delivery_id, ACCEPTED)
    out: list[bytes] = []
    pending.flush(0, out)
    pending.flush(0, out)
    return [tuple(fields[1:3]) for _, _, fields in parse_frames(b"".join(out))]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], []),
        ([5], [(5, 5)]),
        ([5, 6, 7], [(5, 7)]),
        ([7, 5, 6], [(5, 7)]),
        ([1, 3, 4, 9], [(1, 1), (3, 4), (9, 9)]),
        ([2, 2, 3], [(2, 3)]),
        ([0, 0xFFFFFFFF, 1, 0xFFFFFFFE], [(0xFFFFFFFE, 1)]),
        ([0xFFFFFFFF, 5], [(0xFFFFFFFF, 0xFFFFFFFF), (5, 5)]),
    ],
)
def test_ids_are_gathered_into_runs(ids, expected):
    assert runs(*ids) == expected


def test_states_are_not_mixed():
    pending = PendingDispositions(False, True)
    for delivery_id in range(4):
        pending.add(delivery_id, RELEASED if delivery_id == 2 else ACCEPTED)
    out: list[bytes] = []
    pending.flush(0, out)
    frames = [(fields[0], *fields[1:3]) for _, _, fields in parse_frames(b"".join(out))]
    assert frames == [(False, 0, 1), (False, 3, 3), (False, 2, 2)]
