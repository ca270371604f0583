"""Finding, reading and writing the sections of a message."""

import uuid

import pytest

from partibus.amqp.codec.decode import COMPOUND_COUNT_MAX, DecodeError
from partibus.amqp.codec.encode import EncodeError, encode_value
from partibus.amqp.codec.sections import (
    MessageProperties,
    annotation_items,
    decode_application_properties,
    decode_properties,
    encode_annotations,
    encode_application_properties,
    encode_delivery_annotations,
    encode_header,
    encode_properties,
    parse_sections,
    split_batch,
)
from partibus.amqp.codec.types import Described, Int, Symbol, Timestamp, UInt, ULong
from support.amqp.section_ids import message_id_and_group_id
from support.amqp.values import same


def section(code: int, value: object) -> bytes:
    return encode_value(Described(ULong(code), value))


HEADER = section(0x70, [True, None, UInt(60_000)])
DELIVERY_ANNOTATIONS = section(0x71, {Symbol("hop"): 1})
ANNOTATIONS = section(0x72, {Symbol("x-opt-partition-key"): "p"})
PROPERTIES = section(0x73, ["id-1", None, "to"])
APPLICATION = section(0x74, {"kind": "order"})
DATA = section(0x75, b"one")
SEQUENCE = section(0x76, [1])
VALUE = section(0x77, "text")
FOOTER = section(0x78, {Symbol("sum"): 1})
WHOLE = (
    HEADER + DELIVERY_ANNOTATIONS + ANNOTATIONS + PROPERTIES + APPLICATION + DATA + DATA + FOOTER
)


def test_every_section_is_found():
    found = parse_sections(WHOLE)
    assert (found.durable, found.priority, found.ttl_ms, found.delivery_count) == (
        True,
        4,
        60_000,
        0,
    )
    assert found.annotation_count == 1
    assert found.annotation_pairs == encode_value(Symbol("x-opt-partition-key")) + b"\xa1\x01p"
    assert WHOLE[found.bare_offset :] == PROPERTIES + APPLICATION + DATA + DATA + FOOTER
    assert found.bare_end == len(WHOLE)
    assert WHOLE[found.properties_offset : found.properties_end] == PROPERTIES
    assert WHOLE[found.application_offset : found.application_end] == APPLICATION
    assert WHOLE[found.body_offset :] == DATA + DATA + FOOTER


def test_absent_sections_have_no_offset():
    found = parse_sections(b"")
    assert (found.durable, found.priority, found.ttl_ms, found.delivery_count) == (False, 4, -1, 0)
    assert (found.annotation_count, found.annotation_pairs) == (0, b"")
    assert (found.bare_offset, found.bare_end) == (0, 0)
    assert (found.properties_offset, found.properties_end) == (-1, -1)
    assert (found.application_offset, found.application_end) == (-1, -1)
    assert found.body_offset == -1
    assert message_id_and_group_id(b"", found) == (None, None)
    assert decode_application_properties(b"", found) == {}
    assert annotation_items(found) == {}
    properties = decode_properties(b"", found)
    assert all(getattr(properties, name) is None for name in FULL)


@pytest.mark.parametrize(
    ("payload", "bare"),
    [
        (HEADER, b""),
        (HEADER + ANNOTATIONS + APPLICATION, APPLICATION),
        (HEADER + VALUE, VALUE),
        (DATA, DATA),
        (ANNOTATIONS + FOOTER, FOOTER),
    ],
)
def test_the_bare_message_begins_with_its_first_section(payload, bare):
    found = parse_sections(payload)
    assert payload[found.bare_offset : found.bare_end] == bare


def test_a_footer_is_no_body():
    assert parse_sections(PROPERTIES + FOOTER).body_offset == -1


@pytest.mark.parametrize("body", [b"", DATA, DATA + DATA, SEQUENCE, VALUE, DATA + FOOTER, FOOTER])
@pytest.mark.parametrize("properties", [b"", PROPERTIES])
def test_delivery_annotations_behind_the_body_are_not_part_of_the_message(properties, body):
    payload = HEADER + properties + body + DELIVERY_ANNOTATIONS
    found = parse_sections(payload)
    assert payload[found.bare_offset : found.bare_end] == properties + body


@pytest.mark.parametrize(
    "payload",
    [
        HEADER + HEADER,
        ANNOTATIONS + HEADER,
        PROPERTIES + PROPERTIES,
        APPLICATION + PROPERTIES,
        DATA + PROPERTIES,
        DATA + SEQUENCE,
        SEQUENCE + DATA,
        DATA + VALUE,
        VALUE + VALUE,
        FOOTER + FOOTER,
        FOOTER + DATA,
        DATA + DELIVERY_ANNOTATIONS + DATA,
        PROPERTIES + DELIVERY_ANNOTATIONS + DATA,
        DATA + DELIVERY_ANNOTATIONS + DELIVERY_ANNOTATIONS,
    ],
)
def test_sections_out_of_order_are_refused(payload):
    with pytest.raises(DecodeError):
        parse_sections(payload)


@pytest.mark.parametrize(
    "body", [SEQUENCE + SEQUENCE, section(0x76, []), section(0x77, None), VALUE]
)
def test_each_kind_of_body_is_walked(body):
    assert parse_sections(PROPERTIES + body).body_offset == len(PROPERTIES)


@pytest.mark.parametrize(
    "payload",
    [
        section(0x70, {}),
        section(0x71, []),
        section(0x72, []),
        section(0x73, {}),
        section(0x74, []),
        section(0x75, "text"),
        section(0x76, {}),
        section(0x78, []),
        DATA + section(0x71, []),
        section(0x6F, []),
        section(0x79, []),
        section(0x100, []),
        b"\x45",
        b"\x00\xa3\x04nope\x45",
        b"\x00\x40\x45",
        section(0x70, [1]),
        section(0x70, [None, 1]),
        section(0x70, [None, None, 1]),
        section(0x70, [None, None, None, 1]),
        section(0x70, [None, None, None, None, 1]),
        section(0x70, [None] * 6),
        section(0x73, [None] * 14),
        section(0x74, {1: "a"}),
        section(0x74, {ULong(1): "a"}),
        section(0x74, {None: "a"}),
        section(0x72, {1: "a"}),
        bytes.fromhex("005374c1020140"),
        bytes.fromhex("005374c104" + "02a1016140")[:-1],
        bytes.fromhex("005373c00302a101"),
        bytes.fromhex("005372c10402a1016140"),
        bytes.fromhex("005373c000"),
        bytes.fromhex("005373d00000000000000000"),
        bytes.fromhex("005374d1ffffffff00000002"),
        bytes.fromhex("005374d100000004ffffffff"),
        bytes.fromhex("005375b0ffffffff00"),
    ],
)
def test_a_malformed_section_is_refused(payload):
    with pytest.raises(DecodeError):
        parse_sections(payload)


def test_too_many_application_properties_are_refused():
    pairs = b"\xa1\x01a\x40" * (COMPOUND_COUNT_MAX // 2 + 1)
    count = COMPOUND_COUNT_MAX + 2
    head = b"\x00\x53\x74\xd1" + (len(pairs) + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
    with pytest.raises(DecodeError):
        parse_sections(head + pairs)


def test_a_payload_cut_short_is_refused_unless_a_section_ends_there():
    ends = {len(WHOLE)}
    for part in (FOOTER, DATA, DATA, APPLICATION, PROPERTIES, ANNOTATIONS, DELIVERY_ANNOTATIONS):
        ends.add(min(ends) - len(part))
    for cut in range(1, len(WHOLE)):
        if cut in ends:
            parse_sections(WHOLE[:cut])
        else:
            with pytest.raises(DecodeError):
                parse_sections(WHOLE[:cut])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([], (False, 4, -1, 0)),
        ([None] * 5, (False, 4, -1, 0)),
        ([False, None, UInt(0), False, UInt(0)], (False, 4, 0, 0)),
        ([True, None, UInt(9), True, UInt(300)], (True, 4, 9, 300)),
        ([None, None, UInt(2**32 - 1)], (False, 4, 2**32 - 1, 0)),
    ],
)
def test_the_header_is_read_in_every_form(fields, expected):
    found = parse_sections(section(0x70, fields))
    assert (found.durable, found.priority, found.ttl_ms, found.delivery_count) == expected


def test_the_header_is_read_in_wide_forms():
    found = parse_sections(
        bytes.fromhex("005370d000000014000000055601500970000001005600700000000a")
    )
    assert (found.durable, found.priority, found.ttl_ms, found.delivery_count) == (True, 9, 256, 10)
    assert parse_sections(bytes.fromhex("005370c00301" + "5600")).durable is False


@pytest.mark.parametrize(
    "descriptor",
    ["80" + "00" * 7 + "73", "a314" + b"amqp:properties:list".hex()],
)
def test_a_section_is_known_by_every_form_of_its_descriptor(descriptor):
    payload = b"\x00" + bytes.fromhex(descriptor) + PROPERTIES[3:]
    found = parse_sections(payload)
    assert message_id_and_group_id(payload, found) == ("id-1", None)
    assert decode_properties(payload, found).to == "to"


@pytest.mark.parametrize(
    "message_id", ["text", "x" * 300, ULong(7), b"bin", uuid.UUID(int=7), None]
)
@pytest.mark.parametrize("group_id", ["session", "s" * 300, None])
def test_message_id_and_group_id_are_read_alone(message_id, group_id):
    fields = [message_id, *[None] * 9, group_id, UInt(1), "other"]
    payload = HEADER + section(0x73, fields) + DATA
    assert message_id_and_group_id(payload, parse_sections(payload)) == (message_id, group_id)


@pytest.mark.parametrize("fields", [[], [None], ["id"], ["id"] + [None] * 9])
def test_a_short_list_of_properties_has_no_group_id(fields):
    payload = section(0x73, fields)
    expected = fields[0] if fields else None
    assert message_id_and_group_id(payload, parse_sections(payload)) == (expected, None)


@pytest.mark.parametrize(
    "fields",
    [[1], [True], [[]], [None] * 10 + [1], [None] * 10 + [[]]],
)
def test_ids_of_a_wrong_type_are_refused(fields):
    payload = section(0x73, fields)
    found = parse_sections(payload)
    with pytest.raises(DecodeError):
        message_id_and_group_id(payload, found)
    with pytest.raises(DecodeError):
        decode_properties(payload, found)


def test_texts_may_be_symbols_or_binary():
    payload = section(0x73, [Symbol("id"), None, b"to", *[None] * 7, b"session", None, Symbol("r")])
    found = parse_sections(payload)
    assert message_id_and_group_id(payload, found) == ("id", "session")
    properties = decode_properties(payload, found)
    assert (properties.message_id, properties.to) == ("id", "to")
    assert (properties.group_id, properties.reply_to_group_id) == ("session", "r")


@pytest.mark.parametrize("nulls", [0, 10])
def test_ids_that_are_no_text_are_refused(nulls):
    fields = b"\x40" * nulls + b"\xa1\x01\xff"
    payload = b"\x00\x53\x73\xc0" + bytes((len(fields) + 1, nulls + 1)) + fields
    found = parse_sections(payload)
    with pytest.raises(DecodeError):
        message_id_and_group_id(payload, found)


FULL = {
    "message_id": ULong(9),
    "user_id": b"user",
    "to": "to",
    "subject": "subject",
    "reply_to": "reply",
    "correlation_id": uuid.UUID(int=3),
    "content_type": Symbol("application/json"),
    "content_encoding": Symbol("gzip"),
    "absolute_expiry_time_ms": Timestamp(12),
    "creation_time_ms": Timestamp(11),
    "group_id": "session",
    "group_sequence": UInt(4),
    "reply_to_group_id": "other",
}


def test_properties_come_back_with_their_types():
    payload = encode_properties(MessageProperties(**FULL))
    read = decode_properties(payload, parse_sections(payload))
    for name, value in FULL.items():
        assert same(getattr(read, name), value), name
    assert encode_properties(read) == payload


def test_properties_are_typed_by_their_field():
    plain = {
        name: str(value)
        if isinstance(value, str)
        else int(value)
        if isinstance(value, Timestamp | UInt)
        else value
        for name, value in FULL.items()
    }
    assert encode_properties(MessageProperties(**plain)) == encode_properties(
        MessageProperties(**FULL)
    )


def test_trailing_unset_properties_are_left_out():
    assert encode_properties(MessageProperties()).hex() == "00537345"
    assert encode_properties(MessageProperties(message_id="a")).hex() == "005373c00401a10161"


@pytest.mark.parametrize(
    "wrong",
    [
        MessageProperties(message_id=1),
        MessageProperties(correlation_id=1.5),
        MessageProperties(group_sequence=-1),
        MessageProperties(creation_time_ms=2**63),
    ],
)
def test_properties_without_an_amqp_form_are_refused(wrong):
    with pytest.raises(EncodeError):
        encode_properties(wrong)


@pytest.mark.parametrize("field", range(13))
def test_a_property_of_a_wrong_type_is_refused(field):
    payload = section(0x73, [*[None] * field, Described(Symbol("a"), 1)])
    found = parse_sections(payload)
    with pytest.raises(DecodeError):
        decode_properties(payload, found)


def test_content_type_may_be_a_string():
    payload = section(0x73, [*[None] * 6, "application/json"])
    assert decode_properties(payload, parse_sections(payload)).content_type == "application/json"


def test_application_properties_come_back_with_their_types():
    properties = {
        "text": "a",
        "int": Int(1),
        "none": None,
        "when": Timestamp(5),
        "uri": Described(Symbol("com.microsoft:uri"), "http://x"),
        "long": "x" * 300,
        "k" * 300: True,
    }
    payload = encode_application_properties(properties)
    assert same(decode_application_properties(payload, parse_sections(payload)), properties)


def test_keys_of_application_properties_are_written_as_strings():
    payload = encode_application_properties({Symbol("a"): None})
    assert payload.hex() == "005374c10502a1016140"
    payload = section(0x74, {Symbol("a"): 1})
    assert decode_application_properties(payload, parse_sections(payload)) == {"a": 1}


def test_no_application_properties_make_no_section():
    assert encode_application_properties({}) == b""


def test_a_value_that_cannot_be_read_is_refused_when_it_is_read():
    payload = bytes.fromhex("005374c10702a10161a101ff")
    found = parse_sections(payload)
    with pytest.raises(DecodeError):
        decode_application_properties(payload, found)


def test_annotations_are_read_by_name():
    payload = section(0x72, {Symbol("a"): Timestamp(1), "b": 2, ULong(3): 4, "c" * 300: [5]})
    found = parse_sections(payload)
    assert found.annotation_count == 4
    assert same(annotation_items(found), {"a": Timestamp(1), "b": 2, "c" * 300: [5]})


def test_annotations_are_written_from_pairs():
    found = parse_sections(ANNOTATIONS)
    assert encode_annotations(found.annotation_pairs, found.annotation_count) == ANNOTATIONS
    pairs = found.annotation_pairs + encode_value(Symbol("n")) + encode_value(1)
    more = parse_sections(encode_annotations(pairs, 2))
    assert annotation_items(more) == {"x-opt-partition-key": "p", "n": 1}


def test_many_annotations_take_the_wide_form():
    pairs = b"".join(encode_value(Symbol(str(n))) + b"\x40" for n in range(130))
    found = parse_sections(encode_annotations(pairs, 130))
    assert (found.annotation_count, found.annotation_pairs) == (130, pairs)


def test_delivery_annotations_are_written_from_pairs():
    assert encode_delivery_annotations(b"\xa3\x03hop\x55\x01", 1) == DELIVERY_ANNOTATIONS


@pytest.mark.parametrize("encode", [encode_annotations, encode_delivery_annotations])
def test_no_annotations_make_no_section(encode):
    assert encode(b"", 0) == b""


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ((False, 4, -1, 0), "005370c0070542500440" + "4043"),
        ((True, 9, 60_000, 1), "005370c00c05415009700000ea60405201"),
        ((False, 4, 2**40, 300), "005370c00f0542500470ffffffff40700000012c"),
    ],
)
def test_a_header_is_written_with_all_its_fields(header, expected):
    data = encode_header(*header)
    assert data.hex() == expected
    found = parse_sections(data)
    assert (found.durable, found.priority, found.delivery_count) == (
        header[0],
        header[1],
        header[3],
    )
    assert found.ttl_ms == min(header[2], 2**32 - 1)


@pytest.mark.parametrize(("priority", "delivery_count"), [(256, 0), (-1, 0), (4, -1), (4, 2**32)])
def test_a_header_outside_its_ranges_is_refused(priority, delivery_count):
    with pytest.raises(EncodeError):
        encode_header(False, priority, -1, delivery_count)


def test_a_batch_is_split_into_its_messages():
    large = PROPERTIES + section(0x75, bytes(300))
    payload = ANNOTATIONS + PROPERTIES + section(0x75, DATA) + section(0x75, large) + FOOTER
    assert split_batch(payload) == [DATA, large]


def test_a_batch_is_split_before_trailing_delivery_annotations():
    assert split_batch(section(0x75, DATA) + DELIVERY_ANNOTATIONS) == [DATA]


def test_a_batch_is_split_whatever_the_order_of_its_envelope():
    assert split_batch(FOOTER + section(0x75, DATA) + section(0x75, b"two")) == [DATA, b"two"]


def test_a_batch_may_be_empty():
    assert split_batch(PROPERTIES) == []


@pytest.mark.parametrize("body", [SEQUENCE, VALUE])
def test_a_batch_of_something_else_is_refused(body):
    with pytest.raises(DecodeError):
        split_batch(body)
