"""A message between the wire and the store: its stored form, and its form on delivery.

Owns the few things the bus changes about a message: on the way in it drops the header and
the annotations that only the broker may set, and gives an id to what has none; on the way
out it writes header and annotations anew and lays changed properties over. The bare message
goes through as it came, byte for byte, and the body is never read (architecture: the message
stays in its encoded sections). Hot in both directions.
"""

import struct
import uuid
from typing import Final

from partibus.amqp.decode import DecodeError, decode_value
from partibus.amqp.encode import encode_symbol, encode_value
from partibus.amqp.sections import (
    MessageSections,
    decode_application_properties,
    decode_properties,
    encode_application_properties,
    encode_header,
    encode_properties,
    parse_sections,
)
from partibus.domain.errors import ArgumentError, InvalidOperation, MalformedMessage
from partibus.domain.limits import HEADER_BYTES_MAX, MESSAGE_ID_LENGTH_MAX, PROPERTY_BYTES_MAX
from partibus.fragment.message import Held, NewMessage, Overlay
from partibus.gateway import lifetime

STORED_VERSION: Final = 1
FORWARDED_VERSION: Final = 2
"""A message that came from another entity, or a copy that a rule's action has changed: where it
came from stands behind the prefix."""
_PREFIX: Final = struct.Struct(">BBBHIII")
"""version, durable, priority, annotation count, annotation bytes, time to live (a word of
`lifetime`), bytes of header and properties."""
_PREFIX_BYTES: Final = _PREFIX.size
_JOURNEY: Final = struct.Struct(">QB")
"""The number it had first (0: none yet), and how often it was forwarded."""
_FORWARDED_PREFIX_BYTES: Final = _PREFIX_BYTES + _JOURNEY.size

DEAD_LETTER_SOURCE: Final = "x-opt-deadletter-source"
_BROKER_ANNOTATIONS: Final = frozenset(
    (
        "x-opt-enqueued-time",
        "x-opt-sequence-number",
        "x-opt-enqueue-sequence-number",
        "x-opt-locked-until",
        "x-opt-lock-token",
        "x-opt-message-state",
        "x-opt-partition-id",
        DEAD_LETTER_SOURCE,
    )
)
"""Set by the broker alone; a sender's values are ignored (MSG-2)."""
SCHEDULED: Final = "x-opt-scheduled-enqueue-time"
PARTITION_KEY: Final = "x-opt-partition-key"
PARTITION_KEY_LENGTH_MAX: Final = 128
"""MSG-2."""


def _pair_head(key: str, constructor: int) -> bytes:
    return encode_symbol(key) + bytes((constructor,))


_SEQUENCE_KEY: Final = _pair_head("x-opt-sequence-number", 0x81)
_ENQUEUE_SEQUENCE_KEY: Final = _pair_head("x-opt-enqueue-sequence-number", 0x81)
_ENQUEUED_KEY: Final = _pair_head("x-opt-enqueued-time", 0x83)
_LOCKED_KEY: Final = _pair_head("x-opt-locked-until", 0x83)
_STATE_KEY: Final = _pair_head("x-opt-message-state", 0x54)
_UNLOCKED: Final = struct.Struct(
    f">{len(_SEQUENCE_KEY)}sQ{len(_ENQUEUE_SEQUENCE_KEY)}sQ{len(_ENQUEUED_KEY)}sQ"
)
_LOCKED: Final = struct.Struct(
    f">{len(_SEQUENCE_KEY)}sQ{len(_ENQUEUE_SEQUENCE_KEY)}sQ{len(_ENQUEUED_KEY)}sQ"
    f"{len(_LOCKED_KEY)}sQ"
)
_LOCK_TOKEN_SECTION: Final = (
    b"\x00\x53\x71\xc1\x24\x02" + encode_symbol("x-opt-lock-token") + b"\x98"
)
"""Delivery annotations with the lock token as their only entry: 0x24 bytes follow the size."""
_NO_DELIVERY_ANNOTATIONS: Final = b"\x00\x53\x71\xc1\x01\x00"
_PLAIN_HEADERS: Final[dict[int, bytes]] = {}


# --- stored -----------------------------------------------------------------------------------


class Stored:
    """A stored message taken apart, for the few who read or change one that is not new."""

    __slots__ = (
        "_prefix",
        "annotation_count",
        "annotations",
        "bare",
        "first_sequence",
        "head_bytes",
        "hops",
        "ttl_ms",
        "version",
    )

    def __init__(self, body: bytes) -> None:
        version, durable, priority, count, size, word, head_bytes = _PREFIX.unpack_from(body)
        self.version: int = version
        self._prefix: tuple[int, int] = (durable, priority)
        self.first_sequence = self.hops = 0
        annotations_at = _PREFIX_BYTES
        if version == FORWARDED_VERSION:
            self.first_sequence, self.hops = _JOURNEY.unpack_from(body, _PREFIX_BYTES)
            annotations_at = _FORWARDED_PREFIX_BYTES
        self.annotation_count: int = count
        self.annotations = body[annotations_at : annotations_at + size]
        """The sender's annotations, as encoded pairs."""
        self.head_bytes: int = head_bytes
        """The size of header and properties (MSG-4)."""
        self.bare = body[annotations_at + size :]
        self.ttl_ms = lifetime.stored_ms(word, self.bare)
        """-1 when the sender asked for none; a long one is said by the times of `bare` too."""

    def came_from(self, sequence: int) -> None:
        """From here on it remembers the number it had first, which is this unless it has one."""
        self.version = FORWARDED_VERSION
        self.first_sequence = self.first_sequence or sequence

    def encode(self) -> bytes:
        """The stored form again."""
        prefix = _PREFIX.pack(
            self.version,
            *self._prefix,
            self.annotation_count,
            len(self.annotations),
            lifetime.word_of(self.ttl_ms),
            self.head_bytes,
        )
        if self.version == FORWARDED_VERSION:
            prefix += _JOURNEY.pack(self.first_sequence, self.hops)
        return prefix + self.annotations + self.bare


def hops_of(stored: bytes) -> int:
    """How often a stored message was sent on."""
    if stored[0] != FORWARDED_VERSION:
        return 0
    hops: int = _JOURNEY.unpack_from(stored, _PREFIX_BYTES)[1]
    return hops


# --- in ---------------------------------------------------------------------------------------


def to_stored(payload: bytes, is_identified: bool = False) -> NewMessage:
    """The message as it will be stored; raises what its sender is to be told.

    Where duplicates are detected it `is_identified` by its id, and nowhere else (SEED-37)."""
    try:
        return _to_stored(payload, is_identified)
    except DecodeError as cause:
        raise MalformedMessage(
            f"The message is not well-formed AMQP: {cause}. Re-encode and send it again."
        ) from cause


def _to_stored(payload: bytes, is_identified: bool) -> NewMessage:
    sections = parse_sections(payload)
    pairs = sections.annotation_pairs
    count = sections.annotation_count
    scheduled_ms = 0
    partition_key: str | None = None
    if count and b"x-opt-" in pairs:
        pairs, count, scheduled_ms, partition_key = _sender_annotations(pairs, count)
    ttl_ms = sections.ttl_ms
    if sections.expiry_offset >= 0 or ttl_ms == lifetime.WORD_FOREVER:
        ttl_ms = lifetime.asked_ms(ttl_ms, decode_properties(payload, sections))
    bare = _bare_message(payload, sections, ttl_ms)
    session_id: str | None = None
    at = sections.group_id_offset
    if at >= 0 and payload[at] != 0x40:
        session_id = _session_id(payload, at, partition_key)
    prefix = _PREFIX.pack(
        STORED_VERSION,
        sections.durable,
        sections.priority,
        count,
        len(pairs),
        lifetime.word_of(ttl_ms),
        sections.body_offset if sections.body_offset >= 0 else sections.bare_end,
    )
    message_id = text_at(payload, sections.message_id_offset) if is_identified else None
    body = prefix + pairs + bare
    # An empty id says as little as none.
    return NewMessage(body, ttl_ms, scheduled_ms, session_id, partition_key, message_id or None)


def text_at(payload: bytes, at: int) -> str | None:
    """An id at an offset, as text; None when it is not there."""
    if at < 0 or payload[at] == 0x40:
        return None
    value, _ = decode_value(payload, at, len(payload))
    return value.hex() if isinstance(value, bytes) else str(value)


def _session_id(payload: bytes, at: int, partition_key: str | None) -> str:
    """The session id; a partition key beside it must be the same (SEED-33)."""
    value, _ = decode_value(payload, at, len(payload))
    session_id = str(value)
    if partition_key is not None and partition_key != session_id:
        raise InvalidOperation(
            f"The partition key '{partition_key}' differs from the session id '{session_id}'; "
            "set one of them, or both to the same value."
        )
    return session_id


def _bare_message(payload: bytes, sections: MessageSections, life_ms: int) -> bytes:
    head_end = sections.body_offset if sections.body_offset >= 0 else sections.bare_end
    if head_end > HEADER_BYTES_MAX:
        raise ArgumentError(
            f"The message's header and properties take {head_end} bytes; "
            f"{HEADER_BYTES_MAX} are allowed (MSG-4). Move what is large into the body."
        )
    if sections.has_nested_property:
        raise ArgumentError(
            "An application property is a list, map or array; only simple values are allowed "
            "(text, numbers, booleans, times, ids, bytes). Put it into the body."
        )
    if sections.application_end - sections.application_offset > PROPERTY_BYTES_MAX:
        _check_properties(payload, sections)
    if sections.has_long_property:
        _check_ids(payload, sections)
    at = sections.message_id_offset
    if at < 0 or payload[at] == 0x40 or sections.expiry_offset >= 0:
        return _with_properties(payload, sections, life_ms)
    return payload[sections.bare_offset : sections.bare_end]


def _check_properties(payload: bytes, sections: MessageSections) -> None:
    for key, value in decode_application_properties(payload, sections).items():
        size = len(encode_value(value))
        if size > PROPERTY_BYTES_MAX:
            raise ArgumentError(
                f"The application property '{key}' takes {size} bytes; {PROPERTY_BYTES_MAX} "
                "are allowed (MSG-4). Put it into the body."
            )


def _check_ids(payload: bytes, sections: MessageSections) -> None:
    properties = decode_properties(payload, sections)
    for name, value in (
        ("id", properties.message_id),
        ("group-id (SessionId)", properties.group_id),
        ("reply-to-group-id (ReplyToSessionId)", properties.reply_to_group_id),
    ):
        if isinstance(value, str | bytes) and len(value) > MESSAGE_ID_LENGTH_MAX:
            raise ArgumentError(
                f"The message's {name} has {len(value)} characters; {MESSAGE_ID_LENGTH_MAX} "
                "are allowed."
            )


def _with_properties(payload: bytes, sections: MessageSections, life_ms: int) -> bytes:
    """Properties written anew: an id where there is none, and no expiry but that of a long life.

    Clients that send no id still settle by it; when a message expires is the broker's to say.
    """
    properties = decode_properties(payload, sections)
    lifetime.keep(properties, life_ms, 0)
    if properties.message_id is None:
        properties.message_id = uuid.uuid4().hex
    start = sections.properties_end if sections.properties_end >= 0 else sections.bare_offset
    return encode_properties(properties) + payload[start : sections.bare_end]


def _sender_annotations(pairs: bytes, count: int) -> tuple[bytes, int, int, str | None]:
    """The annotations that a sender may set, when the message is due, and its key."""
    kept: list[bytes] = []
    scheduled_ms = 0
    partition_key: str | None = None
    at = 0
    end = len(pairs)
    while at < end:
        key, value_at = decode_value(pairs, at, end)
        value, next_at = decode_value(pairs, value_at, end)
        if key == SCHEDULED and isinstance(value, int):
            scheduled_ms = max(0, int(value))
        elif key == PARTITION_KEY and value is not None:
            partition_key = _checked_key(str(value))
        if key not in _BROKER_ANNOTATIONS:
            kept.append(pairs[at:next_at])
        at = next_at
    if len(kept) == count:
        return pairs, count, scheduled_ms, partition_key
    return b"".join(kept), len(kept), scheduled_ms, partition_key


def _checked_key(partition_key: str) -> str:
    if len(partition_key) > PARTITION_KEY_LENGTH_MAX:
        raise ArgumentError(
            f"The message's partition key has {len(partition_key)} characters; "
            f"{PARTITION_KEY_LENGTH_MAX} are allowed."
        )
    return partition_key


# --- a copy that differs from its original -----------------------------------------------------


# --- out --------------------------------------------------------------------------------------


def to_delivery(stored: bytes, held: Held, sequence: int, lock_token: bytes) -> bytes:
    """The message as a receiver gets it; `lock_token` is empty in receive-and-delete."""
    if lock_token:
        own = _LOCKED.pack(
            _SEQUENCE_KEY,
            sequence,
            _ENQUEUE_SEQUENCE_KEY,
            sequence if stored[0] == STORED_VERSION else _first_sequence(stored, sequence),
            _ENQUEUED_KEY,
            held.enqueued_ms,
            _LOCKED_KEY,
            held.locked_until_ms,
        )
        count, delivery_annotations = 4, _LOCK_TOKEN_SECTION + lock_token
    else:
        own = _unlocked(stored, held, sequence)
        count, delivery_annotations = 3, _NO_DELIVERY_ANNOTATIONS
    if held.state:
        # Active is what a message is that says nothing (MSG-2).
        own += _STATE_KEY + bytes((held.state,))
        count += 1
    return _encode(stored, held, delivery_annotations, own, count)


def to_peeked(stored: bytes, held: Held, sequence: int) -> bytes:
    """The message as one who peeks gets it: no lock, but its state (PEK-1, MSG-2)."""
    own = _unlocked(stored, held, sequence) + _STATE_KEY + bytes((held.state,))
    return _encode(stored, held, _NO_DELIVERY_ANNOTATIONS, own, 4)


def _first_sequence(stored: bytes, sequence: int) -> int:
    """The number under which a forwarded message was first enqueued (FWD-9)."""
    first: int = _JOURNEY.unpack_from(stored, _PREFIX_BYTES)[0]
    return first or sequence


def _unlocked(stored: bytes, held: Held, sequence: int) -> bytes:
    return _UNLOCKED.pack(
        _SEQUENCE_KEY,
        sequence,
        _ENQUEUE_SEQUENCE_KEY,
        sequence if stored[0] == STORED_VERSION else _first_sequence(stored, sequence),
        _ENQUEUED_KEY,
        held.enqueued_ms,
    )


def _encode(
    stored: bytes, held: Held, delivery_annotations: bytes, own: bytes, own_count: int
) -> bytes:
    """Header, annotations and the bare message, with what has changed laid over."""
    version, durable, priority, count, pair_bytes, word, _ = _PREFIX.unpack_from(stored)
    pairs_at = _PREFIX_BYTES if version == STORED_VERSION else _FORWARDED_PREFIX_BYTES
    bare_at = pairs_at + pair_bytes
    bare = stored[bare_at:]
    life_ms = lifetime.FOREVER
    if held.expires_ms:
        life_ms = held.expires_ms - held.enqueued_ms
    elif word != lifetime.WORD_FOREVER:
        life_ms = lifetime.stored_ms(word, bare)
    if life_ms < 0:
        header = _plain_header(durable, priority, held.delivery_count)
    else:
        header = encode_header(bool(durable), priority, life_ms, held.delivery_count)
    annotations = _annotations(own, own_count, stored[pairs_at:bare_at], count)
    if held.overlay is not None or life_ms >= 0:
        bare = changed(bare, held.overlay, life_ms, held.enqueued_ms)
    return b"".join((header, delivery_annotations, annotations, bare))


def _annotations(own: bytes, own_count: int, pairs: bytes, count: int) -> bytes:
    """Message annotations: the broker's own pairs, then the sender's as they came."""
    size = len(own) + len(pairs) + 1
    items = 2 * (own_count + count)
    if size < 256 and items < 256:
        return b"\x00\x53\x72\xc1" + bytes((size, items)) + own + pairs
    return b"\x00\x53\x72\xd1" + struct.pack(">II", size + 3, items) + own + pairs


def _plain_header(durable: int, priority: int, delivery_count: int) -> bytes:
    key = delivery_count << 9 | priority << 1 | durable
    header = _PLAIN_HEADERS.get(key)
    if header is None:
        header = encode_header(bool(durable), priority, -1, delivery_count)
        if len(_PLAIN_HEADERS) < 4096:
            _PLAIN_HEADERS[key] = header
    return header


def changed(
    bare: bytes, overlay: Overlay | None, life_ms: int = lifetime.FOREVER, enqueued_ms: int = 0
) -> bytes:
    """The bare message with its times made right and changed properties laid over."""
    sections = parse_sections(bare)
    properties = decode_properties(bare, sections)
    if life_ms >= 0:
        lifetime.tell(properties, life_ms, enqueued_ms)
    out = encode_properties(properties)
    application = decode_application_properties(bare, sections)
    if overlay is not None:
        lay_over(application, overlay)
    if application:
        out += encode_application_properties(application)
    rest = max(sections.properties_end, sections.application_end, 0)
    return out + bare[rest:]


def header_bytes(stored: bytes, held: Held) -> int:
    """What a message's header and properties take, with what was laid over since (MSG-4)."""
    size: int = _PREFIX.unpack_from(stored)[6]
    return size if held.overlay is None else size + len(held.overlay.properties)


def lay_over(application: dict[str, object], overlay: Overlay) -> None:
    """Apply changed properties, then the dead-letter reason (LCK-10, DLQ-5)."""
    at = 0
    end = len(overlay.properties)
    while at < end:
        key, at = decode_value(overlay.properties, at, end)
        value, at = decode_value(overlay.properties, at, end)
        application[str(key)] = value
    if overlay.reason is not None:
        application["DeadLetterReason"] = overlay.reason
    if overlay.description is not None:
        application["DeadLetterErrorDescription"] = overlay.description


def overlay_pairs(properties: dict[str, object]) -> bytes:
    """Changed properties in the encoding that `lay_over` reads."""
    return b"".join(encode_value(str(k)) + encode_value(v) for k, v in properties.items())
