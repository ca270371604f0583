"""Performatives as the stock Python client reads them, and as peers may write them."""

import pytest

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import encode_list, encode_value
from partibus.amqp.codec.fields import FieldReader, list_header
from partibus.amqp.codec.types import Array, Symbol, UByte, UInt, ULong, UShort
from partibus.amqp.errors import AmqpError
from partibus.amqp.framing import encode_frame
from partibus.amqp.performatives import (
    AttachFrame,
    BeginFrame,
    DetachFrame,
    FlowFrame,
    OpenFrame,
    decode_ending,
    encode_attach,
    encode_begin,
    encode_close,
    encode_detach,
    encode_end,
    encode_flow,
    encode_open,
)
from partibus.amqp.settings import ConnectionSettings
from partibus.amqp.terminus import encode_source, encode_target

SETTINGS = ConnectionSettings(container_id="bus", properties={"product": "partibus"})


def reader(*values: object) -> FieldReader:
    raw = encode_list([encode_value(value) for value in values])
    return FieldReader(raw, 0, len(raw))


# --- the stock client as the judge ------------------------------------------------------------


def as_pyamqp(body: bytes):
    """Code and fields as the vendor's Python client decodes them."""
    pytest.importorskip("azure.servicebus")
    from azure.servicebus._pyamqp._decode import decode_frame

    return decode_frame(memoryview(encode_frame(0, body))[8:])


def test_the_stock_client_reads_our_open():
    code, fields = as_pyamqp(encode_open(SETTINGS, None))
    assert code == 0x10
    assert len(fields) == 10
    assert fields[:5] == [b"bus", None, 262_144, 4_999, 240_000]
    assert fields[9] == {b"product": b"partibus"}


def test_the_stock_client_reads_our_begin():
    code, fields = as_pyamqp(encode_begin(SETTINGS, 1, 1))
    assert (code, fields) == (0x11, [1, 1, 5000, 5000, 1023, None, None, None])


def test_the_stock_client_reads_our_attach():
    body = encode_attach(
        "name", 3, True, 0, 1, encode_source("s"), encode_target("t"), 1_048_576, {"k": ULong(7)}
    )
    code, fields = as_pyamqp(body)
    assert code == 0x12
    assert len(fields) == 14
    assert fields[:5] == [b"name", 3, True, 0, 1]
    assert fields[5][0] == b"s"
    assert fields[6][0] == b"t"
    assert fields[9:11] == [None, 1_048_576]
    assert fields[13] == {b"k": 7}


def test_the_stock_client_reads_our_flow():
    code, fields = as_pyamqp(encode_flow(-1, 9, 8, 7, [], True))
    # The client reads a null drain as false.
    expected = [None, 9, 8, 7, None, None, None, None, False, True, None]
    assert (code, fields) == (0x13, expected)


@pytest.mark.parametrize(
    ("body", "code", "at"),
    [
        (encode_detach(300, True, AmqpError("a:b", "text")), 0x16, 2),
        (encode_end(AmqpError("a:b", "text")), 0x17, 0),
        (encode_close(AmqpError("a:b", "text")), 0x18, 0),
    ],
)
def test_the_stock_client_reads_our_endings(body, code, at):
    read_code, fields = as_pyamqp(body)
    assert read_code == code
    assert fields[at] == [b"a:b", b"text", None]


# --- what peers write -------------------------------------------------------------------------


def test_an_open_with_defaults():
    frame = OpenFrame(reader("peer"))
    assert (frame.hostname, frame.max_frame_size, frame.channel_max) == (None, 0xFFFFFFFF, 0xFFFF)
    assert (frame.idle_timeout_ms, frame.properties) == (0, {})


def test_capabilities_come_alone_or_in_an_array():
    both = Array(0xB3, [Symbol("a"), Symbol("b")])
    frame = OpenFrame(reader("peer", *[None] * 6, Symbol("one"), both))
    assert frame.offered_capabilities == ["one"]
    assert frame.desired_capabilities == ["a", "b"]


def test_a_begin():
    frame = BeginFrame(reader(UShort(7), UInt(1), UInt(2), UInt(3)))
    assert (frame.remote_channel, frame.next_outgoing_id) == (7, 1)
    assert (frame.incoming_window, frame.outgoing_window, frame.handle_max) == (2, 3, 0xFFFFFFFF)


def test_a_flow_with_nulls():
    frame = FlowFrame(reader(None, UInt(1), UInt(1), UInt(1)))
    assert (frame.next_incoming_id, frame.handle, frame.link_credit) == (-1, -1, -1)
    assert not frame.drain
    assert not frame.echo


def test_a_detach_and_an_end():
    assert not DetachFrame(reader(UInt(1))).closed
    raw = encode_list([AmqpError("a:b", "c", {"d": "e"}).encode()])
    assert decode_ending(FieldReader(raw, 0, len(raw))) == AmqpError("a:b", "c", {"d": "e"})


@pytest.mark.parametrize(
    ("frame", "fields"),
    [
        (OpenFrame, ()),
        (OpenFrame, (b"binary",)),
        (OpenFrame, ("peer", None, "size")),
        (OpenFrame, ("peer", None, None, UInt(65536))),
        (OpenFrame, ("peer", *[None] * 6, 5)),
        (OpenFrame, ("peer", *[None] * 8, "map")),
        (BeginFrame, (None, UInt(1), UInt(1))),
        (BeginFrame, (None, True, UInt(1), UInt(1))),
        (BeginFrame, (None, -1, UInt(1), UInt(1))),
        (AttachFrame, ("name",)),
        (AttachFrame, ("name", UInt(1), "role")),
        (AttachFrame, ("name", UInt(1), True, UByte(3))),
        (AttachFrame, ("name", UInt(1), True, None, None, "source")),
        (FlowFrame, ()),
        (DetachFrame, ()),
        (DetachFrame, (UInt(0), True, "error")),
    ],
)
def test_what_is_missing_or_of_another_type_is_a_decode_error(frame, fields):
    with pytest.raises(DecodeError):
        frame(reader(*fields))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x40",
        b"\xc0",
        b"\xc0\x00\x00",
        b"\xc0\x05\x01\x40",
        b"\xd0\x00\x00\x00\x03\x00\x00\x00\x00",
        b"\xd0\x00\x00\x00\x04\xff\xff\xff\xff",
        b"\xc0\x02\x02\x40",
        b"\xc0\x03\x01\x40\x40",
    ],
)
def test_a_broken_list_is_a_decode_error(raw):
    with pytest.raises(DecodeError):
        FieldReader(raw, 0, len(raw))


def test_an_empty_list_has_no_fields():
    assert list_header(b"\x45", 0, 1) == (0, 1, 1)
    assert FieldReader(b"\x45", 0, 1).raw(3) == b"\x40"
