"""What a client can know of partitions: the one in a sequence number, and the one of a key.

The hash is written down here a second time, from its documentation and not from the product,
so that a test which finds a key elsewhere has found a change of what is stored on disks.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Final
from zlib import crc32

COUNTER_BITS: Final = 48


def partition_of(sequence_number: int) -> int:
    """The partition that a sequence number names (SEQ-4)."""
    return sequence_number >> COUNTER_BITS


def counter_of(sequence_number: int) -> int:
    """The number within the partition (SEQ-4)."""
    return sequence_number & ((1 << COUNTER_BITS) - 1)


def spread(sequence_numbers: Iterable[int]) -> Counter[int]:
    """How many messages each partition got."""
    return Counter(partition_of(number) for number in sequence_numbers)


def partition_of_key(key: str, partitions: int) -> int:
    """CRC-32 of the key's UTF-8 text, finished as MurmurHash3 does, modulo the partitions."""
    mixed = crc32(key.encode())
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13), (1, 16)):
        mixed = (mixed ^ mixed >> shift) * factor & 0xFFFFFFFF
    return mixed % partitions


def keys_in(partition: int, partitions: int, number: int) -> list[str]:
    """Some keys that select one partition."""
    keys = (f"key-{n}" for n in count())
    chosen = (key for key in keys if partition_of_key(key, partitions) == partition)
    return [next(chosen) for _ in range(number)]


def key_of_each(partitions: int) -> list[str]:
    """One key for every partition, in the order of the partitions."""
    return [keys_in(partition, partitions, 1)[0] for partition in range(partitions)]
