"""The heads of many messages, column by column.

Owns the decoding of message heads (annotations, properties and application properties, as the
sender encoded them) to one list of values for each requested column. Texts stay bytes: code that
makes a table of them validates them. Bodies are handled elsewhere. Hot, and compiled.
"""

import struct
from typing import Final

from partibus.amqp.codec import section_walk
from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.text import text_of
from partibus.client import message_columns
from partibus.client.property_text import to_text
from partibus.domain import annotations as annotation_names
from partibus.domain.annotations import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON

_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")
_REASON: Final = DEAD_LETTER_REASON.encode()
_DESCRIPTION: Final = DEAD_LETTER_DESCRIPTION.encode()
_US_PER_MS: Final = 1000
_FEW: Final = 16
"""Up to this many names are searched linearly for one that occurs twice."""

Text = bytes | str | None


class HeadColumns:
    """Lists of values, one for each column; each head adds one value to every list."""

    def __init__(self, names: frozenset[str]) -> None:
        self.texts: dict[str, list[object]] = {}
        self._fields: list[list[object] | None] = [None] * message_columns.FIELD_COUNT
        self._needs_fields = False
        for name, number in message_columns.PROPERTY_FIELDS.items():
            if name in names:
                self._fields[number] = self.texts[name] = []
                self._needs_fields = True
        self._keys = self._text_list("partition_key", names)
        self._sources = self._text_list("dead_letter_source", names)
        self._reasons = self._text_list("dead_letter_reason", names)
        self._descriptions = self._text_list("dead_letter_description", names)
        self.scheduled_us: list[int | None] = []
        """In microseconds, as tables want it."""
        self._needs_scheduled = "scheduled_enqueue_time" in names
        self._needs_annotations = (
            self._needs_scheduled or self._keys is not None or self._sources is not None
        )
        self._needs_maps = not names.isdisjoint(
            ("application_properties", "application_property_types")
        )
        self._needs_properties = (
            self._needs_maps or self._reasons is not None or self._descriptions is not None
        )
        self.property_ends: list[int] = [0]
        """Where the properties of each message end in the common lists."""
        self.property_names: list[Text] = []
        self.property_texts: list[Text] = []
        self.property_types: list[Text] = []

    def _text_list(self, name: str, names: frozenset[str]) -> list[object] | None:
        if name not in names:
            return None
        self.texts[name] = []
        return self.texts[name]

    def add(self, head: bytes) -> None:
        """Add one head; DecodeError when it cannot be read."""
        try:
            self._add(head)
        except (IndexError, struct.error):
            raise DecodeError("a section is truncated") from None

    def _add(self, head: bytes) -> None:
        end = len(head)
        annotations_at = fields_at = properties_at = -1
        at = 0
        while at + 3 < end:
            value_at = at + 3
            section = head[at + 2]
            if head[at] != 0x00 or head[at + 1] != 0x53:
                section, value_at = section_walk.read_descriptor(head, at, end)
            code = head[value_at]
            if code == 0xC0 or code == 0xC1:
                at = value_at + 2 + head[value_at + 1]
            elif code == 0x45:
                at = value_at + 1
            else:
                at = value_at + 5 + int(_UINT32.unpack_from(head, value_at + 1)[0])
            if section == section_walk.PROPERTIES:
                fields_at = value_at
            elif section == section_walk.APPLICATION_PROPERTIES:
                properties_at = value_at
            elif section == section_walk.MESSAGE_ANNOTATIONS:
                annotations_at = value_at
            else:
                raise DecodeError(f"section 0x{section:02x} cannot be part of a message head")
        if self._needs_annotations:
            if annotations_at >= 0:
                self._add_annotations(head, annotations_at, end)
            else:
                self._add_no_annotations()
        if self._needs_fields:
            message_columns.add_fields(head, fields_at, end, self._fields, False)
        if self._needs_properties:
            if properties_at >= 0:
                self._add_properties(head, properties_at, end)
            else:
                self._add_no_properties()

    # --- application properties -----------------------------------------------------------

    def _add_properties(self, head: bytes, at: int, end: int) -> None:
        count, at, _ = section_walk.open_compound(head, at, 0xC1)
        names, texts, types = self.property_names, self.property_texts, self.property_types
        first = len(names)
        places: dict[Text, int] | None = {} if count > 2 * _FEW else None
        reason: Text = None
        description: Text = None
        for _ in range(count >> 1):
            if head[at] == 0xA1:
                start = at + 2
                at = start + head[at + 1]
                name = head[start:at]
            else:
                key, at = decode_value(head, at, end)
                if not isinstance(key, str):
                    _, at = decode_value(head, at, end)
                    continue
                name = key.encode()
            text: Text
            code = head[at]
            if code == 0xA1:
                start = at + 2
                at = start + head[at + 1]
                text = head[start:at]
                kind = "string"
            elif code == 0x55:
                number = head[at + 1]
                text = str(number if number < 128 else number - 256)
                kind = "long"
                at += 2
            elif code == 0x81:
                text = str(_INT64.unpack_from(head, at + 1)[0])
                kind = "long"
                at += 9
            elif code == 0x41 or code == 0x42:
                text = "true" if code == 0x41 else "false"
                kind = "boolean"
                at += 1
            else:
                value, at = decode_value(head, at, end)
                text, kind = to_text(value)
            if name == _REASON:
                reason = text
            elif name == _DESCRIPTION:
                description = text
            if self._needs_maps:
                if places is None:
                    place = _place_of(names, name, first)
                else:
                    place = places.get(name, -1)
                    places[name] = len(names) if place < 0 else place
                if place < 0:
                    names.append(name)
                    texts.append(text)
                    types.append(kind)
                else:
                    # The last value of a name counts.
                    texts[place] = text
                    types[place] = kind
        self.property_ends.append(len(names))
        if self._reasons is not None:
            self._reasons.append(reason)
        if self._descriptions is not None:
            self._descriptions.append(description)

    def _add_no_properties(self) -> None:
        self.property_ends.append(len(self.property_names))
        if self._reasons is not None:
            self._reasons.append(None)
        if self._descriptions is not None:
            self._descriptions.append(None)

    # --- annotations ----------------------------------------------------------------------

    def _add_annotations(self, head: bytes, at: int, end: int) -> None:
        count, at, _ = section_walk.open_compound(head, at, 0xC1)
        key_text: Text = None
        source: Text = None
        scheduled: int | None = None
        for _ in range(count >> 1):
            key, at = decode_value(head, at, end)
            value, at = decode_value(head, at, end)
            if value is None:
                continue
            if key == annotation_names.PARTITION_KEY:
                key_text = text_of(value)
            elif key == annotation_names.DEAD_LETTER_SOURCE:
                source = text_of(value)
            elif key == annotation_names.SCHEDULED_TIME and isinstance(value, int):
                scheduled = int(value) * _US_PER_MS
        if self._keys is not None:
            self._keys.append(key_text)
        if self._sources is not None:
            self._sources.append(source)
        if self._needs_scheduled:
            self.scheduled_us.append(scheduled)

    def _add_no_annotations(self) -> None:
        if self._keys is not None:
            self._keys.append(None)
        if self._sources is not None:
            self._sources.append(None)
        if self._needs_scheduled:
            self.scheduled_us.append(None)


def _place_of(names: list[Text], name: bytes, first: int) -> int:
    """The index of a name from a position on; -1 if it is not there."""
    for place in range(first, len(names)):
        if names[place] == name:
            return place
    return -1
