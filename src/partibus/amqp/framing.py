"""Frames and protocol headers [2.2, 2.3].

Owns the eight bytes that open a protocol layer, the head of a frame, and the buffer for incomplete
frames. Must never look inside a frame. Used by the connection and by SASL.
"""

import struct
from typing import Final

from partibus.amqp.codec.decode import DecodeError, decode_value

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
HEADER_BYTES: Final = 8

FRAME_HEAD_BYTES: Final = 8
FRAME_AMQP: Final = 0
FRAME_SASL: Final = 1

# A frame without a body keeps a connection from being taken for dead [2.4.5].
EMPTY_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"

# Below this a copy costs less than a view.
VIEW_BYTES_MIN: Final = 4_096

# More bytes than will ever come: what is kept waits for `take`.
NEVER: Final = 1 << 62

# size, doff (in words of 4 bytes), type, channel
FRAME_HEAD: Final = struct.Struct(">IBBH")

_NAMES: Final = {
    "amqp:open:list": 0x10,
    "amqp:begin:list": 0x11,
    "amqp:attach:list": 0x12,
    "amqp:flow:list": 0x13,
    "amqp:transfer:list": 0x14,
    "amqp:disposition:list": 0x15,
    "amqp:detach:list": 0x16,
    "amqp:end:list": 0x17,
    "amqp:close:list": 0x18,
    "amqp:sasl-mechanisms:list": 0x40,
    "amqp:sasl-init:list": 0x41,
    "amqp:sasl-challenge:list": 0x42,
    "amqp:sasl-response:list": 0x43,
    "amqp:sasl-outcome:list": 0x44,
}


def encode_frame(channel: int, body: bytes, kind: int = FRAME_AMQP) -> bytes:
    return FRAME_HEAD.pack(FRAME_HEAD_BYTES + len(body), 2, kind, channel) + body


def decode_descriptor(buf: bytes, at: int, end: int) -> tuple[int, int]:
    """The code of the performative at `at`, and the offset of its list.

    Peers may write the descriptor as a small ulong, a ulong or a symbol.
    """
    if end - at >= 3 and buf[at] == 0x00 and buf[at + 1] == 0x53:
        return buf[at + 2], at + 3
    if end - at < 2 or buf[at] != 0x00:
        raise DecodeError("a frame holds no performative")
    descriptor, at = decode_value(buf, at + 1, end)
    if isinstance(descriptor, str):
        return _NAMES.get(str(descriptor), -1), at
    if isinstance(descriptor, int):
        return int(descriptor), at
    raise DecodeError("a descriptor is neither a number nor a symbol")


def piece_of(buf: bytes, start: int, end: int) -> bytes | memoryview:
    """A part of a buffer to keep: a view when it is most of the buffer, else a copy.

    A view keeps the whole buffer, so nothing uses more than twice its size.
    """
    if 2 * (end - start) >= len(buf) and end - start >= VIEW_BYTES_MIN:
        return memoryview(buf)[start:end]
    return buf[start:end]


class InputBuffer:
    """Bytes of an incomplete frame.

    The pieces of a frame are only collected until its announced size is there, and then joined
    once: a large frame that comes in tiny pieces costs only its size, and what follows it is not
    copied with it.
    """

    __slots__ = ("_chunks", "have", "need")

    def __init__(self) -> None:
        self._chunks: list[bytes | memoryview] = []
        self.have = 0
        self.need = 0
        """0 when no frame has begun."""

    def fill(self, data: bytes, at: int) -> int:
        """Take the missing bytes from `data`; returns the offset of the rest."""
        end = min(len(data), at + self.need - self.have)
        self._chunks.append(piece_of(data, at, end))
        self.have += end - at
        return end

    def take(self) -> bytes:
        """Everything that was kept, needed or not."""
        joined = b"".join(self._chunks)
        self._chunks.clear()
        self.have = 0
        self.need = 0
        return joined

    def keep(self, buf: bytes, at: int, need: int) -> None:
        """Put back what was not parsed; nothing more can be done before `need` bytes are there."""
        have = len(buf) - at
        if have or need == NEVER:
            self._chunks.append(piece_of(buf, at, len(buf)))
            self.have = have
            self.need = need
