"""The sub-queue that an address names, and sequence numbers as clients see them.

Owns the small conversions between what clients write and what a fragment understands: a
client's sequence number carries the fragment's index in its top 16 bits (SEQ-4).
"""

from typing import Final

from partibus.domain.address import DEAD_LETTER, TRANSFER_DEAD_LETTER, Address
from partibus.fragment.commands import Lane

SEQUENCE_BITS: Final = 48
SEQUENCE_MAX: Final = (1 << SEQUENCE_BITS) - 1
"""No message gets as far as this."""

_LANES: Final = {
    "": Lane.MAIN,
    DEAD_LETTER: Lane.DEAD_LETTER,
    TRANSFER_DEAD_LETTER: Lane.TRANSFER_DEAD_LETTER,
}


def lane_of(address: Address) -> Lane:
    """The lane of a fragment that an address means."""
    return _LANES[address.sub_queue]


def split_sequence(sequence: int) -> tuple[int, int]:
    """The fragment's index and its own number, of a client's sequence number."""
    return sequence >> SEQUENCE_BITS & 0xFFFF, sequence & SEQUENCE_MAX


def client_sequence(index: int, sequence: int) -> int:
    """The sequence number as clients see it."""
    return index << SEQUENCE_BITS | sequence
