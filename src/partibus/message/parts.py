"""Stored messages in parts, for bulk readers.

Owns the split of a stored message into its numeric fields, its head (annotations, properties and
application properties, as received) and its body. A reader of columns gets each part separately,
and nothing is encoded only to be decoded again. Hot, and compiled.
"""

import struct
from typing import Final

from partibus.amqp.codec.section_walk import (
    APPLICATION_PROPERTIES,
    DATA,
    PROPERTIES,
    parse_sections,
    read_descriptor,
)
from partibus.domain.sequence import client_sequence
from partibus.fragment.message import Held
from partibus.message import lifetime
from partibus.message.envelope import PREFIX, PREFIX_BYTES, STORED_VERSION, Stored
from partibus.message.overlay import changed

BODY_DATA: Final = 0
"""The body is the bytes of a single data section."""
BODY_SECTIONS: Final = 1
"""The body is its encoded sections, as received."""
_UINT32: Final = struct.Struct(">I")
_ANNOTATIONS_HEAD: Final = b"\x00\x53\x72\xd1"
_ANNOTATIONS_SIZE: Final = struct.Struct(">II")


class MessageParts:
    """Lists, one for each part; each message adds a value to every list."""

    def __init__(self, index: int, with_bodies: bool) -> None:
        self._index = index
        self._with_bodies = with_bodies
        self.sequences: list[int] = []
        """As clients see it."""
        self.enqueued_sequences: list[int] = []
        """The number under which a forwarded message was first enqueued (FWD-9)."""
        self.enqueued_ms: list[int] = []
        self.ttl_ms: list[int] = []
        """-1 when there is none."""
        self.delivery_counts: list[int] = []
        self.states: list[int] = []
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.body_kinds: list[int] = []

    def add(self, held: Held, stored: bytes) -> None:
        """Add one message."""
        version, _, _, pair_count, _, word, _ = PREFIX.unpack_from(stored)
        first_sequence = 0
        bare_at: int = PREFIX_BYTES
        pairs = b""
        if version == STORED_VERSION and not pair_count and held.overlay is None:
            bare = stored
        else:
            parts = Stored(stored)
            first_sequence = parts.first_sequence
            pairs = _annotations(parts.annotations, parts.annotation_count)
            bare = parts.bare
            bare_at = 0
            if held.overlay is not None:
                bare = changed(bare, held.overlay)
        sequence = client_sequence(self._index, held.sequence)
        self.sequences.append(sequence)
        self.enqueued_sequences.append(first_sequence or sequence)
        self.enqueued_ms.append(held.enqueued_ms)
        if held.expires_ms:
            self.ttl_ms.append(held.expires_ms - held.enqueued_ms)
        elif word < lifetime.WORD_LONG:
            self.ttl_ms.append(word)
        else:
            self.ttl_ms.append(Stored(stored).ttl_ms)
        self.delivery_counts.append(held.delivery_count)
        self.states.append(held.state)
        self._split(bare, bare_at, pairs)

    def _split(self, bare: bytes, start: int, pairs: bytes) -> None:
        """The bare message from an offset on: the head, then the body."""
        end = len(bare)
        at = _body_at(bare, start, end)
        head = bare[start:at]
        self.heads.append(pairs + head if pairs else head)
        if not self._with_bodies:
            return
        if at + 5 <= end and bare[at] == 0x00 and bare[at + 1] == 0x53 and bare[at + 2] == DATA:
            code = bare[at + 3]
            if code == 0xB0 and at + 8 <= end:
                begin = at + 8
                size: int = _UINT32.unpack_from(bare, at + 4)[0]
            else:
                begin = at + 5
                size = bare[at + 4] if code == 0xA0 else -1
            if begin + size == end:
                self.bodies.append(bare[begin:end])
                self.body_kinds.append(BODY_DATA)
                return
        self.bodies.append(bare[at:end])
        self.body_kinds.append(BODY_SECTIONS)


def _body_at(bare: bytes, at: int, end: int) -> int:
    """Where the sections of the body begin."""
    while at + 3 < end and bare[at] == 0x00 and bare[at + 1] == 0x53:
        section = bare[at + 2]
        if section != PROPERTIES and section != APPLICATION_PROPERTIES:
            return at
        code = bare[at + 3]
        if code == 0xC0 or code == 0xC1:
            at += 5 + bare[at + 4]
        elif code == 0xD0 or code == 0xD1:
            at += 8 + int(_UINT32.unpack_from(bare, at + 4)[0])
        elif code == 0x45:
            at += 4
        else:
            break
    if at >= end:
        return end
    return _body_at_slowly(bare, at, end)


def _body_at_slowly(bare: bytes, at: int, end: int) -> int:
    """The same where a section is named in full, or by a long number."""
    section, _ = read_descriptor(bare, at, end)
    if section >= DATA:
        return at
    rest = bare[at:end]
    found = parse_sections(rest)
    return at + (found.body_offset if found.body_offset >= 0 else len(rest))


def _annotations(pairs: bytes, count: int) -> bytes:
    """The sender's annotations as a section; empty when there are none."""
    if not count:
        return b""
    return _ANNOTATIONS_HEAD + _ANNOTATIONS_SIZE.pack(len(pairs) + 4, 2 * count) + pairs
