"""A message between the wire and the store: its stored form, and its form on delivery.

Owns the few things the bus changes about a message: on arrival it drops the header and the
annotations that only the broker may set, and adds an id if there is none; on delivery it writes a
new header and annotations and applies changed properties. The bare message is passed on byte for
byte, and the body is never read (architecture: the message stays in its encoded sections). Hot in
both directions.
"""

import struct
import uuid
from typing import Final

from partibus.amqp.codec import section_walk
from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.encode import ENCODED_NULL, encode_symbol, encode_uint, encode_value
from partibus.amqp.codec.properties import TTL_MS_MAX
from partibus.amqp.codec.sections import (
    MessageSections,
    decode_application_properties,
    decode_properties,
    delivery_annotation_pairs,
    encode_delivery_annotations,
    encode_properties,
    parse_sections,
)
from partibus.amqp.codec.soundness import require_sound_message
from partibus.amqp.codec.text import text_of
from partibus.amqp.framing import VIEW_BYTES_MIN
from partibus.domain import annotations as annotation_names
from partibus.domain.errors import ArgumentError, InvalidOperation, MalformedMessage
from partibus.domain.limits import HEADER_BYTES_MAX, MESSAGE_ID_LENGTH_MAX, PROPERTY_BYTES_MAX
from partibus.domain.moments import checked_moment
from partibus.fragment.message import Held, NewMessage
from partibus.message import lifetime
from partibus.message.decimals import with_vendor_decimals
from partibus.message.overlay import changed
from partibus.message.sender_annotations import sender_annotations, sender_delivery_annotations

STORED_VERSION: Final = 1
FORWARDED_VERSION: Final = 2
"""Of a forwarded message, or of a copy that a rule has changed: its origin follows the prefix."""
PREFIX: Final = struct.Struct(">BBBHIII")
"""version, flags, priority, annotation count, annotation bytes, time to live (a word of
`lifetime`), bytes of header and properties."""
_DURABLE: Final = 1
_ANNOTATED: Final = 2
"""Flag: the sender's delivery annotations are a section after the bare message. The other flags say
which fields of the header the sender left unset, like `MessageSections.header_flags`."""
_BOOLEANS: Final = (b"\x42", b"\x41")
PREFIX_BYTES: Final = PREFIX.size
_HOP: Final = struct.Struct(">QB")
"""Its first sequence number (0: none yet), and how often it was forwarded."""
_FORWARDED_PREFIX_BYTES: Final = PREFIX_BYTES + _HOP.size


def _pair_head(key: str, constructor: int) -> bytes:
    return encode_symbol(key) + bytes((constructor,))


_SEQUENCE_KEY: Final = _pair_head(annotation_names.SEQUENCE_NUMBER, 0x81)
_ENQUEUE_SEQUENCE_KEY: Final = _pair_head(annotation_names.ENQUEUE_SEQUENCE_NUMBER, 0x81)
_ENQUEUED_KEY: Final = _pair_head(annotation_names.ENQUEUED_TIME, 0x83)
_LOCKED_KEY: Final = _pair_head(annotation_names.LOCKED_UNTIL, 0x83)
_STATE_KEY: Final = _pair_head(annotation_names.MESSAGE_STATE, 0x54)
_UNLOCKED: Final = struct.Struct(f">{len(_SEQUENCE_KEY)}sQ{len(_ENQUEUED_KEY)}sQ")
_LOCKED: Final = struct.Struct(f">{len(_SEQUENCE_KEY)}sQ{len(_ENQUEUED_KEY)}sQ{len(_LOCKED_KEY)}sQ")
_FIRST_SEQUENCE: Final = struct.Struct(">Q")
_LOCK_TOKEN_SECTION: Final = (
    b"\x00\x53\x71\xc1\x24\x02" + encode_symbol(annotation_names.LOCK_TOKEN) + b"\x98"
)
"""Delivery annotations with the lock token as their only entry: 0x24 bytes follow the size."""
_MAP8_COUNT: Final = 5  # in such a section, after descriptor (3), constructor and size
_NO_DELIVERY_ANNOTATIONS: Final = b"\x00\x53\x71\xc1\x01\x00"
_PLAIN_HEADERS: Final[dict[int, bytes]] = {}


# --- stored -----------------------------------------------------------------------------------


class Stored:
    """A parsed stored message, for the few who read or change one that is not new."""

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
        version, flags, priority, count, size, word, head_bytes = PREFIX.unpack_from(body)
        self.version: int = version
        self._prefix: tuple[int, int] = (flags, priority)
        self.first_sequence = self.hops = 0
        annotations_at = PREFIX_BYTES
        if version == FORWARDED_VERSION:
            self.first_sequence, self.hops = _HOP.unpack_from(body, PREFIX_BYTES)
            annotations_at = _FORWARDED_PREFIX_BYTES
        self.annotation_count: int = count
        self.annotations = body[annotations_at : annotations_at + size]
        """The sender's annotations, as encoded pairs."""
        self.head_bytes: int = head_bytes
        """The size of header and properties (MSG-4)."""
        self.bare = body[annotations_at + size :]
        """Followed by the sender's delivery annotations, if there are any."""
        self.ttl_ms = lifetime.stored_ms(word, self.bare)
        """-1 when the sender set none; a long one is given by the times of `bare` too."""

    def came_from(self, sequence: int) -> None:
        """Remember its first sequence number, which is this one unless it has one already."""
        self.version = FORWARDED_VERSION
        self.first_sequence = self.first_sequence or sequence

    def encode(self) -> bytes:
        """Encode it to the stored form."""
        prefix = PREFIX.pack(
            self.version,
            *self._prefix,
            self.annotation_count,
            len(self.annotations),
            lifetime.word_of(self.ttl_ms),
            self.head_bytes,
        )
        if self.version == FORWARDED_VERSION:
            prefix += _HOP.pack(self.first_sequence, self.hops)
        return prefix + self.annotations + self.bare


def hops_of(stored: bytes) -> int:
    """How often a stored message was forwarded."""
    if stored[0] != FORWARDED_VERSION:
        return 0
    hops: int = _HOP.unpack_from(stored, PREFIX_BYTES)[1]
    return hops


# --- in ---------------------------------------------------------------------------------------


def to_stored(
    payload: bytes, is_identified: bool = False, turns_decimals: bool = False
) -> NewMessage:
    """The message as it will be stored; raises the error for its sender.

    It `is_identified` by its id only where duplicates are detected (SEED-37).
    """
    return received_to_stored(payload, 0, len(payload), None, is_identified, turns_decimals)


def received_to_stored(
    payload: bytes,
    start: int,
    end: int,
    rest: list[bytes | memoryview] | None,
    is_identified: bool,
    turns_decimals: bool = False,
) -> NewMessage:
    """The same for a message as received: payload[start:end], and the other frames.

    A large one is copied once, into its stored form.
    """
    try:
        if rest:
            size = end - start + sum([len(piece) for piece in rest])
            first = section_walk.parse_first_frame(payload, start, end, size)
            if first is not None and not (first.has_nested or first.has_unread):
                return _to_stored(payload, start, end, rest, first, is_identified)
            payload = b"".join([memoryview(payload)[start:end], *rest])
            start, end = 0, size
        try:
            sections = parse_sections(payload, start, end)
        except section_walk.SectionOrderError:
            payload = section_walk.in_order(payload[start:end])
            start, end = 0, len(payload)
            sections = parse_sections(payload)
        if sections.has_nested or sections.has_unread:
            require_sound_message(payload, start, end, sections)
            if turns_decimals:
                payload = with_vendor_decimals(payload, sections)
        return _to_stored(payload, start, end, None, sections, is_identified)
    except DecodeError as cause:
        raise MalformedMessage(
            f"The message is not well-formed AMQP: {cause}. Re-encode it and send it again."
        ) from cause


def _to_stored(
    payload: bytes,
    start: int,
    end: int,
    rest: list[bytes | memoryview] | None,
    sections: MessageSections,
    is_identified: bool,
) -> NewMessage:
    pairs = sections.annotation_pairs
    count = sections.annotation_count
    scheduled_ms = 0
    partition_key: str | None = None
    if count and b"x-opt-" in pairs:
        pairs, count, scheduled_ms, partition_key = sender_annotations(pairs, count)
    ttl_ms = sections.ttl_ms
    if sections.expiry_offset >= 0 or ttl_ms == lifetime.WORD_FOREVER:
        ttl_ms = lifetime.asked_ms(ttl_ms, decode_properties(payload, sections))
    head_bytes = _head_end(sections) - start
    _check_head(payload, sections, head_bytes)
    session_id: str | None = None
    at = sections.group_id_offset
    if at >= 0 and payload[at] != 0x40:
        session_id = _session_id(payload, at, partition_key)
    flags = sections.header_flags | (_DURABLE if sections.durable else 0)
    noted = b""
    if sections.delivery_offset >= 0:
        noted = sender_delivery_annotations(payload, sections)
        if noted:
            flags |= _ANNOTATED
    prefix = PREFIX.pack(
        STORED_VERSION,
        flags,
        sections.priority,
        count,
        len(pairs),
        lifetime.word_of(ttl_ms),
        head_bytes,
    )
    message_id = text_at(payload, sections.message_id_offset) if is_identified else None
    bare_at = sections.bare_offset
    if _has_all_properties(payload, sections):
        prefix += pairs
    else:
        prefix += pairs + _new_properties(payload, sections, ttl_ms)
        bare_at = sections.properties_end if sections.properties_end >= 0 else bare_at
    bare_end = sections.bare_end
    if rest:
        body = b"".join([prefix, memoryview(payload)[bare_at:end], *rest, noted])
    elif noted or bare_end - bare_at >= VIEW_BYTES_MIN:
        body = b"".join((prefix, memoryview(payload)[bare_at:bare_end], noted))
    else:
        body = prefix + payload[bare_at:bare_end]
    # An empty id counts as none.
    return NewMessage(body, ttl_ms, scheduled_ms, session_id, partition_key, message_id or None)


def text_at(payload: bytes, at: int) -> str | None:
    """An id at an offset, as text; None when there is none."""
    if at < 0 or payload[at] == 0x40:
        return None
    value, _ = decode_value(payload, at, len(payload))
    return text_of(value)


def _session_id(payload: bytes, at: int, partition_key: str | None) -> str:
    """The session id; a partition key, if set too, must be the same (SEED-33).

    With an empty session id the service accepts any key; the session counts.
    """
    session_id = text_at(payload, at) or ""
    if partition_key is not None and session_id and partition_key != session_id:
        raise InvalidOperation(
            f"The partition key '{partition_key}' differs from the session id '{session_id}'; "
            "set one of them, or both to the same value."
        )
    return session_id


def _check_head(payload: bytes, sections: MessageSections, head_bytes: int) -> None:
    if head_bytes > HEADER_BYTES_MAX:
        raise ArgumentError(
            f"The message's header and properties take {head_bytes} bytes; "
            f"at most {HEADER_BYTES_MAX} are allowed (MSG-4). Move large values into the body."
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


def _has_all_properties(payload: bytes, sections: MessageSections) -> bool:
    """Whether the properties can stay as they are: with an id, no expiry, and a session id that is
    a string."""
    at = sections.message_id_offset
    if at < 0 or payload[at] == 0x40 or sections.expiry_offset >= 0:
        return False
    at = sections.group_id_offset
    return at < 0 or payload[at] == 0x40 or payload[at] & 0xEF == 0xA1


def _head_end(sections: MessageSections) -> int:
    """Where everything but the body would end; delivery annotations may follow."""
    end = sections.body_offset if sections.body_offset >= 0 else sections.bare_end
    if sections.delivery_offset >= end:
        end += sections.delivery_end - sections.delivery_offset
    return end


def _check_properties(payload: bytes, sections: MessageSections) -> None:
    for key, value in decode_application_properties(payload, sections).items():
        size = len(encode_value(value))
        if size > PROPERTY_BYTES_MAX:
            raise ArgumentError(
                f"The application property '{key}' takes {size} bytes; the limit is "
                f"{PROPERTY_BYTES_MAX} (MSG-4). Put it into the body."
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
                f"The message's {name} has {len(value)} characters; the limit is "
                f"{MESSAGE_ID_LENGTH_MAX}."
            )


def _new_properties(payload: bytes, sections: MessageSections, life_ms: int) -> bytes:
    """New properties: an id if there is none, no expiry except for a long time to live (MSG-2), and
    a session id that is a string.

    Clients that send no id still settle by it; the broker decides when a message expires.
    """
    properties = decode_properties(payload, sections)
    if properties.absolute_expiry_time_ms is not None:
        checked_moment("absolute-expiry-time", properties.absolute_expiry_time_ms)
    lifetime.keep(properties, life_ms, 0)
    if properties.message_id is None:
        properties.message_id = uuid.uuid4().hex
    return encode_properties(properties)


# --- out --------------------------------------------------------------------------------------


def to_delivery(stored: bytes, held: Held, sequence: int, lock_token: bytes) -> bytes:
    """The message as a receiver gets it; `lock_token` is empty in receive-and-delete."""
    if lock_token:
        own = _LOCKED.pack(
            _SEQUENCE_KEY,
            sequence,
            _ENQUEUED_KEY,
            held.enqueued_ms,
            _LOCKED_KEY,
            held.locked_until_ms,
        )
        count, delivery_annotations = 3, _LOCK_TOKEN_SECTION + lock_token
    else:
        own = _UNLOCKED.pack(_SEQUENCE_KEY, sequence, _ENQUEUED_KEY, held.enqueued_ms)
        count, delivery_annotations = 2, _NO_DELIVERY_ANNOTATIONS
    if held.state:
        # A message without a state is active (MSG-2).
        own += _STATE_KEY + bytes((held.state,))
        count += 1
    return _encode(stored, held, sequence, delivery_annotations, own, count)


def to_peeked(stored: bytes, held: Held, sequence: int) -> bytes:
    """The message as a peek returns it: no lock, but its state (PEK-1, MSG-2)."""
    own = _UNLOCKED.pack(_SEQUENCE_KEY, sequence, _ENQUEUED_KEY, held.enqueued_ms)
    own += _STATE_KEY + bytes((held.state,))
    return _encode(stored, held, sequence, _NO_DELIVERY_ANNOTATIONS, own, 3)


def _encode(
    stored: bytes,
    held: Held,
    sequence: int,
    delivery_annotations: bytes,
    own: bytes,
    own_count: int,
) -> bytes:
    """Header, annotations and the bare message, with all changes applied."""
    version, flags, priority, count, pair_bytes, word, _ = PREFIX.unpack_from(stored)
    pairs_at = PREFIX_BYTES
    if version == FORWARDED_VERSION:
        pairs_at = _FORWARDED_PREFIX_BYTES
        first, hops = _HOP.unpack_from(stored, PREFIX_BYTES)
        if first and (hops or first != sequence):
            # The first sequence number: of a forwarded message, or of a copy with another one
            # (FWD-9).
            own += _ENQUEUE_SEQUENCE_KEY + _FIRST_SEQUENCE.pack(first)
            own_count += 1
    bare_at = pairs_at + pair_bytes
    life_ms = lifetime.FOREVER
    if held.expires_ms:
        life_ms = held.expires_ms - held.enqueued_ms
    elif word != lifetime.WORD_FOREVER:
        is_long = word == lifetime.WORD_LONG
        life_ms = lifetime.stored_ms(word, stored[bare_at:]) if is_long else word
    if life_ms < 0:
        header = _plain_header(flags, priority, held.delivery_count)
    else:
        header = _header(flags, priority, life_ms, held.delivery_count)
    annotations = _annotations(own, own_count, stored[pairs_at:bare_at], count)
    if held.overlay is not None or life_ms >= 0:
        bare = changed(stored[bare_at:], held.overlay, life_ms, held.enqueued_ms)
    elif len(stored) >= VIEW_BYTES_MIN and not flags & _ANNOTATED:
        view = memoryview(stored)[bare_at:]
        return b"".join((header, delivery_annotations, annotations, view))
    else:
        bare = stored[bare_at:]
    if flags & _ANNOTATED:
        delivery_annotations, bare = _with_senders(delivery_annotations, bare)
    return b"".join((header, delivery_annotations, annotations, bare))


def _with_senders(own: bytes, bare: bytes) -> tuple[bytes, bytes]:
    """The broker's delivery annotations followed by the sender's; and the bare message."""
    sections = parse_sections(bare)
    pairs, count = delivery_annotation_pairs(bare, sections)
    own_count = own[_MAP8_COUNT] >> 1
    merged = encode_delivery_annotations(own[_MAP8_COUNT + 1 :] + pairs, own_count + count)
    return merged, bare[: sections.bare_end]


def _annotations(own: bytes, own_count: int, pairs: bytes, count: int) -> bytes:
    """Message annotations: the broker's own pairs, then the sender's unchanged."""
    size = len(own) + len(pairs) + 1
    items = 2 * (own_count + count)
    if size < 256 and items < 256:
        return b"\x00\x53\x72\xc1" + bytes((size, items)) + own + pairs
    return b"\x00\x53\x72\xd1" + struct.pack(">II", size + 3, items) + own + pairs


def _header(flags: int, priority: int, ttl_ms: int, delivery_count: int) -> bytes:
    """The header, with null where the sender set nothing (MSG-2); its time and count are ours."""
    fields = b"".join(
        (
            ENCODED_NULL if flags & section_walk.DURABLE_UNSET else _BOOLEANS[flags & _DURABLE],
            ENCODED_NULL if flags & section_walk.PRIORITY_UNSET else bytes((0x50, priority)),
            ENCODED_NULL if ttl_ms < 0 else encode_uint(min(ttl_ms, TTL_MS_MAX)),
            _BOOLEANS[flags >> 5 & 1] if flags & section_walk.ACQUIRER_SET else ENCODED_NULL,
            encode_uint(delivery_count),
        )
    )
    return b"\x00\x53\x70\xc0" + bytes((len(fields) + 1, section_walk.HEADER_FIELDS)) + fields


def _plain_header(flags: int, priority: int, delivery_count: int) -> bytes:
    key = delivery_count << 16 | priority << 8 | flags
    header = _PLAIN_HEADERS.get(key)
    if header is None:
        header = _header(flags, priority, -1, delivery_count)
        if len(_PLAIN_HEADERS) < 4096:
            _PLAIN_HEADERS[key] = header
    return header


def header_bytes(stored: bytes, held: Held) -> int:
    """The size of a message's header and properties, including its overlay (MSG-4)."""
    size: int = PREFIX.unpack_from(stored)[6]
    return size if held.overlay is None else size + len(held.overlay.properties)
