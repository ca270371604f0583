"""Frames, descriptors and the input buffer."""

import pytest

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.framing import (
    NEVER,
    VIEW_BYTES_MIN,
    InputBuffer,
    decode_descriptor,
    encode_frame,
    piece_of,
)


def test_a_frame_has_size_offset_type_and_channel():
    assert encode_frame(0x0102, b"body") == b"\x00\x00\x00\x0c\x02\x00\x01\x02body"


@pytest.mark.parametrize(
    "descriptor",
    [b"\x53\x14", b"\x80\x00\x00\x00\x00\x00\x00\x00\x14", b"\xa3\x12amqp:transfer:list"],
)
def test_a_descriptor_is_read_in_each_of_its_forms(descriptor):
    data = b"\x00" + descriptor + b"\x45"
    assert decode_descriptor(data, 0, len(data)) == (0x14, len(data) - 1)


def test_an_unknown_name_is_no_performative():
    data = b"\x00\xa3\x04nope\x45"
    assert decode_descriptor(data, 0, len(data)) == (-1, len(data) - 1)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x45", b"\x00\x53", b"\x00\x40\x45", b"\x00\xa3"])
def test_a_missing_descriptor_is_a_decode_error(data):
    with pytest.raises(DecodeError):
        decode_descriptor(data, 0, len(data))


def test_an_empty_buffer_needs_nothing():
    buffer = InputBuffer()
    buffer.keep(b"abc", 3, 8)
    assert (buffer.need, buffer.have, buffer.take()) == (0, 0, b"")


def test_a_frame_is_filled_up_to_its_announced_size_and_no_further():
    buffer = InputBuffer()
    buffer.keep(b"..ab", 2, 5)
    assert buffer.fill(b"c", 0) == 1
    assert (buffer.have, buffer.need) == (3, 5)
    assert buffer.fill(b"xdefg", 1) == 3
    assert buffer.take() == b"abcde"
    assert buffer.need == 0


def test_before_the_sasl_outcome_everything_is_kept():
    buffer = InputBuffer()
    buffer.keep(b"a", 1, NEVER)
    assert buffer.fill(b"bc", 0) == 2
    assert (buffer.have, buffer.take()) == (2, b"bc")


def test_a_large_frame_in_tiny_pieces_is_joined_once():
    buffer = InputBuffer()
    size = 200_000
    buffer.keep(b"x", 0, size)
    for _ in range(size - 1):
        assert buffer.have < buffer.need
        buffer.fill(b"y", 0)
    assert len(buffer.take()) == size


def test_most_of_a_large_buffer_is_kept_as_it_lies_and_a_small_part_as_a_copy():
    buf = bytes(2 * VIEW_BYTES_MIN)
    most = piece_of(buf, 1, len(buf))
    assert isinstance(most, memoryview) and most.obj is buf
    little = piece_of(buf, 0, VIEW_BYTES_MIN - 1)
    assert isinstance(little, bytes) and len(little) == VIEW_BYTES_MIN - 1
