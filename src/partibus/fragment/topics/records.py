"""The durable facts of a topic: who has a message, as bytes, and their replay.

Owns the encoding of the records in which a topic's fragment refers to its subscriptions. A message
is in the log once, and its record lists the fragments that have it, in runs of equal expiry. Replay
puts it into each of them; that of a subscription deleted since is rebuilt like any other and then
not used.
"""

import struct
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.queue.recovery import push_next
from partibus.fragment.queue.table import WAS_SCHEDULED
from partibus.fragment.records import DUE_PUBLISHED, NUMBERED, PUBLISHED
from partibus.fragment.spec import NO_SPEC
from partibus.fragment.state import State
from partibus.store.record import Record

_HEAD: Final = struct.Struct("<QQ")
_RUN: Final = struct.Struct("<QI")
_NUMBER: Final = struct.Struct("<Q")
_ID_BYTES: Final = 4

TOPIC_KINDS: Final = frozenset((PUBLISHED, DUE_PUBLISHED, NUMBERED))

Holders = dict[int, list[int]]
"""The ids of the fragments that have a message, by the time at which it expires there."""


def pack_published(sequence: int, enqueued_ms: int, holders: Holders) -> bytes:
    """The meta of a message and those who have it."""
    parts = [_HEAD.pack(sequence, enqueued_ms)]
    for expires_ms, fragment_ids in holders.items():
        parts.append(_RUN.pack(expires_ms, len(fragment_ids)))
        parts.append(struct.pack(f"<{len(fragment_ids)}I", *fragment_ids))
    return b"".join(parts)


def pack_due(old_sequence: int, sequence: int, enqueued_ms: int, holders: Holders) -> bytes:
    """The meta of a message that was scheduled under another number."""
    return _NUMBER.pack(old_sequence) + pack_published(sequence, enqueued_ms, holders)


def numbered(fragment_id: int, next_sequence: int) -> Record:
    """The record that all numbers before one are used."""
    return Record(fragment_id, NUMBERED, _NUMBER.pack(next_sequence))


def replay_topic(
    states: dict[int, State], topic: State, kind: int, meta: bytes, position: int, length: int
) -> None:
    """Apply one record of a topic's fragment to all fragments that it concerns."""
    if kind == NUMBERED:
        (topic.next_sequence,) = _NUMBER.unpack(meta)
        return
    offset = extra = 0
    if kind == DUE_PUBLISHED:
        extra = WAS_SCHEDULED
        (old_sequence,) = _NUMBER.unpack_from(meta, 0)
        offset = _NUMBER.size
        held = topic.scheduled.take(old_sequence)
        if held is None:
            raise StoreCorrupt(f"message {old_sequence} was published but never scheduled")
        position, length = held.position, held.length
    sequence, enqueued_ms = _HEAD.unpack_from(meta, offset)
    offset += _HEAD.size
    while offset < len(meta):
        expires_ms, count = _RUN.unpack_from(meta, offset)
        offset += _RUN.size
        end = offset + count * _ID_BYTES
        if end > len(meta):
            raise StoreCorrupt("a record's list of subscriptions is truncated")
        for (fragment_id,) in struct.iter_unpack("<I", meta[offset:end]):
            holder = states.get(fragment_id)
            if holder is None:
                holder = states[fragment_id] = State(fragment_id, NO_SPEC)
            table = holder.main.ready
            push_next(table, sequence, position, length, enqueued_ms, expires_ms, extra)
            holder.next_sequence = max(holder.next_sequence, sequence + 1)
        offset = end
    topic.next_sequence = max(topic.next_sequence, sequence + 1)
