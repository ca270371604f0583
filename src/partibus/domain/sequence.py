"""Sequence numbers as clients see them: a fragment's index above the fragment's own number.

Owns the layout, which every part of the bus and of its clients shares: the top 16 bits of the
64 are the index of the fragment, the other 48 the number that the fragment gave (SEQ-4).
"""

from typing import Final

SEQUENCE_BITS: Final = 48
"""The bits of a fragment's own number; those above are the index of the fragment."""
SEQUENCE_MAX: Final = (1 << SEQUENCE_BITS) - 1
"""No fragment assigns a number as high as this."""
NUMBERS_END: Final = SEQUENCE_MAX + 1
"""Above every number of a fragment, and the first sequence number of fragment 1."""


def split_sequence(sequence: int) -> tuple[int, int]:
    """The fragment's index and its own number, of a client's sequence number."""
    return fragment_of(sequence) & 0xFFFF, number_of(sequence)


def fragment_of(sequence: int) -> int:
    """The index of the fragment, of a client's sequence number."""
    return sequence >> SEQUENCE_BITS


def number_of(sequence: int) -> int:
    """The fragment's own number, of a client's sequence number."""
    return sequence & SEQUENCE_MAX


def fragment_end(sequence: int) -> int:
    """The sequence number above all of the fragment of this one."""
    return client_sequence(fragment_of(sequence) + 1, 0)


def client_sequence(index: int, sequence: int) -> int:
    """The sequence number as clients see it."""
    return index << SEQUENCE_BITS | sequence
