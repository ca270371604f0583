"""Duplicate detection: messages whose identity was seen within the window are dropped.

Owns what makes two messages the same (DUP-3) and the life of an identity: reserved when its message
is prepared, remembered when that is durable, dropped when the store failed or the queue was full. A
duplicate is answered like the original, and never before the original is durable, since the store
answers in order. Called by `arrivals`, and only on entities that detect duplicates.
"""

import struct
from hashlib import blake2b
from typing import Final

from partibus.fragment.changes import DuplicateCheck
from partibus.fragment.commands import Enqueue
from partibus.fragment.effects import DuplicatesDropped, Effects
from partibus.fragment.message import NewMessage, key_of
from partibus.fragment.queue.history import cutoff_of, stamp_of
from partibus.fragment.records import IDENTIFIED, IDENTIFIED_META, IDENTITY_BYTES
from partibus.fragment.state import State
from partibus.store.record import Record

NOTE_INTERVAL_MS: Final = 1000
"""Dropped duplicates are logged at most this often; the counter has them all (DUP-10)."""

_WORDS: Final = struct.Struct("<QQ")
_LENGTH: Final = struct.Struct("<I")


def identity_of(message: NewMessage, message_id: str, is_partitioned: bool) -> bytes:
    """What makes a message the same as another: its id alone, and in a partitioned entity
    its partition key too (DUP-2, DUP-3)."""
    text = message_id.encode("utf-8", "surrogatepass")
    if is_partitioned:
        key = key_of(message) or ""
        # The length says where the id ends, whatever characters both contain.
        text = _LENGTH.pack(len(text)) + text + key.encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=IDENTITY_BYTES).digest()


def drop_duplicates(state: State, command: Enqueue, now_ms: int) -> tuple[Enqueue, DuplicateCheck]:
    """The command without its duplicates; the identities of the others are reserved."""
    history = state.history
    pending = history.pending
    is_partitioned = state.spec.is_partitioned
    cutoff = cutoff_of(now_ms, state.spec.duplicate_window_ms)
    kept: list[NewMessage] = []
    identities: list[bytes] = []
    dropped: list[int] = []
    latest = ""
    byte_count = command.byte_count
    for place, message in enumerate(command.messages):
        message_id = message.message_id
        if message_id is not None:
            identity = identity_of(message, message_id, is_partitioned)
            high, low = _WORDS.unpack(identity)
            if identity in pending or history.contains(high, low, cutoff):
                dropped.append(place)
                latest = message_id
                byte_count -= len(message.body)
                continue
            pending.add(identity)
            identities.append(identity)
        kept.append(message)
    if dropped:
        command = Enqueue(command.port, kept, command.requests, byte_count, command.origin)
    return command, DuplicateCheck(identities, dropped, latest, now_ms, history.stepped_ms)


def identified(state: State, check: DuplicateCheck) -> Record:
    """The record that makes identities durable, together with their messages."""
    meta = IDENTIFIED_META.pack(check.seen_ms) + b"".join(check.identities)
    return Record(state.fragment_id, IDENTIFIED, meta)


def remember(state: State, check: DuplicateCheck, now_ms: int, out: Effects) -> None:
    """The messages are durable: their windows start when they arrived (DUP-5)."""
    history = state.history
    cutoff = cutoff_of(now_ms, state.spec.duplicate_window_ms)
    stamp = stamp_of(check.seen_ms + history.stepped_ms - check.stepped_ms)
    for identity in check.identities:
        high, low = _WORDS.unpack(identity)
        history.add(high, low, stamp, cutoff)
        history.pending.discard(identity)
    if check.dropped:
        state.duplicates_dropped += len(check.dropped)
        history.unnoted += len(check.dropped)
        if now_ms - history.noted_ms >= NOTE_INTERVAL_MS:
            out.outward.append(DuplicatesDropped(state.spec.path, history.unnoted, check.latest))
            history.noted_ms, history.unnoted = now_ms, 0


def let_go(state: State, check: DuplicateCheck) -> None:
    """The messages were not stored: later ones with their ids are not duplicates (DUP-9)."""
    state.history.pending.difference_update(check.identities)


def replay_identities(state: State, kind: int, meta: bytes, position: int, length: int) -> None:
    """Identities that were made durable before a restart."""
    (seen_ms,) = IDENTIFIED_META.unpack_from(meta, 0)
    stamp = stamp_of(seen_ms)
    for offset in range(IDENTIFIED_META.size, len(meta), IDENTITY_BYTES):
        high, low = _WORDS.unpack_from(meta, offset)
        # Expired identities go with the first sweep, when the window is known.
        state.history.add(high, low, stamp, 0)
