"""The codec against two others: the vendor's Python client and Qpid Proton.

What they write, we read; what we write, they read; and it means the same on both sides.
"""

import uuid

import pytest
from azure.servicebus._pyamqp._decode import _DECODE_BY_CONSTRUCTOR, decode_payload
from azure.servicebus._pyamqp._encode import encode_payload
from azure.servicebus._pyamqp._encode import encode_value as vendor_encode
from azure.servicebus._pyamqp.message import Header, Message, Properties
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes
from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.sections import (
    MessageProperties,
    annotation_items,
    decode_application_properties,
    decode_properties,
    encode_annotations,
    encode_application_properties,
    encode_header,
    encode_properties,
    parse_sections,
    split_batch,
)
from partibus.amqp.codec.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Long,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)
from support.amqp.section_ids import message_id_and_group_id
from support.amqp.values import BINARIES, ELEMENTS, SCALARS, TEXTS, UUIDS, WORDS, same

KEYS = st.text(max_size=10)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(KEYS, inner, max_size=5),
        st.builds(Described, st.one_of(st.integers(0, 2**64 - 1).map(ULong), WORDS), inner),
    ),
    max_leaves=10,
)

# --- the vendor's Python client ---------------------------------------------------------------

VENDOR_TYPES = {
    bool: AMQPTypes.boolean,
    int: AMQPTypes.long,
    UByte: AMQPTypes.ubyte,
    UShort: AMQPTypes.ushort,
    UInt: AMQPTypes.uint,
    ULong: AMQPTypes.ulong,
    Byte: AMQPTypes.byte,
    Short: AMQPTypes.short,
    Int: AMQPTypes.int,
    Long: AMQPTypes.long,
    Timestamp: AMQPTypes.timestamp,
    float: AMQPTypes.double,
    Float: AMQPTypes.float,
    str: AMQPTypes.string,
    Symbol: AMQPTypes.symbol,
    bytes: AMQPTypes.binary,
    uuid.UUID: AMQPTypes.uuid,
}


def has_vendor_form(value: object) -> bool:
    """The vendor's client knows neither chars nor most decimals, and reads no decimal as bytes."""
    if isinstance(value, list):
        return all(map(has_vendor_form, value))
    if isinstance(value, dict):
        return all(map(has_vendor_form, value.values()))
    if isinstance(value, Described):
        return has_vendor_form(value.value)
    return value is None or type(value) in VENDOR_TYPES


def to_vendor(value: object) -> object:
    if isinstance(value, list):
        return {TYPE: AMQPTypes.list, VALUE: [to_vendor(item) for item in value]}
    if isinstance(value, dict):
        pairs = [(to_vendor(key), to_vendor(item)) for key, item in value.items()]
        return {TYPE: AMQPTypes.map, VALUE: pairs}
    if isinstance(value, Described):
        return {
            TYPE: AMQPTypes.described,
            VALUE: (to_vendor(value.descriptor), to_vendor(value.value)),
        }
    if value is None:
        return {TYPE: AMQPTypes.null, VALUE: None}
    return {TYPE: VENDOR_TYPES[type(value)], VALUE: value}


def as_vendor_reads(value: object) -> object:
    """The vendor's reader drops types: text becomes bytes and descriptors disappear."""
    if isinstance(value, list):
        return [as_vendor_reads(item) for item in value]
    if isinstance(value, dict):
        return {as_vendor_reads(key): as_vendor_reads(item) for key, item in value.items()}
    if isinstance(value, Described):
        inner = as_vendor_reads(value.value)
        if isinstance(inner, dict) and not isinstance(value.value, Described):
            inner["descriptor"] = as_vendor_reads(value.descriptor)
        outcomes = {35: "received", 36: "accepted", 37: "rejected", 38: "released", 39: "modified"}
        if isinstance(value.descriptor, ULong) and value.descriptor in outcomes:
            return {outcomes[value.descriptor]: inner}
        return inner
    return value.encode() if isinstance(value, str) else value


def vendor_decode(data: bytes) -> object:
    rest, value = _DECODE_BY_CONSTRUCTOR[data[0]](memoryview(data)[1:])
    assert len(rest) == 0
    return value


VENDOR_TREES = TREES.filter(has_vendor_form)


@settings(deadline=None, max_examples=200)
@given(VENDOR_TREES)
def test_we_read_what_the_vendors_client_writes(value):
    written = bytearray()
    vendor_encode(written, to_vendor(value))
    decoded, end = decode_value(bytes(written), 0, len(written))
    assert end == len(written)
    assert same(decoded, value)


@settings(deadline=None, max_examples=200)
@given(VENDOR_TREES)
def test_the_vendors_client_reads_what_we_write(value):
    assert vendor_decode(encode_value(value)) == as_vendor_reads(value)


@settings(deadline=None, max_examples=50)
@given(
    st.one_of(
        st.lists(UUIDS, min_size=1, max_size=20).map(lambda items: Array(0x98, items)),
        st.lists(ELEMENTS[0x81], min_size=1, max_size=40).map(lambda items: Array(0x81, items)),
    )
)
def test_arrays_of_management_requests_agree_to_the_byte(array):
    vendor_type = AMQPTypes.uuid if array.code == 0x98 else AMQPTypes.long
    written = bytearray()
    vendor_encode(
        written,
        {TYPE: AMQPTypes.array, VALUE: [{TYPE: vendor_type, VALUE: item} for item in array.items]},
    )
    assert bytes(written) == encode_value(array)
    assert vendor_decode(encode_value(array)) == array.items


OPTIONAL_TEXTS = st.one_of(st.none(), TEXTS)
MESSAGE_IDS = st.one_of(st.none(), TEXTS, UUIDS, BINARIES, st.integers(0, 2**64 - 1).map(ULong))
TIMES = st.one_of(st.none(), st.integers(0, 2**50))
SIMPLE = st.one_of(st.booleans(), ELEMENTS[0x71], TEXTS, UUIDS, BINARIES, ELEMENTS[0x82])
FIELDS = {
    "message_id": MESSAGE_IDS,
    "user_id": st.one_of(st.none(), BINARIES),
    "to": OPTIONAL_TEXTS,
    "subject": OPTIONAL_TEXTS,
    "reply_to": OPTIONAL_TEXTS,
    "correlation_id": MESSAGE_IDS,
    "content_type": OPTIONAL_TEXTS,
    "content_encoding": OPTIONAL_TEXTS,
    "absolute_expiry_time_ms": TIMES,
    "creation_time_ms": TIMES,
    "group_id": OPTIONAL_TEXTS,
    "group_sequence": st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    "reply_to_group_id": OPTIONAL_TEXTS,
}
PROPERTIES = st.fixed_dictionaries(FIELDS)
APPLICATION = st.dictionaries(st.text(min_size=1, max_size=10), SIMPLE, max_size=4)
HEADERS = st.builds(
    Header,
    durable=st.one_of(st.none(), st.booleans()),
    priority=st.one_of(st.none(), st.integers(0, 255)),
    ttl=st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    first_acquirer=st.one_of(st.none(), st.booleans()),
    delivery_count=st.one_of(st.none(), st.integers(0, 2**32 - 1)),
)


def vendor_properties(fields: dict[str, object]) -> Properties:
    return Properties(**{name.removesuffix("_ms"): value for name, value in fields.items()})


@settings(deadline=None, max_examples=150)
@given(
    st.one_of(st.none(), HEADERS),
    st.dictionaries(st.text(min_size=1, max_size=10), TEXTS, max_size=3),
    PROPERTIES,
    APPLICATION,
    st.lists(BINARIES, max_size=3),
    st.one_of(st.none(), st.dictionaries(st.text(min_size=1, max_size=5), TEXTS, min_size=1)),
)
def test_we_parse_the_messages_of_the_vendors_client(
    header, annotations, fields, application, data, delivery_annotations
):
    written = bytearray()
    message = Message(
        header=header,
        delivery_annotations=delivery_annotations,
        message_annotations=annotations,
        properties=vendor_properties(fields),
        application_properties=application,
        data=data,
    )
    encode_payload(written, message)
    payload = bytes(written)
    found = parse_sections(payload)
    expected = header or Header()
    assert found.durable is bool(expected.durable)
    assert found.priority == (4 if expected.priority is None else expected.priority)
    assert found.ttl_ms == (-1 if expected.ttl is None else expected.ttl)
    assert found.delivery_count == (expected.delivery_count or 0)
    assert annotation_items(found) == annotations
    read = decode_properties(payload, found)
    assert {name: getattr(read, name) for name in FIELDS} == fields
    assert message_id_and_group_id(payload, found) == (fields["message_id"], fields["group_id"])
    assert same(
        decode_application_properties(payload, found),
        {key: Int(item) if type(item) is int else item for key, item in application.items()},
    )
    assert split_batch(payload) == data
    bare = payload[found.bare_offset : found.bare_end]
    assert parse_sections(bare).bare_offset == 0
    assert decode_payload(memoryview(bare)).delivery_annotations is None


@settings(deadline=None, max_examples=150)
@given(st.booleans(), st.integers(0, 255), st.integers(-1, 2**40), PROPERTIES, APPLICATION)
def test_the_vendors_client_parses_our_messages(durable, priority, ttl_ms, fields, application):
    payload = (
        encode_header(durable, priority, ttl_ms, 3)
        + encode_annotations(encode_value(Symbol("x-opt-sequence-number")) + encode_value(7), 1)
        + encode_properties(MessageProperties(**fields))
        + encode_application_properties(application)
    )
    message = decode_payload(memoryview(payload))
    ttl = None if ttl_ms < 0 else min(ttl_ms, 2**32 - 1)
    assert message.header == Header(durable, priority, ttl, None, 3)
    assert message.message_annotations == {b"x-opt-sequence-number": 7}
    expected = {name: as_vendor_reads(value) for name, value in fields.items()}
    assert message.properties == vendor_properties(expected)
    assert (message.application_properties or {}) == as_vendor_reads(application)


# --- Qpid Proton ------------------------------------------------------------------------------

proton = pytest.importorskip("proton", reason="needs Qpid Proton, which is built with a C compiler")

PROTON_CLASSES = {
    UByte: proton.ubyte,
    UShort: proton.ushort,
    UInt: proton.uint,
    ULong: proton.ulong,
    Byte: proton.byte,
    Short: proton.short,
    Int: proton.int32,
    Timestamp: proton.timestamp,
    Float: proton.float32,
    Char: proton.char,
    Symbol: proton.symbol,
}
FROM_PROTON = {theirs: ours for ours, theirs in PROTON_CLASSES.items()}


def has_proton_form(value: object) -> bool:
    """Proton's reader loses what follows a described value that is itself under a descriptor."""
    if isinstance(value, list):
        return all(map(has_proton_form, value))
    if isinstance(value, dict):
        return all(map(has_proton_form, value.values()))
    if isinstance(value, Described):
        return not isinstance(value.value, Described) and has_proton_form(value.value)
    return True


PROTON_TREES = TREES.filter(has_proton_form)


def to_proton(value: object) -> object:
    if isinstance(value, list):
        return [to_proton(item) for item in value]
    if isinstance(value, dict):
        return {to_proton(key): to_proton(item) for key, item in value.items()}
    if isinstance(value, Described):
        return proton.Described(to_proton(value.descriptor), to_proton(value.value))
    if isinstance(value, Decimal32):
        return proton.decimal32(int.from_bytes(value, "big"))
    if isinstance(value, Decimal64):
        return proton.decimal64(int.from_bytes(value, "big"))
    if isinstance(value, Decimal128):
        return proton.decimal128(value)
    if isinstance(value, Long):
        return int(value)
    theirs = PROTON_CLASSES.get(type(value))
    return value if theirs is None else theirs(value)


def from_proton(value: object) -> object:
    if isinstance(value, list):
        return [from_proton(item) for item in value]
    if isinstance(value, dict):
        return {from_proton(key): from_proton(item) for key, item in value.items()}
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, proton.Array):
        plain = value.descriptor == proton.UNDESCRIBED
        descriptor = None if plain else from_proton(value.descriptor)
        return Array(0, [from_proton(item) for item in value.elements], descriptor)
    if isinstance(value, proton.Described):
        return Described(from_proton(value.descriptor), from_proton(value.value))
    if isinstance(value, proton.decimal32):
        return Decimal32(int(value).to_bytes(4, "big"))
    if isinstance(value, proton.decimal64):
        return Decimal64(int(value).to_bytes(8, "big"))
    if isinstance(value, proton.decimal128):
        return Decimal128(value)
    ours = FROM_PROTON.get(type(value))
    return value if ours is None else ours(value)


def proton_decode(data: bytes) -> object:
    reader = proton.Data()
    assert reader.decode(data) == len(data)
    reader.rewind()
    reader.next()
    return from_proton(reader.get_object())  # binaries are views into `reader`


def proton_encode(value: object) -> bytes:
    writer = proton.Data()
    writer.put_object(value)
    return bytes(writer.encode())


@settings(deadline=None, max_examples=200)
@given(PROTON_TREES)
def test_we_read_what_proton_writes(value):
    data = proton_encode(to_proton(value))
    decoded, end = decode_value(data, 0, len(data))
    assert end == len(data)
    assert same(decoded, value)


@settings(deadline=None, max_examples=200)
@given(PROTON_TREES)
def test_proton_reads_what_we_write(value):
    assert same(proton_decode(encode_value(value)), value)


@settings(deadline=None, max_examples=200)
@given(
    st.sampled_from(sorted(set(ELEMENTS) - {0x40})).flatmap(
        lambda code: st.builds(
            Array,
            st.just(code),
            st.lists(ELEMENTS[code], min_size=1, max_size=5),
            st.one_of(st.none(), WORDS),
        )
    )
)
def test_proton_reads_our_arrays(array):
    theirs = proton_decode(encode_value(array))
    assert same(theirs.items, array.items)
    assert same(theirs.descriptor, array.descriptor)


@settings(deadline=None, max_examples=100)
@given(PROPERTIES, APPLICATION, BINARIES)
def test_proton_and_we_agree_on_a_message(fields, application, body):
    payload = (
        encode_header(True, 7, 60_000, 2)
        + encode_properties(MessageProperties(**fields))
        + encode_application_properties(application)
        + b"\x00\x53\x75"
        + encode_value(body)
    )
    message = proton.Message()
    message.decode(payload)
    assert (message.durable, message.priority, message.delivery_count) == (True, 7, 2)
    assert message.ttl == 60.0
    assert from_proton(message.id) == fields["message_id"]
    assert from_proton(message.correlation_id) == fields["correlation_id"]
    subject, _, _ = (fields["subject"] or "").partition("\0")  # where a C string ends
    assert (message.subject or "") == subject
    assert same(from_proton(message.properties or {}), application)
    assert message.body == body

    written = bytes(message.encode())
    found = parse_sections(written)
    assert (found.durable, found.priority, found.ttl_ms) == (True, 7, 60_000)
    assert message_id_and_group_id(written, found)[0] == fields["message_id"]
    assert same(decode_application_properties(written, found), application)
    assert split_batch(written) == [body]
