"""The walk over a message's sections [3.2], one pass and no copies.

Owns where the sections of a payload are and what its header contains. Must never read a body, and
must raise nothing but `DecodeError` on a peer's bytes. Called for every arriving message, so it is
hot; `partibus.amqp.codec.sections` reads what this finds.
"""

import struct
from typing import Final

from partibus.amqp.codec.decode import (
    COMPOUND_COUNT_MAX,
    STEPS,
    DecodeError,
    decode_value,
    skip_value,
)
from partibus.amqp.codec.types import Symbol, ULong

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

PRIORITY_DEFAULT: Final = 4  # [3.2.1]

HEADER_FIELDS: Final = 5
# Fields that a header leaves unset, in `MessageSections.header_flags`: a null is not a default.
DURABLE_UNSET: Final = 4
PRIORITY_UNSET: Final = 8
ACQUIRER_SET: Final = 16
ACQUIRER_TRUE: Final = 32
_PROPERTIES_FIELDS: Final = 13
_GROUP_ID_FIELD: Final = 10

_UINT32: Final = struct.Struct(">I")
_LIST_CODES: Final = (0x45, 0xC0, 0xD0)
_LARGE_DATA: Final = bytes((0x00, 0x53, DATA, 0xB0))
_LARGE_DATA_BYTES: Final = 8
_NESTED_CODES: Final = frozenset((0x45, 0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0))
_EXPIRY_FIELD: Final = 8
# The fields of the properties that contain a text or an id, an id, and a time [3.2.4], as bits.
_TEXT_FIELDS: Final = 0b1_0100_1111_1101
_ID_FIELDS: Final = 0b0_0000_0010_0001
_TIME_FIELDS: Final = 0b0_0011_0000_0000
SHORT_TEXT: Final = 128  # longer ids are left to the owner to check
_ULONG_CODES: Final = (0x44, 0x53, 0x80)

_SECTION_NAMES: Final[dict[str, int]] = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": AMQP_SEQUENCE,
    "amqp:amqp-value:*": AMQP_VALUE,
    "amqp:footer:map": FOOTER,
}


class SectionOrderError(DecodeError):
    """The sections are not in the order of [3.2]."""


class MessageSections:
    """Where the sections of one payload are, and what its header contains.

    Offsets are those of a section's first byte, its descriptor; -1 means absent, and an `_end` is
    the first byte after. The bare message is `payload[bare_offset:bare_end]`.
    """

    __slots__ = (
        "annotation_count",
        "annotation_pairs",
        "application_end",
        "application_offset",
        "bare_end",
        "bare_offset",
        "body_offset",
        "delivery_count",
        "delivery_end",
        "delivery_offset",
        "durable",
        "expiry_offset",
        "group_id_offset",
        "has_long_property",
        "has_nested",
        "has_nested_property",
        "has_unread",
        "header_flags",
        "message_id_offset",
        "priority",
        "properties_end",
        "properties_offset",
        "ttl_ms",
    )

    def __init__(self, payload_end: int) -> None:
        self.durable = False
        self.priority = PRIORITY_DEFAULT
        self.header_flags = DURABLE_UNSET | PRIORITY_UNSET
        self.ttl_ms = -1
        self.delivery_count = 0
        self.annotation_count = 0  # a key and its value count as one
        self.annotation_pairs = b""
        self.bare_offset = payload_end
        self.bare_end = payload_end
        self.properties_offset = -1
        self.properties_end = -1
        self.application_offset = -1
        self.application_end = -1
        self.body_offset = -1
        self.delivery_offset = -1  # of delivery annotations, which may come last of all
        self.delivery_end = -1
        self.message_id_offset = -1  # of the field's constructor, which may be null's
        self.group_id_offset = -1
        self.expiry_offset = -1  # of absolute-expiry-time, only when it is set
        self.has_long_property = False  # a text in the properties is longer than SHORT_TEXT
        self.has_nested_property = False  # an application property is a list, map or array
        self.has_unread = False  # a non-ASCII text, or a rare type: it must be decoded
        self.has_nested = False  # a value elsewhere may be nested, and was skipped


def parse_sections(payload: bytes, start: int = 0, end: int = -1) -> MessageSections:
    """One pass over payload[start:end], checking that the sections are in order and fill it.

    Header, annotations, properties and application properties are walked field by field,
    so that a malformed one is refused to its sender and not handed to a receiver.
    """
    if end < 0:
        end = len(payload)
    found = MessageSections(end)
    try:
        if _walk_sections(payload, found, start, end) != end:
            raise DecodeError("a section is truncated")
    except (IndexError, struct.error):
        raise DecodeError("a section is truncated") from None
    return found


def parse_first_frame(
    payload: bytes, start: int, end: int, whole_bytes: int
) -> MessageSections | None:
    """The sections of a message of which payload[start:end] is the first frame of several.

    None unless its last section is a data section that fills all other frames: the rest of such a
    message need not be parsed. `bare_end` is then beyond the first frame.
    """
    whole_end = start + whole_bytes
    found = MessageSections(whole_end)
    try:
        _walk_sections(payload, found, start, whole_end)
    except (DecodeError, IndexError, struct.error):
        return None
    at = found.body_offset
    # What was read before the body comes before it, and so is within the first frame.
    if at < 0 or at + _LARGE_DATA_BYTES > end or payload[at : at + 4] != _LARGE_DATA:
        return None
    size: int = _UINT32.unpack_from(payload, at + 4)[0]
    return found if at + _LARGE_DATA_BYTES + size == whole_end else None


def parse_in_order(payload: bytes) -> tuple[bytes, MessageSections]:
    """The payload with its sections in order, and where they are.

    The order is required by [3.2], but some clients do not keep it: rhea, on which the vendor's
    JavaScript client is based, writes the footer before the body.
    """
    try:
        return payload, parse_sections(payload)
    except SectionOrderError:
        payload = in_order(payload)
        return payload, parse_sections(payload)


def in_order(payload: bytes) -> bytes:
    """The same sections in order; those of a body keep their relative order."""
    parts: list[tuple[int, int, bytes]] = []
    at = 0
    end = len(payload)
    while at < end:
        section, value = read_descriptor(payload, at, end)
        stop = skip_value(payload, value, end)
        parts.append((section, at, payload[at:stop]))
        at = stop
    parts.sort()
    return b"".join([part[2] for part in parts])


def _walk_sections(payload: bytes, found: MessageSections, at: int, end: int) -> int:
    """Walk until the payload's end; a truncated section ends beyond it."""
    last = 0
    while at < end:
        if payload[at] == 0x00 and payload[at + 1] == 0x53:
            section = payload[at + 2]
            value = at + 3
        else:
            section, value = read_descriptor(payload, at, end)
        if section <= last:
            return _walk_last(payload, found, at, end)
        if section >= PROPERTIES:
            if last < PROPERTIES:
                found.bare_offset = at
            if section == PROPERTIES:
                found.properties_offset = at
                at = found.properties_end = _walk_properties(payload, value, found)
            elif section == APPLICATION_PROPERTIES:
                found.application_offset = at
                at = found.application_end = _walk_map(payload, value, found, False)
            else:
                return _walk_body(payload, found, at, end)
        elif section == MESSAGE_ANNOTATIONS:
            at = _walk_map(payload, value, found, True)
        elif section == HEADER:
            at = _read_header(payload, value, found)
        elif section == DELIVERY_ANNOTATIONS:
            at = _walk_delivery_annotations(payload, found, at, value, end)
        else:
            raise DecodeError(f"0x{section:02x} is not the code of a section")
        last = section
    return at


def _read_header(payload: bytes, value: int, found: MessageSections) -> int:
    """The five fields [3.2.1], unrolled because every message passes here."""
    if payload[value] == 0xC0:
        stop = value + 2 + payload[value + 1]
        count = payload[value + 2]
        at = value + 3
    else:
        count, at, stop = open_compound(payload, value, 0xC0)
    if count > 0:
        code = payload[at]
        at += 1
        if code != 0x40:
            found.header_flags = PRIORITY_UNSET
            if code == 0x56:
                found.durable = payload[at] == 1
                at += 1
            elif code == 0x41:
                found.durable = True
            elif code != 0x42:
                raise DecodeError(f"durable has the type 0x{code:02x}, not boolean")
    if count > 1:
        code = payload[at]
        at += 1
        if code == 0x50:
            found.priority = payload[at]
            found.header_flags &= ~PRIORITY_UNSET
            at += 1
        elif code != 0x40:
            raise DecodeError(f"priority has the type 0x{code:02x}, not ubyte")
    if count > 2:
        code = payload[at]
        at += 1
        if code == 0x70:
            found.ttl_ms = _UINT32.unpack_from(payload, at)[0]
            at += 4
        elif code == 0x52:
            found.ttl_ms = payload[at]
            at += 1
        elif code == 0x43:
            found.ttl_ms = 0
        elif code != 0x40:
            raise DecodeError(f"ttl has the type 0x{code:02x}, not uint")
    if count > 3:
        code = payload[at]
        at += 1
        if code != 0x40:
            found.header_flags |= ACQUIRER_SET
            if code == 0x41 or (code == 0x56 and payload[at] == 1):
                found.header_flags |= ACQUIRER_TRUE
            if code == 0x56:
                at += 1
            elif code != 0x41 and code != 0x42:
                raise DecodeError(f"first-acquirer has the type 0x{code:02x}, not boolean")
    if count > 4:
        code = payload[at]
        at += 1
        if code == 0x52:
            found.delivery_count = payload[at]
            at += 1
        elif code == 0x70:
            found.delivery_count = _UINT32.unpack_from(payload, at)[0]
            at += 4
        elif code != 0x40 and code != 0x43:
            raise DecodeError(f"delivery-count has the type 0x{code:02x}, not uint")
    if at != stop or count > HEADER_FIELDS:
        raise DecodeError("the fields of the header do not match its size")
    return stop


def _walk_properties(payload: bytes, value: int, found: MessageSections) -> int:
    if payload[value] == 0xC0:
        stop = value + 2 + payload[value + 1]
        count = payload[value + 2]
        at = value + 3
    else:
        count, at, stop = open_compound(payload, value, 0xC0)
    if count > _PROPERTIES_FIELDS:
        raise DecodeError(f"the properties have more than {_PROPERTIES_FIELDS} fields: {count}")
    if count > 0:
        found.message_id_offset = at
    for field in range(count):
        if field == _GROUP_ID_FIELD:
            found.group_id_offset = at
        code = payload[at]
        if code == 0x40:
            at += 1
        elif code == 0xA1 or code == 0xA3:
            length = payload[at + 1]
            text = at + 2
            at = text + length
            if length > SHORT_TEXT:
                found.has_long_property = True
            if not _TEXT_FIELDS >> field & 1 or not payload[text:at].isascii():
                found.has_unread = True
        else:
            if code == 0x83 and field == _EXPIRY_FIELD:
                found.expiry_offset = at
            if not (code == 0x98 and _ID_FIELDS >> field & 1) and not (
                code == 0x83 and _TIME_FIELDS >> field & 1
            ):
                found.has_unread = True
            if code == 0xB1 or code == 0xB3 or code == 0xB0:
                found.has_long_property = True
            elif code == 0xA0:
                if payload[at + 1] > SHORT_TEXT:
                    found.has_long_property = True
            elif code < 0x40 or code >= 0xC0:
                found.has_nested = True
            step = STEPS[code]
            at = at + step if step > 0 else skip_value(payload, at, stop)
    if at != stop:
        raise DecodeError("the fields of the properties do not match their size")
    return stop


def _walk_map(payload: bytes, value: int, found: MessageSections, is_annotations: bool) -> int:
    """The offset after a map with text as keys; the pairs of annotations are kept."""
    if payload[value] == 0xC1:
        stop = value + 2 + payload[value + 1]
        count = payload[value + 2]
        at = value + 3
    else:
        count, at, stop = open_compound(payload, value, 0xC1)
    first = at
    for _ in range(0, count, 2):
        code = payload[at]
        if code == 0xA1 or code == 0xA3:
            text = at + 2
            at = text + payload[at + 1]
            if not payload[text:at].isascii():
                found.has_unread = True
        elif code == 0xB1 or code == 0xB3 or (is_annotations and code in _ULONG_CODES):
            found.has_unread = True
            at = skip_value(payload, at, stop)  # ulong keys are reserved, not refused [3.2.10]
        else:
            raise DecodeError(f"a key has the type 0x{code:02x}, not string or symbol")
        code = payload[at]
        if code == 0xA1:
            text = at + 2
            at = text + payload[at + 1]
            if not payload[text:at].isascii():
                found.has_unread = True
        else:
            step = STEPS[code]
            if code == 0x73 or code == 0x94 or (step <= 0 and code != 0xA0 and code != 0xB0):
                found.has_unread = True  # a character, a decimal, a text, or a nested value
            if step > 0 and code != 0x45:
                at += step
            else:
                if not is_annotations and code in _NESTED_CODES:
                    found.has_nested_property = True
                elif code < 0xA0 or code >= 0xC0:
                    found.has_nested = True
                at = skip_value(payload, at, stop)
    if at != stop or count & 1:
        raise DecodeError("the items of a map do not match its size, or are not pairs")
    if is_annotations:
        found.annotation_count = count >> 1
        found.annotation_pairs = payload[first:stop]
    return stop


def open_compound(payload: bytes, value: int, code8: int) -> tuple[int, int, int]:
    """The count, first item and end of a compound whose one-byte form is `code8`."""
    code = payload[value]
    if code == code8:
        return payload[value + 2], value + 3, value + 2 + payload[value + 1]
    if code == code8 + 0x10:
        size = _UINT32.unpack_from(payload, value + 1)[0]
        count = _UINT32.unpack_from(payload, value + 5)[0]
        if count > COMPOUND_COUNT_MAX:
            raise DecodeError(f"a section has too many items: {count}")
        return count, value + 9, value + 5 + size
    if code == 0x45 and code8 == 0xC0:
        return 0, value + 1, value + 1
    raise DecodeError(f"a section has the type 0x{code:02x}, not list or map")


def _step_map(payload: bytes, found: MessageSections, value: int, end: int) -> int:
    found.has_nested = True
    if payload[value] != 0xC1 and payload[value] != 0xD1:
        raise DecodeError(f"a section has the type 0x{payload[value]:02x}, not map")
    return skip_value(payload, value, end)


def _walk_body(payload: bytes, found: MessageSections, at: int, end: int) -> int:
    """Data sections, or sequence sections, or one value [3.2], and what may follow them."""
    body, value = read_descriptor(payload, at, end)
    if body == FOOTER:
        return _walk_last(payload, found, at, end)
    found.body_offset = at
    section = body
    while section == body:
        code = payload[value]
        if section == DATA and code == 0xB0:
            at = value + 5 + _UINT32.unpack_from(payload, value + 1)[0]
        elif section == DATA and code == 0xA0:
            at = value + 2 + payload[value + 1]
        elif section == AMQP_VALUE or (section == AMQP_SEQUENCE and code in _LIST_CODES):
            if code < 0x40 or code >= 0xC0:
                found.has_nested = True
            at = skip_value(payload, value, end)
        else:
            raise DecodeError(f"body section 0x{section:02x} cannot have the type 0x{code:02x}")
        if at >= end or section == AMQP_VALUE:
            break
        section, value = read_descriptor(payload, at, end)
    return at if at >= end else _walk_last(payload, found, at, end)


def _walk_last(payload: bytes, found: MessageSections, at: int, end: int) -> int:
    """A footer, and delivery annotations where the vendor's Python client puts them."""
    section, value = read_descriptor(payload, at, end)
    if section == FOOTER:
        at = _step_map(payload, found, value, end)
        if at == end:
            return at
        section, value = read_descriptor(payload, at, end)
    if section != DELIVERY_ANNOTATIONS:
        raise SectionOrderError(f"section 0x{section:02x} is out of order")
    if found.delivery_offset >= 0:
        raise DecodeError("the delivery annotations appear twice")
    found.bare_end = at
    found.bare_offset = min(found.bare_offset, at)
    at = _walk_delivery_annotations(payload, found, at, value, end)
    if at < end:
        raise SectionOrderError("a section follows the delivery annotations")
    return at


def _walk_delivery_annotations(
    payload: bytes, found: MessageSections, at: int, value: int, end: int
) -> int:
    found.delivery_offset = at
    found.delivery_end = _step_map(payload, found, value, end)
    return found.delivery_end


def read_descriptor(payload: bytes, at: int, end: int) -> tuple[int, int]:
    """The code of the section at `at` and the offset of its value, in any form of descriptor."""
    if end - at < 3:
        raise DecodeError("a section is truncated")
    if payload[at] != 0x00:
        raise DecodeError(f"a section begins with 0x{payload[at]:02x}, not 0x00")
    if payload[at + 1] == 0x53:
        return payload[at + 2], at + 3
    descriptor, value = decode_value(payload, at + 1, end)
    if isinstance(descriptor, Symbol):
        return _SECTION_NAMES.get(descriptor, 0), value
    if isinstance(descriptor, ULong) and descriptor <= FOOTER:
        return int(descriptor), value
    return 0, value
