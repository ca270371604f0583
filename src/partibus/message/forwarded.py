"""A stored message as it is forwarded to another entity.

Owns what forwarding changes about a message: it keeps its first sequence number (FWD-9), counts its
hops, names the entity in which it became a dead letter (DLQ-8), and its overlay becomes part of it.
Its time to live is copied and starts again at the destination, its delivery count at zero (FWD-12).
Must never read the body.
"""

from dataclasses import dataclass
from typing import Final

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_symbol, encode_value
from partibus.amqp.codec.sections import parse_sections
from partibus.amqp.codec.text import text_of
from partibus.domain.annotations import DEAD_LETTER_SOURCE, PARTITION_KEY, SCHEDULED_TIME
from partibus.fragment.message import NewMessage, Overlay
from partibus.message.envelope import Stored, text_at
from partibus.message.overlay import changed

HOPS_MAX: Final = 4
"""A message that was forwarded this often is not forwarded again (FWD-6)."""


@dataclass(eq=False)
class Hop:
    """What is added to a message at one hop."""

    first_sequence: int
    """Its number in the entity that it leaves, as clients see it; 0 when it had none."""
    overlay: Overlay | None = None
    dead_letter_source: str | None = None
    """The entity in which it was dead-lettered; None when it was not."""


def to_forwarded(body: bytes, hop: Hop, is_identified: bool) -> NewMessage:
    """The message as the destination stores it.

    Where duplicates are detected it `is_identified` by its id, like a new message (DUP-7).
    """
    stored = Stored(body)
    stored.hops += 1
    stored.came_from(hop.first_sequence)
    scheduled_ms, partition_key = _annotate(stored, hop.dead_letter_source)
    if hop.overlay is not None:
        size = len(stored.bare)
        stored.bare = changed(stored.bare, hop.overlay)
        stored.head_bytes += len(stored.bare) - size
    bare = stored.bare
    sections = parse_sections(bare)
    session_id = text_at(bare, sections.group_id_offset)
    message_id = text_at(bare, sections.message_id_offset) if is_identified else None
    return NewMessage(
        stored.encode(), stored.ttl_ms, scheduled_ms, session_id, partition_key, message_id or None
    )


def _annotate(stored: Stored, dead_letter_source: str | None) -> tuple[int, str | None]:
    """Set its due time and its key, which apply at the destination too (SEED-56)."""
    kept: list[bytes] = []
    scheduled_ms = 0
    partition_key: str | None = None
    pairs = stored.annotations
    at, end = 0, len(pairs)
    while at < end:
        key, value_at = decode_value(pairs, at, end)
        value, next_at = decode_value(pairs, value_at, end)
        if key == SCHEDULED_TIME and isinstance(value, int):
            scheduled_ms = max(0, int(value))
        elif key == PARTITION_KEY and value is not None:
            partition_key = text_of(value)
        if dead_letter_source is None or key != DEAD_LETTER_SOURCE:
            kept.append(pairs[at:next_at])
        at = next_at
    if dead_letter_source is not None:
        kept.append(encode_symbol(DEAD_LETTER_SOURCE) + encode_value(dead_letter_source))
    stored.annotations = b"".join(kept)
    stored.annotation_count = len(kept)
    return scheduled_ms, partition_key
