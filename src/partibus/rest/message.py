"""A message between HTTP and AMQP: encoded from a request, decoded for a response.

Owns the two conversions. A body sent by HTTP is one data section; of a body received by HTTP
data sections are joined, a text is UTF-8, and any other AMQP value is written as JSON. The
stored form in between is the gateway's (`message.envelope`).
"""

import base64
import json
import uuid
from dataclasses import dataclass

from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.encode import EncodeError, encode_binary, encode_symbol, encode_value
from partibus.amqp.codec.properties import life_of
from partibus.amqp.codec.section_walk import DATA, FOOTER, PRIORITY_DEFAULT, read_descriptor
from partibus.amqp.codec.sections import (
    MessageSections,
    annotation_items,
    decode_application_properties,
    decode_properties,
    encode_annotations,
    encode_application_properties,
    encode_header,
    encode_properties,
    parse_sections,
)
from partibus.amqp.codec.text import text_of
from partibus.amqp.codec.types import Pairs, Timestamp
from partibus.domain import annotations as annotation_names
from partibus.domain.errors import ArgumentError
from partibus.fragment.message import Held
from partibus.message.envelope import to_delivery
from partibus.rest.broker_properties import Broker, SentProperties, write_header


def encode_message(
    body: bytes, properties: SentProperties, application: dict[str, object]
) -> bytes:
    """The AMQP message of a request; raises the error for its sender."""
    try:
        return b"".join(
            (
                encode_header(True, PRIORITY_DEFAULT, properties.ttl_ms, 0),
                _annotations(properties),
                encode_properties(properties.to_amqp()),
                encode_application_properties(application),
                bytes((0x00, 0x53, DATA)),
                encode_binary(body),
            )
        )
    except EncodeError as error:
        raise ArgumentError(f"A property cannot be sent: {error}.") from error
    except UnicodeEncodeError as error:
        raise ArgumentError(
            "The name or the value of a property contains half a surrogate pair; write the "
            "character"
            " as UTF-8 or as both halves."
        ) from error


def _annotations(properties: SentProperties) -> bytes:
    pairs: list[bytes] = []
    if properties.scheduled_ms is not None:
        moment = Timestamp(properties.scheduled_ms)
        pairs.append(encode_symbol(annotation_names.SCHEDULED_TIME) + encode_value(moment))
    for name, value in (
        (annotation_names.PARTITION_KEY, properties.partition_key),
        (annotation_names.VIA_PARTITION_KEY, properties.via_partition_key),
    ):
        if value is not None:
            pairs.append(encode_symbol(name) + encode_value(value))
    return encode_annotations(b"".join(pairs), len(pairs))


@dataclass(slots=True, frozen=True, kw_only=True)
class Received:
    """A message in the form of a response."""

    body: bytes
    content_type: str | None
    message_id: str
    broker_properties: str
    application: dict[str, object]


def decode_message(
    stored: bytes, held: Held, sequence: int, token: uuid.UUID, is_locked: bool
) -> Received:
    """Decode a stored message, with its overlay applied."""
    payload = to_delivery(stored, held, sequence, token.bytes)
    sections = parse_sections(payload)
    properties = decode_properties(payload, sections)
    broker = Broker(
        sequence=sequence,
        # AMQP counts earlier deliveries, this interface counts this one too.
        delivery_count=held.delivery_count + 1,
        enqueued_ms=held.enqueued_ms,
        ttl_ms=life_of(sections.ttl_ms, properties),
        lock_token=token if is_locked else None,
        locked_until_ms=held.locked_until_ms,
    )
    return Received(
        body=_body(payload, sections),
        content_type=properties.content_type,
        message_id=text_of(properties.message_id) or "",
        broker_properties=write_header(properties, annotation_items(sections), broker),
        application=decode_application_properties(payload, sections),
    )


def _body(payload: bytes, sections: MessageSections) -> bytes:
    parts: list[bytes] = []
    values: list[object] = []
    at = sections.body_offset
    while 0 <= at < sections.bare_end:
        section, value_at = read_descriptor(payload, at, sections.bare_end)
        if section == FOOTER:
            break
        try:
            value, at = decode_value(payload, value_at, sections.bare_end)
        except DecodeError:
            # A body is the sender's business: it is stored unread, and returned unchanged.
            return payload[sections.body_offset : sections.bare_end]
        if section == DATA and isinstance(value, bytes):
            parts.append(value)
        else:
            values.append(value)
    if not values:
        return b"".join(parts)
    return _written(values[0] if len(values) == 1 else values)


def _written(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(_plain(value)).encode()


def _plain(value: object) -> object:
    """The closest JSON form of an AMQP value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Pairs):
        return [[_plain(key), _plain(item)] for key, item in value.items]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
