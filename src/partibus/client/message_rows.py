"""Many rows of columns to encoded messages: the reverse of `message_columns`.

Owns the AMQP encoding of a message whose fields are in lists, one for each column, as any sender
would transfer it. A row that cannot be a message raises ValueError, DecodeError or EncodeError with
the reason. Hot, and compiled.
"""

import struct
from typing import Final

from partibus.amqp.codec import encode, sections
from partibus.amqp.codec.decode import decode_value
from partibus.client.message_columns import PROPERTY_FIELDS
from partibus.client.property_text import from_text, typed
from partibus.domain import annotations as annotation_names

PRIORITY: Final = 4  # [3.2.1]
_CONTENT_TYPE: Final = PROPERTY_FIELDS["content_type"]
_NULL: Final = b"\x40"
_DATA_HEAD: Final = bytes((0x00, 0x53, sections.DATA))
_VALUE_HEAD: Final = bytes((0x00, 0x53, sections.AMQP_VALUE))
_SEQUENCE_HEAD: Final = bytes((0x00, 0x53, sections.AMQP_SEQUENCE))
_PROPERTIES_HEAD: Final = bytes((0x00, 0x53, sections.PROPERTIES))
_PARTITION_KEY: Final = encode.encode_symbol(annotation_names.PARTITION_KEY)
_SCHEDULED: Final = encode.encode_symbol(annotation_names.SCHEDULED_TIME)
_TIMESTAMP: Final = struct.Struct(">Bq")
_LIST_CODES: Final = (0x45, 0xC0, 0xD0)

Column = list[object]


class MessageRows:
    """Columns of messages; times are in milliseconds, maps are lists of pairs."""

    def __init__(self, columns: dict[str, Column], properties: list[tuple[str, str]]) -> None:
        self._bodies = columns.get("body")
        self._body_types = columns.get("body_type")
        self._keys = columns.get("partition_key")
        self._scheduled = columns.get("scheduled_enqueue_time")
        self._lives = columns.get("time_to_live_ms")
        self._texts = columns.get("application_properties")
        self._types = columns.get("application_property_types")
        self._fields: list[Column | None] = [None] * (1 + max(PROPERTY_FIELDS.values()))
        for name, number in PROPERTY_FIELDS.items():
            self._fields[number] = columns.get(name)
        self._properties = [(name, kind, columns[name]) for name, kind in properties]

    def encode(self, row: int, message_id: str | None) -> bytes:
        """Encode the message of a row, under its own id or another."""
        head = b""
        if self._lives is not None:
            life = self._lives[row]
            if isinstance(life, int):
                if life < 0:
                    raise ValueError(f"time_to_live_ms is {life}; it must not be negative")
                head = sections.encode_header(True, PRIORITY, life, 0)
        if self._keys is not None or self._scheduled is not None:
            head += self._annotations(row)
        head += self._field_section(row, message_id)
        if self._texts is not None or self._properties:
            head += sections.encode_application_properties(self._property_values(row))
        return head + self._body(row)

    def _annotations(self, row: int) -> bytes:
        pairs = b""
        count = 0
        if self._keys is not None:
            key = self._keys[row]
            if isinstance(key, str):
                pairs = _PARTITION_KEY + encode.encode_str(key)
                count = 1
        if self._scheduled is not None:
            moment_ms = self._scheduled[row]
            if isinstance(moment_ms, int):
                pairs += _SCHEDULED + _TIMESTAMP.pack(0x83, moment_ms)
                count += 1
        return sections.encode_annotations(pairs, count)

    def _field_section(self, row: int, message_id: str | None) -> bytes:
        parts: list[bytes] = []
        count = 0
        for number, values in enumerate(self._fields):
            value = None if values is None else values[row]
            if number == 0 and message_id is not None:
                value = message_id
            if isinstance(value, str):
                is_symbol = number == _CONTENT_TYPE
                parts.append(encode.encode_symbol(value) if is_symbol else encode.encode_str(value))
                count = number + 1
            else:
                parts.append(_NULL)
        if count == 0:
            return b""
        return _PROPERTIES_HEAD + encode.encode_compound(0xC0, count, b"".join(parts[:count]))

    def _property_values(self, row: int) -> dict[str, object]:
        found: dict[str, object] = {}
        if self._texts is not None:
            texts = self._texts[row]
            if isinstance(texts, list) and texts:
                given = None if self._types is None else self._types[row]
                types = dict(given) if isinstance(given, list) else {}
                for name, text in texts:
                    found[name] = from_text(text, types.get(name))
        for name, kind, values in self._properties:
            value = values[row]
            if value is not None:
                found[name] = typed(value, kind)
        return found

    def _body(self, row: int) -> bytes:
        body = None if self._bodies is None else self._bodies[row]
        kind = None if self._body_types is None else self._body_types[row]
        if isinstance(body, str):
            body = body.encode()
        if kind is None or kind == "data":
            return _DATA_HEAD + encode.encode_binary(body if isinstance(body, bytes) else b"")
        if kind != "value" and kind != "sequence":
            raise ValueError(f"body_type is '{kind}'; expected data, value or sequence")
        raw = body if isinstance(body, bytes) else encode.encode_value(None)
        _, end = decode_value(raw, 0, len(raw))
        if end != len(raw):
            raise ValueError("body holds more than one value")
        if kind == "value":
            return _VALUE_HEAD + raw
        if raw[0] not in _LIST_CODES:
            raise ValueError("body is not a list, which body_type=sequence needs")
        return _SEQUENCE_HEAD + raw
