"""The annotations that come with a message from its sender.

Owns which of them a sender may set, what the bus reads in them (when the message is due, and its
key), and the types in which they are stored: clients write the same key as string, symbol or
binary, and every receiver gets a string. Used by the envelope for each message that has such
annotations. Hot, and compiled.
"""

from typing import Final

from partibus.amqp.codec.decode import decode_value, skip_value
from partibus.amqp.codec.encode import encode_symbol, encode_value
from partibus.amqp.codec.sections import (
    MessageSections,
    delivery_annotation_pairs,
    encode_delivery_annotations,
)
from partibus.amqp.codec.text import text_of
from partibus.amqp.codec.types import Timestamp
from partibus.domain import annotations
from partibus.domain.errors import ArgumentError
from partibus.domain.moments import checked_moment

_BROKER_ANNOTATIONS: Final = frozenset(
    (
        annotations.ENQUEUED_TIME,
        annotations.SEQUENCE_NUMBER,
        annotations.ENQUEUE_SEQUENCE_NUMBER,
        annotations.LOCKED_UNTIL,
        annotations.LOCK_TOKEN,
        annotations.MESSAGE_STATE,
        annotations.PARTITION_ID,
        annotations.DEAD_LETTER_SOURCE,
    )
)
"""Set by the broker alone; a sender's values are ignored (MSG-2)."""
DELIVERY_TIME: Final = "x-opt-delivery-time"
"""Where a JMS client puts the due time of a message (JMS-8)."""
_TEXT_ANNOTATIONS: Final = (annotations.PARTITION_KEY, annotations.VIA_PARTITION_KEY)
PARTITION_KEY_LENGTH_MAX: Final = 128
"""MSG-2."""


def sender_annotations(pairs: bytes, count: int) -> tuple[bytes, int, int, str | None]:
    """The annotations that a sender may set, the due time of the message, and its key."""
    kept: list[bytes] = []
    scheduled_ms = 0
    partition_key: str | None = None
    is_same = True
    at = 0
    end = len(pairs)
    while at < end:
        key, value_at = decode_value(pairs, at, end)
        value, next_at = decode_value(pairs, value_at, end)
        if key == annotations.SCHEDULED_TIME and isinstance(value, int):
            scheduled_ms = max(
                0, checked_moment(f"annotation '{annotations.SCHEDULED_TIME}'", int(value))
            )
        elif key == DELIVERY_TIME and isinstance(value, int) and not scheduled_ms:
            scheduled_ms = max(0, checked_moment(f"annotation '{DELIVERY_TIME}'", int(value)))
        elif key == annotations.PARTITION_KEY and value is not None:
            partition_key = _checked_key(text_of(value) or "")
        if key in _BROKER_ANNOTATIONS:
            is_same = False
        elif _is_as_service_writes(key, value):
            kept.append(pairs[at:next_at])
        else:
            is_same = False
            kept.append(_as_service_writes(key, value))
        at = next_at
    if is_same:
        return pairs, count, scheduled_ms, partition_key
    return b"".join(kept), len(kept), scheduled_ms, partition_key


def _is_as_service_writes(key: object, value: object) -> bool:
    """Whether an annotation that the bus reads has the type that clients expect."""
    if key == annotations.SCHEDULED_TIME:
        return type(value) is Timestamp or not isinstance(value, int)
    return key not in _TEXT_ANNOTATIONS or value is None or type(value) is str


def _as_service_writes(key: object, value: object) -> bytes:
    """The pair in its proper type: the vendor's Python client sends a received key as binary."""
    if isinstance(value, int) and key == annotations.SCHEDULED_TIME:
        return encode_symbol(annotations.SCHEDULED_TIME) + encode_value(Timestamp(value))
    return encode_symbol(str(key)) + encode_value(text_of(value))


def _checked_key(partition_key: str) -> str:
    if len(partition_key) > PARTITION_KEY_LENGTH_MAX:
        raise ArgumentError(
            f"The message's partition key has {len(partition_key)} characters; "
            f"at most {PARTITION_KEY_LENGTH_MAX} are allowed."
        )
    return partition_key


def sender_delivery_annotations(payload: bytes, sections: MessageSections) -> bytes:
    """The delivery annotations that a sender may set, as a section; empty when none is left."""
    pairs, _ = delivery_annotation_pairs(payload, sections)
    kept: list[bytes] = []
    at = 0
    end = len(pairs)
    while at < end:
        key, value_at = decode_value(pairs, at, end)
        next_at = skip_value(pairs, value_at, end)
        if not isinstance(key, str) or key not in _BROKER_ANNOTATIONS:
            kept.append(pairs[at:next_at])
        at = next_at
    return encode_delivery_annotations(b"".join(kept), len(kept))
