"""The sections of a message [3.2]: the ones that the bus reads or writes, and the batch.

Owns the reading and writing of header, annotations, properties and application properties,
and the vendor's batch envelope. Must never alter or decode a body, and must raise nothing
but `DecodeError` on a peer's bytes. Called for every message by the gateway, in both
directions, so the small encoders are hot.
"""

from partibus.amqp.codec.decode import DecodeError, decode_value, skip_value
from partibus.amqp.codec.encode import (
    ENCODED_NULL,
    EncodeError,
    encode_compound,
    encode_str,
    encode_uint,
    encode_value,
)
from partibus.amqp.codec.properties import (
    TTL_MS_MAX,
    MessageProperties,
    encode_properties,
    properties_of,
)
from partibus.amqp.codec.section_walk import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    HEADER_FIELDS,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    MessageSections,
    open_compound,
    parse_in_order,
    parse_sections,
    read_descriptor,
)

__all__ = [
    "AMQP_SEQUENCE",
    "AMQP_VALUE",
    "APPLICATION_PROPERTIES",
    "DATA",
    "DELIVERY_ANNOTATIONS",
    "FOOTER",
    "HEADER",
    "MESSAGE_ANNOTATIONS",
    "PROPERTIES",
    "MessageProperties",
    "MessageSections",
    "annotation_items",
    "decode_application_properties",
    "decode_properties",
    "delivery_annotation_pairs",
    "encode_annotations",
    "encode_application_properties",
    "encode_delivery_annotations",
    "encode_header",
    "encode_properties",
    "parse_in_order",
    "parse_sections",
    "split_batch",
]


def decode_properties(payload: bytes, sections: MessageSections) -> MessageProperties:
    """All thirteen fields, None where they are unset."""
    if sections.properties_offset < 0:
        return MessageProperties()
    end = sections.properties_end
    _, value = read_descriptor(payload, sections.properties_offset, end)
    fields, _ = decode_value(payload, value, end)
    assert isinstance(fields, list)  # parse_sections saw the constructor
    return properties_of(fields)


def decode_application_properties(payload: bytes, sections: MessageSections) -> dict[str, object]:
    if sections.application_offset < 0:
        return {}
    end = sections.application_end
    _, value = read_descriptor(payload, sections.application_offset, end)
    count, start, stop = open_compound(payload, value, 0xC1)
    return _text_keyed(payload, start, stop, count >> 1)


def annotation_items(sections: MessageSections) -> dict[str, object]:
    """The message annotations by name; those under a reserved ulong key are left out."""
    pairs = sections.annotation_pairs
    return _text_keyed(pairs, 0, len(pairs), sections.annotation_count)


def delivery_annotation_pairs(payload: bytes, sections: MessageSections) -> tuple[bytes, int]:
    """The delivery annotations as encoded pairs, and how many; none when there is no section."""
    if sections.delivery_offset < 0:
        return b"", 0
    _, value = read_descriptor(payload, sections.delivery_offset, sections.delivery_end)
    count, start, stop = open_compound(payload, value, 0xC1)
    return payload[start:stop], count >> 1


def _text_keyed(buf: bytes, at: int, end: int, pairs: int) -> dict[str, object]:
    items: dict[str, object] = {}
    for _ in range(pairs):
        key, at = decode_value(buf, at, end)
        item, at = decode_value(buf, at, end)
        if isinstance(key, str):
            items[str(key)] = item
    return items


def split_batch(payload: bytes) -> list[bytes]:
    """The messages inside an envelope of message-format 0x80013700, one per data section."""
    payload, found = parse_in_order(payload)
    messages: list[bytes] = []
    at = found.body_offset
    while 0 <= at < found.bare_end:
        section, value = read_descriptor(payload, at, found.bare_end)
        if section == FOOTER:
            break
        if section != DATA:
            raise DecodeError("a batch contains something other than data sections")
        at = skip_value(payload, value, found.bare_end)
        messages.append(payload[value + (2 if payload[value] == 0xA0 else 5) : at])
    return messages


# --- writing a section ------------------------------------------------------------------------


def encode_header(durable: bool, priority: int, ttl_ms: int, delivery_count: int) -> bytes:
    """A header with all its fields; a negative `ttl_ms` stands for no time to live."""
    if not 0 <= priority <= 255:
        raise EncodeError(f"{priority} is not a priority from 0 to 255")
    ttl = ENCODED_NULL if ttl_ms < 0 else encode_uint(min(ttl_ms, TTL_MS_MAX))
    count = encode_uint(delivery_count)
    size = 5 + len(ttl) + len(count)  # the field count, durable, priority (2), first-acquirer
    flag = 0x41 if durable else 0x42
    head = bytes((0x00, 0x53, HEADER, 0xC0, size, HEADER_FIELDS, flag, 0x50, priority))
    return head + ttl + ENCODED_NULL + count


def encode_annotations(pairs: bytes, count: int) -> bytes:
    """Message annotations from `count` encoded pairs; no section when there are none."""
    return _encode_map_section(MESSAGE_ANNOTATIONS, pairs, count)


def encode_delivery_annotations(pairs: bytes, count: int) -> bytes:
    """Delivery annotations from `count` encoded pairs; no section when there are none."""
    return _encode_map_section(DELIVERY_ANNOTATIONS, pairs, count)


def encode_application_properties(properties: dict[str, object]) -> bytes:
    """The section, with keys as strings [3.2.5]; none when there are no properties."""
    pairs = [encode_str(key) + encode_value(item) for key, item in properties.items()]
    return _encode_map_section(APPLICATION_PROPERTIES, b"".join(pairs), len(pairs))


def _encode_map_section(section: int, pairs: bytes, count: int) -> bytes:
    if count == 0:
        return b""
    return bytes((0x00, 0x53, section)) + encode_compound(0xC1, 2 * count, pairs)
