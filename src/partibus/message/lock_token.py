"""Lock tokens as clients see them: 16 bytes that identify a fragment and a lock.

Owns the form of a token: eight bytes that name the fragment within this namespace, then the number
that the fragment gave the lock. Each incarnation of a process has its own numbers, so a token of an
earlier one matches only a lock that was kept by a clean stop. On the wire the delivery tag has the
.NET byte order of a GUID, message bodies the RFC 4122 one (amqp-contract rule 8).
"""

import struct
import uuid
from typing import Final

_NUMBER: Final = struct.Struct(">Q")
pack_number: Final = _NUMBER.pack
NO_LOCK: Final = bytes(16)
"""The delivery tag of a message without a lock, for clients that read a token from every tag.

The service sends an empty one."""


class TokenPrefix:
    """The first half of the tokens of one fragment, in both byte orders."""

    __slots__ = ("in_tags", "in_uuids")

    def __init__(self, lock_prefix: int, fragment_id: int) -> None:
        self.in_uuids = struct.pack(">II", lock_prefix & 0xFFFF_FFFF, fragment_id)
        self.in_tags = uuid.UUID(bytes=self.in_uuids + bytes(8)).bytes_le[:8]

    def number_of(self, token: uuid.UUID) -> int | None:
        """The fragment's own number in a token, or None when it is not one of ours."""
        raw = token.bytes
        return _NUMBER.unpack(raw[8:])[0] if raw[:8] == self.in_uuids else None
