"""Messages that prove by themselves that they are whole.

Every letter has a name, and its body follows from the name, so that a receiver can tell
without any list whether a single byte of it was changed.
"""

import hashlib
import struct
from typing import Final

from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.properties import MessageProperties, encode_properties
from partibus.amqp.codec.sections import annotation_items, parse_sections
from partibus.amqp.codec.types import Symbol, Timestamp

BATCH_FORMAT: Final = 0x80013700
_DATA_SECTION: Final = b"\x00\x53\x75\xb0"
_ANNOTATIONS_SECTION: Final = b"\x00\x53\x72"


def body_of(name: str, size: int) -> bytes:
    """The body that a letter of this name and size has."""
    head = f"{name}|{size}|".encode()
    filler = hashlib.sha256(head).hexdigest().encode()
    room = max(0, size - len(head))
    return head + (filler * (room // len(filler) + 1))[:room]


def letter(name: str, size: int, *, due_ms: int = 0) -> bytes:
    """The encoded message; with `due_ms` it is a scheduled one."""
    annotations = b""
    if due_ms:
        when = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(due_ms)}
        annotations = _ANNOTATIONS_SECTION + encode_value(when)
    return (
        annotations
        + encode_properties(MessageProperties(message_id=name))
        + _data(body_of(name, size))
    )


def batch_of(letters: list[bytes]) -> bytes:
    """Several encoded messages as one of the vendor's batch format."""
    return b"".join([_data(encoded) for encoded in letters])


def _data(content: bytes) -> bytes:
    return _DATA_SECTION + struct.pack(">I", len(content)) + content


class Received:
    """What a receiver can tell of a letter; made only of letters that are whole."""

    __slots__ = ("delivery_count", "name", "sequence")

    def __init__(self, payload: bytes) -> None:
        _, found, tail = payload.rpartition(_DATA_SECTION)
        assert found, f"a message without a body: {payload[:80]!r}"
        body = tail[4:]
        name, size, _ = body.split(b"|", 2)
        assert body == body_of(name.decode(), int(size)), f"the body of {name!r} is not intact"
        sections = parse_sections(payload)
        sequence = annotation_items(sections)["x-opt-sequence-number"]
        assert isinstance(sequence, int)
        self.name = name.decode()
        self.sequence = int(sequence)
        self.delivery_count = sections.delivery_count
