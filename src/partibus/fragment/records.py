"""The durable facts of a fragment, as bytes: kinds of records and their encodings.

Each kind keeps its meaning forever; a new meaning takes a new kind, so that a release can read what
the previous one wrote. Little-endian fixed fields; bodies are messages, and the state of sessions.
"""

import struct
from array import array
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.message import Overlay

ENQUEUED: Final = 1
"""sequence u64, enqueued_ms u64, expires_ms u64 (0 = never); body = the stored message."""
REMOVED: Final = 2
"""sequences u64...: settled, consumed or expired; gone for good."""
RETURNED: Final = 3
"""overlay, sequences u64...: delivery count + 1, properties laid over."""
DEAD_LETTERED: Final = 4
"""flags u8 (1 = counted), overlay, sequences u64...: moved to the dead-letter subqueue."""

DEFERRED: Final = 5
"""overlay, sequences u64...: out of the active flow, to be received by number."""
SCHEDULED: Final = 6
"""sequence u64, scheduled_ms u64, due_ms u64, ttl_ms u32 (all ones: none); body."""
ACTIVATED: Final = 7
"""activated_ms u64, first new sequence u64, then for each: old sequence u64, expires_ms u64."""
DEFERRED_COUNTED: Final = 9
"""As DEFERRED, with delivery count + 1."""
RETURNED_UNCOUNTED: Final = 10
"""As RETURNED, with the delivery count as it was."""
ENQUEUED_DUE: Final = 11
"""As ENQUEUED: a copy of a message that was scheduled."""
DROPPED: Final = 8
"""nothing more: the entity was deleted, and all earlier records of the fragment are void."""
STORE_IDENTIFIED: Final = 12
"""Of the store itself, fragment 0: version u8, namespace id 16 bytes, number of the store u32,
generation of the catalog u64, highest fragment id u32."""
IDENTIFIED: Final = 16
"""seen_ms u64, then 16 bytes for each identity: ids of messages in the same entry, seen first."""
IN_SESSIONS: Final = 24
"""Runs of messages of the same entry: first sequence u64, count u32, id size u16, session id."""
SESSION_STATE: Final = 25
"""updated_ms u64, is there u8, then the session id; body = the state."""
SCHEDULED_UNDER: Final = 40
"""As SCHEDULED, under a number set aside before: higher ones may stand in earlier records."""
SCHEDULED_LONG: Final = 41
"""As SCHEDULED_UNDER, with a time to live u64 that 32 bits do not hold."""
DEPARTED: Final = 48
"""first outbox number u64, purpose u8, path size u16, path, sequences u64...: into the outbox."""
TRANSFERRED: Final = 49
"""outbox number u64, enqueued_ms u64, path size u16, path; body: for another entity."""
HANDED_OVER: Final = 50
"""outbox numbers u64...: taken by their destination; gone for good."""
PARCELS_RETURNED: Final = 51
"""subqueue u8, overlay, outbox numbers u64...: out of the outbox, into a subqueue."""
REDIRECTED: Final = 52
"""first new number u64, path size u16, path, outbox numbers u64...: bound under new numbers."""
TAKEN: Final = 53
"""origin fragment u64, outbox number u64: everything up to it was taken, in this entry or
before."""
FENCED: Final = 54
"""origin fragment u64, outbox number u64: nothing more is taken up to it."""

PUBLISHED: Final = 32
"""Of a topic: sequence u64, enqueued_ms u64, then runs: expires_ms u64, count u32, ids u32... of
the subscriptions' fragments that have it; body = the stored message, once for all."""
DUE_PUBLISHED: Final = 33
"""Of a topic: the number u64 under which it was scheduled, then as PUBLISHED; its body is that of
the scheduled message."""
NUMBERED: Final = 34
"""Of a topic: next sequence u64; the numbers before it are used, by copies with records of their
own."""
CLAIMED: Final = 56
"""claim, runs u64...: the owner holds these messages; those it held with another start are back."""
CLAIM_RENEWED: Final = 57
"""claim: the same claim with another epoch and end."""
CLAIM_SETTLED: Final = 58
"""claim: its messages are gone for good."""
CLAIM_LAPSED: Final = 59
"""claim: its messages wait again, with one more delivery counted."""
CLAIM_RELEASED: Final = 60
"""claim, forget u8: its messages wait again as they were; the owner may be forgotten."""
CURSOR_PLACED: Final = 64
"""cursor: its position from now on; messages that all cursors have passed are no longer kept."""
CURSOR_DROPPED: Final = 65
"""the name of a cursor that is gone."""
RETENTION_TRIMMED: Final = 66
"""sequence u64: no settled message below it is kept."""
STAGED: Final = 70
"""stage u64, epoch u64, staged_ms u64, chunk u32, then the texts writer, name, path: a chunk of a
stage, whose messages follow."""
STAGED_MESSAGE: Final = 71
"""stage u64, place u64; body: one message of the chunk."""
STAGES_PUBLISHED: Final = 72
"""epoch u64, batch u64, published_ms u64, count u32, the texts writer, series, then stages u64...:
the first `count` of them leave through the outbox in this order, the others are gone."""
STAGES_DROPPED: Final = 73
"""epoch u64, flags u8 (1 = forget the writer), the text writer, then stages u64...: gone; what the
writer wrote up to this epoch is over."""
STAGE_DEPARTED: Final = 74
"""stage u64, first outbox number u64, count u32: messages of the stage that is next to leave are in
the outbox."""

ENQUEUED_META: Final = struct.Struct("<QQQ")
SCHEDULED_META: Final = struct.Struct("<QQQI")
SCHEDULED_LONG_META: Final = struct.Struct("<QQQQ")
ACTIVATED_META: Final = struct.Struct("<QQ")
IDENTIFIED_META: Final = struct.Struct("<Q")
IDENTITY_BYTES: Final = 16
NO_TTL: Final = 0xFFFF_FFFF
"""In a scheduled message: the sender set no time to live."""
_OVERLAY_SIZES: Final = struct.Struct("<IHH")
_ABSENT: Final = 0xFFFF

REASON_CHARS_MAX: Final = 4096
"""The size limit of a record; callers have already shortened the reason (DLQ-11)."""


def pack_sequences(sequences: list[int]) -> bytes:
    """Sequence numbers as they stand at the end of a record's meta."""
    return array("Q", sequences).tobytes()


def unpack_sequences(meta: bytes, offset: int = 0) -> "array[int]":
    """The sequence numbers from `offset` to the end."""
    sequences = array("Q")
    tail = meta[offset:]
    if len(tail) % 8:
        raise StoreCorrupt("a record's list of sequence numbers is truncated")
    sequences.frombytes(tail)
    return sequences


def pack_overlay(overlay: Overlay | None) -> bytes:
    """An overlay, or the absence of one."""
    if overlay is None:
        return _OVERLAY_SIZES.pack(0, _ABSENT, _ABSENT)
    reason, reason_size = _text(overlay.reason)
    description, description_size = _text(overlay.description)
    sizes = _OVERLAY_SIZES.pack(len(overlay.properties), reason_size, description_size)
    return sizes + overlay.properties + reason + description


def unpack_overlay(meta: bytes, offset: int) -> tuple[Overlay | None, int]:
    """The overlay at `offset`, and the offset after it."""
    properties_size, reason_size, description_size = _OVERLAY_SIZES.unpack_from(meta, offset)
    offset += _OVERLAY_SIZES.size
    if properties_size == 0 and reason_size == _ABSENT and description_size == _ABSENT:
        return None, offset
    properties = meta[offset : offset + properties_size]
    offset += properties_size
    reason, offset = _read_text(meta, offset, reason_size)
    description, offset = _read_text(meta, offset, description_size)
    return Overlay(properties, reason, description), offset


def _text(text: str | None) -> tuple[bytes, int]:
    if text is None:
        return b"", _ABSENT
    encoded = text[:REASON_CHARS_MAX].encode()
    return encoded, len(encoded)


def _read_text(meta: bytes, offset: int, size: int) -> tuple[str | None, int]:
    if size == _ABSENT:
        return None, offset
    return meta[offset : offset + size].decode(), offset + size
