"""Records, and the bytes of a log entry that carries a batch of them.

Owns the layout of an entry: header, one row per record, metas, bodies, each body behind its own
CRC-32C. A large body is never copied: it becomes a part of the entry unchanged. Must never read or
write a file, and knows no segment. The encoder runs on the loop thread for every batch; the header
is packed by the commit thread, which alone knows how far the log is durable. Layout:
docs/internals/store-format.md.
"""

import struct
from typing import Final

from partibus.store.checksum import crc32c, crc32c_extend, crc32c_joined

__all__ = [
    "EntryHeader",
    "Payload",
    "Record",
    "crc32c",
    "crc32c_extend",
    "encode_payload",
    "pack_header",
    "place_records",
    "unpack_header",
]

ENTRY_MAGIC: Final = b"PBEN"
ENTRY_VERSION: Final = 1
ENTRY_HEADER_BYTES: Final = 40
ROW_BYTES: Final = 16
BODY_CRC_BYTES: Final = 4

# A body of at least this size is written from where it is; for a smaller one, a copy costs less
# than one more part of the write and the arithmetic of its checksum.
LARGE_BODY_BYTES: Final = 16 << 10
# From this size on its checksum is combined with that of the entry by arithmetic, not by a second
# read; the arithmetic costs 0.2 us compiled, and 15 us interpreted.
READ_ONCE_BYTES: Final = 64 << 10

# A length is a u32; half of that keeps the reader's arithmetic and buffers well below the limit.
ENTRY_PAYLOAD_BYTES_MAX: Final = 1 << 31

# The last field, the CRC of the 36 bytes before it, is appended separately.
_HEADER: Final = struct.Struct("<4sHHQQIII")
_HEADER_AND_CRC: Final = struct.Struct("<4sHHQQIIII")
_ROW: Final = struct.Struct("<IIIB3x")
_U32: Final = struct.Struct("<I")

unpack_rows: Final = _ROW.iter_unpack
"""(fragment, length of meta, length of body, kind) of each record of an entry."""


class Record:
    """One thing that a fragment wants to store; `position` is where its body is found."""

    __slots__ = ("body", "fragment", "kind", "meta", "position")

    def __init__(self, fragment: int, kind: int, meta: bytes, body: bytes = b"") -> None:
        self.fragment = fragment
        self.kind = kind
        self.meta = meta
        self.body = body
        self.position = 0  # stays 0 without a body: byte 0 of the log is a file header


class Payload:
    """An encoded batch without a position in the log yet; its parts are written in sequence."""

    __slots__ = ("body_bytes", "body_offset", "count", "crc", "length", "parts")

    def __init__(
        self, parts: list[bytes], length: int, crc: int, count: int, offset: int, body_bytes: int
    ) -> None:
        self.parts = parts
        self.length = length
        self.crc = crc
        self.count = count
        self.body_offset = offset
        self.body_bytes = body_bytes

    @property
    def data(self) -> bytes:
        """All parts joined, for readers of an entry without a file."""
        return b"".join(self.parts)


class EntryHeader:
    """A header whose checksum is valid."""

    __slots__ = ("count", "crc", "durable", "length", "position", "version")

    def __init__(
        self, version: int, position: int, durable: int, length: int, count: int, crc: int
    ) -> None:
        self.version = version
        self.position = position
        self.durable = durable
        self.length = length
        self.count = count
        self.crc = crc


def encode_payload(records: list[Record]) -> Payload:
    """Encode a batch; `position` of a record with a body is its offset within the bodies."""
    pack_row = _ROW.pack
    pack_crc = _U32.pack
    parts: list[bytes] = []
    metas: list[bytes] = []
    bodies: list[bytes] = []
    meta_bytes = 0
    offset = 0
    is_large = False
    for record in records:
        meta = record.meta
        body = record.body
        body_length = len(body)
        meta_length = len(meta)
        parts.append(pack_row(record.fragment, meta_length, body_length, record.kind))
        metas.append(meta)
        meta_bytes += meta_length
        if body_length:
            bodies.append(pack_crc(crc32c(body)))
            bodies.append(body)
            offset += BODY_CRC_BYTES
            record.position = offset
            offset += body_length
            if body_length >= LARGE_BODY_BYTES:
                is_large = True
        else:
            record.position = 0
    count = len(parts)
    parts += metas
    body_offset = ROW_BYTES * count + meta_bytes
    body_bytes = offset - BODY_CRC_BYTES * (len(bodies) >> 1)
    if is_large:
        joined, crc = _join_small(b"".join(parts), bodies)
        return Payload(joined, body_offset + offset, crc, count, body_offset, body_bytes)
    parts += bodies
    data = b"".join(parts)
    return Payload([data], len(data), crc32c(data), count, body_offset, body_bytes)


def _join_small(head: bytes, bodies: list[bytes]) -> tuple[list[bytes], int]:
    """The parts of an entry, with large bodies uncopied, and its checksum.

    In `bodies` each comes after its own checksum, which is not computed again.
    """
    parts: list[bytes] = []
    small = [head]
    crc = 0
    for index in range(1, len(bodies), 2):
        body = bodies[index]
        small.append(bodies[index - 1])
        if len(body) < LARGE_BODY_BYTES:
            small.append(body)
            continue
        before = b"".join(small)
        parts.append(before)
        parts.append(body)
        crc = crc32c_extend(crc, before)
        if len(body) < READ_ONCE_BYTES:
            crc = crc32c_extend(crc, body)
        else:
            crc = crc32c_joined(crc, _U32.unpack(bodies[index - 1])[0], len(body))
        small = []
    if small:
        before = b"".join(small)
        parts.append(before)
        crc = crc32c_extend(crc, before)
    return parts, crc


def place_records(records: list[Record], payload: Payload, position: int) -> None:
    """Turn offsets into log positions, once the entry's own position is known."""
    bodies_at = position + ENTRY_HEADER_BYTES + payload.body_offset
    for record in records:
        if record.position:
            record.position += bodies_at


def pack_header(seed: int, position: int, durable: int, length: int, count: int, crc: int) -> bytes:
    """The header of an entry; `seed` ties its checksum to this store and no other."""
    head = _HEADER.pack(ENTRY_MAGIC, ENTRY_VERSION, 0, position, durable, length, count, crc)
    return head + _U32.pack(crc32c_extend(seed, head))


def unpack_header(seed: int, data: bytes, offset: int) -> EntryHeader | None:
    """The header at `offset` of `data`, or None when there is no intact one."""
    end = offset + ENTRY_HEADER_BYTES
    if end > len(data):
        return None
    magic, version, _, position, durable, length, count, crc, own = _HEADER_AND_CRC.unpack_from(
        data, offset
    )
    if magic != ENTRY_MAGIC:
        return None
    if own != crc32c_extend(seed, data[offset : end - _U32.size]):
        return None
    return EntryHeader(version, position, durable, length, count, crc)
