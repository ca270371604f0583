"""The properties section [3.2.4] as thirteen typed fields.

Owns the names, order and types of the fields and their encoding. Must never look for the section
inside a payload: `partibus.amqp.codec.sections` does, and passes the decoded list. Called where the
bus needs more than the message-id and the group-id, such as rules.
"""

from typing import Final
from uuid import UUID

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import (
    ENCODED_NULL,
    EncodeError,
    encode_binary,
    encode_described_list,
    encode_str,
    encode_symbol,
    encode_uint,
    encode_value,
)
from partibus.amqp.codec.text import text_of
from partibus.amqp.codec.types import Symbol, Timestamp, UInt, ULong

_DESCRIPTOR: Final = 0x73
_FIELD_COUNT: Final = 13
_MESSAGE_ID_TYPES: Final = (str, UUID, ULong, bytes)
TTL_MS_MAX: Final = 0xFFFF_FFFF
"""A uint, the limit of a header; longer times are reduced to it, as the vendor's clients do."""


class MessageProperties:
    """The fields of [3.2.4]; None stands for unset, times are milliseconds since 1970."""

    __slots__ = (
        "absolute_expiry_time_ms",
        "content_encoding",
        "content_type",
        "correlation_id",
        "creation_time_ms",
        "group_id",
        "group_sequence",
        "message_id",
        "reply_to",
        "reply_to_group_id",
        "subject",
        "to",
        "user_id",
    )

    def __init__(
        self,
        *,
        message_id: object = None,
        user_id: bytes | None = None,
        to: str | None = None,
        subject: str | None = None,
        reply_to: str | None = None,
        correlation_id: object = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        absolute_expiry_time_ms: int | None = None,
        creation_time_ms: int | None = None,
        group_id: str | None = None,
        group_sequence: int | None = None,
        reply_to_group_id: str | None = None,
    ) -> None:
        self.message_id = message_id
        self.user_id = user_id
        self.to = to
        self.subject = subject
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.absolute_expiry_time_ms = absolute_expiry_time_ms
        self.creation_time_ms = creation_time_ms
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.reply_to_group_id = reply_to_group_id


def properties_of(fields: list[object]) -> MessageProperties:
    """The decoded list as typed fields; a list may leave out trailing ones [1.4]."""
    if len(fields) > _FIELD_COUNT:
        raise DecodeError(f"the properties have more than {_FIELD_COUNT} fields: {len(fields)}")
    full = fields + [None] * (_FIELD_COUNT - len(fields))
    return MessageProperties(
        message_id=message_id_of("message-id", full[0]),
        user_id=_binary_of("user-id", full[1]),
        to=text_field("to", full[2]),
        subject=text_field("subject", full[3]),
        reply_to=text_field("reply-to", full[4]),
        correlation_id=message_id_of("correlation-id", full[5]),
        content_type=text_field("content-type", full[6]),
        content_encoding=text_field("content-encoding", full[7]),
        absolute_expiry_time_ms=_time_of("absolute-expiry-time", full[8]),
        creation_time_ms=_time_of("creation-time", full[9]),
        group_id=text_field("group-id", full[10]),
        group_sequence=_uint_of("group-sequence", full[11]),
        reply_to_group_id=text_field("reply-to-group-id", full[12]),
    )


def encode_properties(properties: MessageProperties) -> bytes:
    """The whole section; trailing unset fields are left out."""
    fields = [
        _encode_message_id(properties.message_id),
        ENCODED_NULL if properties.user_id is None else encode_binary(properties.user_id),
        _encode_text(properties.to),
        _encode_text(properties.subject),
        _encode_text(properties.reply_to),
        _encode_message_id(properties.correlation_id),
        _encode_word(properties.content_type),
        _encode_word(properties.content_encoding),
        _encode_time(properties.absolute_expiry_time_ms),
        _encode_time(properties.creation_time_ms),
        _encode_text(properties.group_id),
        ENCODED_NULL
        if properties.group_sequence is None
        else encode_uint(properties.group_sequence),
        _encode_text(properties.reply_to_group_id),
    ]
    while fields and fields[-1] == ENCODED_NULL:
        fields.pop()
    return encode_described_list(_DESCRIPTOR, fields)


def life_of(ttl_ms: int, properties: MessageProperties) -> int:
    """The time to live of a message whose header has `ttl_ms`; negative when there is none.

    A header is limited to 49 days. A longer time is given by the difference of the two times, as
    the vendor's clients do.
    """
    created_ms, expires_ms = properties.creation_time_ms, properties.absolute_expiry_time_ms
    is_whole = 0 <= ttl_ms < TTL_MS_MAX
    if is_whole or created_ms is None or expires_ms is None or expires_ms <= created_ms:
        return ttl_ms
    return expires_ms - created_ms


# --- one field, from a peer -------------------------------------------------------------------


def message_id_of(name: str, value: object) -> object:
    """A value that may be a message-id: ulong, uuid, binary or string [3.2.11-3.2.14].

    A symbol is read as a string.
    """
    if value is None or type(value) in _MESSAGE_ID_TYPES:
        return value
    if isinstance(value, Symbol):
        return text_of(value)
    raise DecodeError(f"{name} is a {type(value).__name__}, not a ulong, uuid, binary or string")


def text_field(name: str, value: object) -> str | None:
    """A string; a symbol or binary too, since peers confuse them."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return text_of(value)
    raise DecodeError(f"{name} is a {type(value).__name__}, not a string")


def _binary_of(name: str, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise DecodeError(f"{name} is a {type(value).__name__}, not binary")


def _time_of(name: str, value: object) -> int | None:
    if value is None or isinstance(value, Timestamp):
        return value
    raise DecodeError(f"{name} is a {type(value).__name__}, not a timestamp")


def _uint_of(name: str, value: object) -> int | None:
    if value is None or isinstance(value, UInt):
        return value
    raise DecodeError(f"{name} is a {type(value).__name__}, not a uint")


# --- one field, to a peer ---------------------------------------------------------------------


def _encode_message_id(value: object) -> bytes:
    if value is None or type(value) in _MESSAGE_ID_TYPES:
        return encode_value(value)
    raise EncodeError(f"a message-id cannot be a {type(value).__name__}")


def _encode_text(value: str | None) -> bytes:
    return ENCODED_NULL if value is None else encode_str(value)


def _encode_word(value: str | None) -> bytes:
    return ENCODED_NULL if value is None else encode_symbol(value)


def _encode_time(value: int | None) -> bytes:
    return ENCODED_NULL if value is None else encode_value(Timestamp(value))
