"""Many encoded messages, column by column.

Owns the decoding of messages, as a peek returns them, to one list of values for each requested
column; what no column needs is not decoded. It makes no tables: bulk readers convert the lists
themselves. Hot, and compiled.
"""

import struct
from typing import Final

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import TTL_MS_MAX, life_of
from partibus.amqp.codec.section_walk import open_compound, read_descriptor
from partibus.amqp.codec.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    DATA,
    FOOTER,
    MessageSections,
    decode_application_properties,
    decode_properties,
    parse_sections,
)
from partibus.amqp.codec.text import text_of
from partibus.client.property_text import to_text
from partibus.domain import annotations as annotation_names
from partibus.domain.sequence import fragment_of

STATES: Final = ("active", "deferred", "scheduled")
_US_PER_MS: Final = 1000
_INT64: Final = struct.Struct(">q")
_UINT32: Final = struct.Struct(">I")

PROPERTY_FIELDS: Final[dict[str, int]] = {
    "message_id": 0,
    "to": 2,
    "subject": 3,
    "reply_to": 4,
    "correlation_id": 5,
    "content_type": 6,
    "session_id": 10,
    "reply_to_session_id": 12,
}
"""Columns from the properties section, by the number of the field [3.2.4]."""
FIELD_COUNT: Final = 13
# The annotations that are read, by the index of their column.
_SEQUENCE: Final = 0
_ENQUEUED_SEQUENCE: Final = 1
_ENQUEUED: Final = 2
_SCHEDULED: Final = 3
_STATE: Final = 4
_KEY: Final = 5
_SOURCE: Final = 6
_ANNOTATIONS: Final[dict[bytes, int]] = {
    annotation_names.SEQUENCE_NUMBER.encode(): _SEQUENCE,
    annotation_names.ENQUEUE_SEQUENCE_NUMBER.encode(): _ENQUEUED_SEQUENCE,
    annotation_names.ENQUEUED_TIME.encode(): _ENQUEUED,
    annotation_names.SCHEDULED_TIME.encode(): _SCHEDULED,
    annotation_names.MESSAGE_STATE.encode(): _STATE,
    annotation_names.PARTITION_KEY.encode(): _KEY,
    annotation_names.DEAD_LETTER_SOURCE.encode(): _SOURCE,
}
_UNKNOWN: Final = -1


class MessageColumns:
    """Lists of values, one for each column; each message adds one value to every list."""

    def __init__(self, names: frozenset[str]) -> None:
        self.lists: dict[str, list[object]] = {name: [] for name in names}
        self._count = 0
        self._fields: list[list[object] | None] = [None] * FIELD_COUNT
        self._needs_fields = False
        for name, number in PROPERTY_FIELDS.items():
            if name in names:
                self._fields[number] = self.lists[name]
                self._needs_fields = True
        lists = self.lists
        self._sequences = lists.get("sequence_number")
        self._fragments = lists.get("fragment")
        self._enqueued_sequences = lists.get("enqueued_sequence_number")
        self._enqueued = lists.get("enqueued_time")
        self._scheduled = lists.get("scheduled_enqueue_time")
        self._expiries = lists.get("expires_at")
        self._states = lists.get("state")
        self._keys = lists.get("partition_key")
        self._sources = lists.get("dead_letter_source")
        self._deliveries = lists.get("delivery_count")
        self._lives = lists.get("time_to_live_ms")
        self._needs_body = "body" in names or "body_type" in names
        self._needs_properties = bool(
            names
            & {
                "application_properties",
                "application_property_types",
                "dead_letter_reason",
                "dead_letter_description",
            }
        )
        self.property_ends: list[int] = [0]
        """Where the properties of each message end in the common lists."""
        self.property_names: list[str] = []
        self.property_texts: list[str | None] = []
        self.property_types: list[str] = []

    def __len__(self) -> int:
        return self._count

    def add(self, message: bytes) -> None:
        """Add one message."""
        sections = parse_sections(message)
        self._count += 1
        if self._needs_fields:
            end = sections.properties_end
            at = sections.properties_offset
            if at >= 0:
                _, at = read_descriptor(message, at, end)
            add_fields(message, at, end, self._fields, True)
        self._add_annotations(message, sections)
        if self._needs_body:
            self._add_body(message, sections)
        if self._needs_properties:
            self._add_properties(message, sections)
        raw = self.lists.get("raw_amqp")
        if raw is not None:
            raw.append(message)

    # --- sections -------------------------------------------------------------------------

    def _add_annotations(self, message: bytes, sections: MessageSections) -> None:
        found: list[object] = [None, None, None, None, None, None, None]
        pairs = sections.annotation_pairs
        end = len(pairs)
        at = 0
        for _ in range(sections.annotation_count):
            if pairs[at] == 0xA3:
                stop = at + 2 + pairs[at + 1]
                place = _ANNOTATIONS.get(pairs[at + 2 : stop], _UNKNOWN)
                at = stop
            else:
                key, at = decode_value(pairs, at, end)
                place = _ANNOTATIONS.get(str(key).encode(), _UNKNOWN)
            code = pairs[at]
            if code == 0x81 or code == 0x83:
                if place >= 0:
                    found[place] = _INT64.unpack_from(pairs, at + 1)[0]
                at += 9
            else:
                value, at = decode_value(pairs, at, end)
                if place >= 0:
                    found[place] = value
        self._add_numbers(found[_SEQUENCE], found[_ENQUEUED_SEQUENCE], sections)
        life_ms = sections.ttl_ms
        if life_ms == TTL_MS_MAX:
            life_ms = life_of(life_ms, decode_properties(message, sections))
        self._add_times(found[_ENQUEUED], found[_SCHEDULED], life_ms)
        if self._states is not None:
            self._states.append(state_text(found[_STATE]))
        if self._keys is not None:
            self._keys.append(text_of(found[_KEY]))
        if self._sources is not None:
            self._sources.append(text_of(found[_SOURCE]))

    def _add_numbers(self, number: object, enqueued: object, sections: MessageSections) -> None:
        if self._sequences is not None:
            self._sequences.append(number)
        if self._fragments is not None:
            self._fragments.append(fragment_of(number) if isinstance(number, int) else None)
        if self._enqueued_sequences is not None:
            # Only a forwarded message has one that differs from its own (FWD-9).
            self._enqueued_sequences.append(number if enqueued is None else enqueued)
        if self._deliveries is not None:
            self._deliveries.append(sections.delivery_count)

    def _add_times(self, enqueued: object, scheduled: object, ttl_ms: int) -> None:
        """Times in microseconds, as Spark and Arrow need them."""
        if self._enqueued is not None:
            self._enqueued.append(_us(enqueued))
        if self._scheduled is not None:
            self._scheduled.append(_us(scheduled))
        if self._lives is not None:
            self._lives.append(ttl_ms if ttl_ms >= 0 else None)
        if self._expiries is not None:
            if isinstance(enqueued, int) and ttl_ms >= 0:
                self._expiries.append(_us(enqueued + ttl_ms))
            else:
                self._expiries.append(None)

    def _add_body(self, message: bytes, sections: MessageSections) -> None:
        body, body_type = read_body(message, sections)
        bodies = self.lists.get("body")
        if bodies is not None:
            bodies.append(body)
        types = self.lists.get("body_type")
        if types is not None:
            types.append(body_type)

    def _add_properties(self, message: bytes, sections: MessageSections) -> None:
        properties = decode_application_properties(message, sections)
        for name, value in properties.items():
            text, kind = to_text(value)
            self.property_names.append(name)
            self.property_texts.append(text)
            self.property_types.append(kind)
        self.property_ends.append(len(self.property_names))
        reasons = self.lists.get("dead_letter_reason")
        if reasons is not None:
            reasons.append(text_of(properties.get(annotation_names.DEAD_LETTER_REASON)))
        descriptions = self.lists.get("dead_letter_description")
        if descriptions is not None:
            descriptions.append(text_of(properties.get(annotation_names.DEAD_LETTER_DESCRIPTION)))


def add_fields(
    data: bytes, at: int, end: int, lists: list[list[object] | None], decodes: bool
) -> None:
    """Add the fields of the properties at an offset, -1 for none, to the lists that want them.

    A short text stays bytes unless it `decodes`.
    """
    count = 0
    if at >= 0:
        count, at, _ = open_compound(data, at, 0xC0)
    for number in range(FIELD_COUNT):
        wanted = lists[number]
        if number >= count:
            if wanted is not None:
                wanted.append(None)
            continue
        code = data[at]
        if code == 0x40:
            at += 1
            if wanted is not None:
                wanted.append(None)
        elif code == 0xA1 or code == 0xA3:
            start = at + 2
            at = start + data[at + 1]
            if wanted is not None:
                wanted.append(data[start:at].decode() if decodes else data[start:at])
        else:
            value, at = decode_value(data, at, end)
            if wanted is not None:
                wanted.append(text_of(value))


def read_body(message: bytes, sections: MessageSections) -> tuple[bytes, str]:
    """The bytes of a data body, or else its encoded value; and which of them it is."""
    at, end = sections.body_offset, sections.bare_end
    if at < 0:
        return b"", "data"
    section, value_at = read_descriptor(message, at, end)
    if section == AMQP_VALUE:
        _, next_at = decode_value(message, value_at, end)
        return message[value_at:next_at], "value"
    if section == AMQP_SEQUENCE:
        return _sequence(message, at, end), "sequence"
    body, at = _data(message, value_at)
    if at >= end:
        return body, "data"
    parts = [body]
    while at < end:
        section, value_at = read_descriptor(message, at, end)
        if section != DATA:
            break
        body, at = _data(message, value_at)
        parts.append(body)
    return b"".join(parts), "data"


def _data(message: bytes, value_at: int) -> tuple[bytes, int]:
    """The binary at an offset, and the offset behind it."""
    if message[value_at] == 0xA0:
        start = value_at + 2
        stop = start + message[value_at + 1]
    else:
        start = value_at + 5
        stop = start + int(_UINT32.unpack_from(message, value_at + 1)[0])
    return message[start:stop], stop


def _sequence(message: bytes, at: int, end: int) -> bytes:
    """All lists of a sequence body as one encoded list [3.2.7]."""
    items: list[object] = []
    while at < end:
        section, value_at = read_descriptor(message, at, end)
        if section == FOOTER or section != AMQP_SEQUENCE:
            break
        value, at = decode_value(message, value_at, end)
        if isinstance(value, list):
            items += value
    return encode_value(items)


def _us(time_ms: object) -> int | None:
    return time_ms * _US_PER_MS if isinstance(time_ms, int) else None


def state_text(value: object) -> str:
    """The state of a message by its number; active when there is none."""
    number = value if isinstance(value, int) else 0
    return STATES[number] if 0 <= number < len(STATES) else str(number)
