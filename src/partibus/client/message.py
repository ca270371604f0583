"""Messages as a program wants them: fields by name, and their encoding both ways.

Owns the conversion between a message's fields (id, session, subject, time to live ...) and its
sections [3.2]. It must never send anything or validate a value: the bus does. Called by tools that
write or read messages one by one; benchmarks keep to the encoded form.
"""

import time
import uuid
from dataclasses import dataclass, field
from typing import Final, Literal

from partibus.amqp.codec import sections
from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.encode import encode_binary, encode_symbol, encode_value
from partibus.amqp.codec.properties import TTL_MS_MAX, life_of
from partibus.amqp.codec.section_walk import read_descriptor
from partibus.amqp.codec.text import text_of
from partibus.amqp.codec.types import Timestamp
from partibus.domain import annotations as annotation_names
from partibus.domain.annotations import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON

PRIORITY: Final = 4  # [3.2.1]
BATCH_FORMAT: Final = 0x80013700
"""The message-format of a batch envelope (amqp-contract 4.3)."""
DEAD_LETTER_PROPERTIES: Final = (DEAD_LETTER_REASON, DEAD_LETTER_DESCRIPTION)
STATES: Final = ("active", "deferred", "scheduled")
BodyType = Literal["data", "value", "sequence"]


@dataclass(slots=True, kw_only=True)
class OutgoingMessage:
    """A message to send; None leaves a field to the bus."""

    body: object = b""
    body_type: BodyType = "data"
    message_id: str | None = None
    subject: str | None = None
    content_type: str | None = None
    correlation_id: str | None = None
    session_id: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    to: str | None = None
    partition_key: str | None = None
    time_to_live_ms: int | None = None
    scheduled_ms: int | None = None
    properties: dict[str, object] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The message's sections; the bus adds an id if there is none."""
        head = b""
        if self.time_to_live_ms is not None:
            head = sections.encode_header(True, PRIORITY, self.time_to_live_ms, 0)
        return (
            head
            + self._annotations()
            + self._properties()
            + sections.encode_application_properties(self.properties)
            + encode_body(self.body, self.body_type)
        )

    def _annotations(self) -> bytes:
        items: dict[str, object] = {}
        if self.partition_key is not None:
            items[annotation_names.PARTITION_KEY] = self.partition_key
        if self.scheduled_ms is not None:
            items[annotation_names.SCHEDULED_TIME] = Timestamp(self.scheduled_ms)
        pairs = b"".join(encode_symbol(k) + encode_value(v) for k, v in items.items())
        return sections.encode_annotations(pairs, len(items))

    def _properties(self) -> bytes:
        properties = sections.MessageProperties(
            message_id=self.message_id,
            to=self.to,
            subject=self.subject,
            reply_to=self.reply_to,
            correlation_id=self.correlation_id,
            content_type=self.content_type,
            group_id=self.session_id,
            reply_to_group_id=self.reply_to_session_id,
        )
        life_ms = self.time_to_live_ms
        if life_ms is not None and life_ms >= TTL_MS_MAX:
            properties.creation_time_ms = time.time_ns() // 1_000_000
            properties.absolute_expiry_time_ms = properties.creation_time_ms + life_ms
        return sections.encode_properties(properties)


def encode_body(body: object, body_type: BodyType) -> bytes:
    """The body sections [3.2.6-3.2.8]."""
    if body_type == "value":
        return bytes((0x00, 0x53, sections.AMQP_VALUE)) + encode_value(body)
    if body_type == "sequence":
        return bytes((0x00, 0x53, sections.AMQP_SEQUENCE)) + encode_value(body)
    assert isinstance(body, bytes), "a data body is bytes"
    return bytes((0x00, 0x53, sections.DATA)) + encode_binary(body)


def encode_batch(first: OutgoingMessage, encoded: list[bytes]) -> bytes:
    """An envelope of BATCH_FORMAT around messages; its id, session and key are the first's."""
    hints = OutgoingMessage(
        message_id=first.message_id, session_id=first.session_id, partition_key=first.partition_key
    )
    inner = b"".join(encode_body(message, "data") for message in encoded)
    return hints._annotations() + hints._properties() + inner


class IncomingMessage:
    """A message as received. What the bus wrote is in `annotations`, by their wire names."""

    __slots__ = ("_payload", "_sections", "annotations", "lock_token", "properties")

    def __init__(self, payload: bytes, lock_token: uuid.UUID | None = None) -> None:
        self._payload = payload
        self._sections: sections.MessageSections = sections.parse_sections(payload)
        self.annotations = sections.annotation_items(self._sections)
        self.properties: sections.MessageProperties = sections.decode_properties(
            payload, self._sections
        )
        self.lock_token = lock_token

    @property
    def encoded(self) -> bytes:
        """The message as received."""
        return self._payload

    @property
    def application_properties(self) -> dict[str, object]:
        return sections.decode_application_properties(self._payload, self._sections)

    @property
    def sequence_number(self) -> int:
        return self._number(annotation_names.SEQUENCE_NUMBER) or 0

    @property
    def enqueued_ms(self) -> int | None:
        return self._number(annotation_names.ENQUEUED_TIME)

    @property
    def scheduled_ms(self) -> int | None:
        return self._number(annotation_names.SCHEDULED_TIME)

    @property
    def locked_until_ms(self) -> int | None:
        return self._number(annotation_names.LOCKED_UNTIL)

    @property
    def partition_key(self) -> str | None:
        return self._text(annotation_names.PARTITION_KEY)

    @property
    def dead_letter_source(self) -> str | None:
        return self._text(annotation_names.DEAD_LETTER_SOURCE)

    @property
    def state(self) -> str:
        number = self._number(annotation_names.MESSAGE_STATE) or 0
        return STATES[number] if 0 <= number < len(STATES) else str(number)

    @property
    def delivery_count(self) -> int:
        return self._sections.delivery_count

    @property
    def time_to_live_ms(self) -> int | None:
        life_ms = life_of(self._sections.ttl_ms, self.properties)
        return life_ms if life_ms >= 0 else None

    def body(self) -> tuple[BodyType, object]:
        """What the sender put in: bytes, one value, or a list of values. A body that cannot be
        decoded, which the bus stores unread, is the bytes of its sections."""
        found: list[object] = []
        body_type: BodyType = "data"
        at, end = self._sections.body_offset, self._sections.bare_end
        while 0 <= at < end:
            section, value_at = read_descriptor(self._payload, at, end)
            if section == sections.FOOTER:
                break
            try:
                value, at = decode_value(self._payload, value_at, end)
            except DecodeError:
                return "data", bytes(self._payload[self._sections.body_offset : end])
            if section == sections.AMQP_VALUE:
                return "value", value
            body_type = "sequence" if section == sections.AMQP_SEQUENCE else "data"
            found.append(value)
        if body_type == "sequence":
            return body_type, [item for part in found if isinstance(part, list) for item in part]
        return body_type, b"".join(part for part in found if isinstance(part, bytes))

    def resent(
        self,
        message_id: str | None = None,
        *,
        properties: dict[str, object] | None = None,
        body: bytes | None = None,
        partition_key: str | None = None,
        scheduled_ms: int | None = None,
    ) -> bytes:
        """The message to send again: as it was, except for the given changes.

        What the bus wrote is left out: numbers, times, and why it was dead-lettered. The time to
        live starts again.
        """
        fields = self.properties
        life_ms = self.time_to_live_ms
        if life_ms is None or life_ms < TTL_MS_MAX:
            # A longer one is given by these two.
            fields.absolute_expiry_time_ms = fields.creation_time_ms = None
        if message_id is not None:
            fields.message_id = message_id
        head = b""
        if life_ms is not None:
            head = sections.encode_header(True, PRIORITY, life_ms, 0)
        notes = OutgoingMessage(
            partition_key=self.partition_key if partition_key is None else partition_key,
            scheduled_ms=scheduled_ms,
        )
        end = self._sections.bare_end
        at = self._sections.body_offset if self._sections.body_offset >= 0 else end
        return (
            head
            + notes._annotations()
            + sections.encode_properties(fields)
            + sections.encode_application_properties(
                self.own_properties() if properties is None else properties
            )
            + (self._payload[at:end] if body is None else encode_body(body, "data"))
        )

    def own_properties(self) -> dict[str, object]:
        """The application properties without the dead-letter reason and description."""
        return {
            name: value
            for name, value in self.application_properties.items()
            if name not in DEAD_LETTER_PROPERTIES
        }

    def _number(self, name: str) -> int | None:
        value = self.annotations.get(name)
        return int(value) if isinstance(value, int) else None

    def _text(self, name: str) -> str | None:
        return text_of(self.annotations.get(name))
