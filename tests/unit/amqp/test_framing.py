"""Frames, descriptors and the input buffer."""

import pytest

from partibus.amqp.decode import DecodeError
from partibus.amqp.framing import InputBuffer, decode_descriptor, encode_frame


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


def test_bytes_pass_straight_through_an_empty_buffer():
    data = b"abc"
    assert InputBuffer().add(data) is data


def test_nothing_is_parsed_before_the_announced_size_is_there():
    buffer = InputBuffer()
    buffer.keep(b"ab", 5)
    assert buffer.add(b"c") == b""
    assert buffer.add(b"d") == b""
    assert buffer.add(b"ef") == b"abcdef"
    assert buffer.add(b"g") == b"g"


def test_a_large_frame_in_tiny_pieces_is_joined_once():
    buffer = InputBuffer()
    size = 200_000
    buffer.keep(b"x", size)
    joined = [buffer.add(b"y") for _ in range(size - 1)]
    assert not any(joined[:-1])
    assert len(joined[-1]) == size
