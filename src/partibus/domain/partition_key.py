"""Which fragment a partition key selects: a hash that never changes (SEED-28).

Owns the function from a key to a fragment's index. It is part of the data: a change would send new
messages of a key to another fragment than its old ones. CRC-32 (ISO 3309) of the key's UTF-8 text,
mixed by the 32-bit finaliser of MurmurHash3 so that keys that differ in few bits still spread,
modulo the number of fragments. Reference values are in docs/reference/partitioning.md and in the
tests.
"""

from typing import Final
from zlib import crc32

_MASK: Final = 0xFFFF_FFFF


def key_hash(key: str) -> int:
    """The 32-bit hash of a key."""
    h = crc32(key.encode("utf-8", "surrogatepass"))
    h ^= h >> 16
    h = h * 0x85EBCA6B & _MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def fragment_index(key: str, fragment_count: int) -> int:
    """The index of the fragment that holds a key."""
    return key_hash(key) % fragment_count
