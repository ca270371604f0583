"""The subqueue of a fragment that an address names.

Owns the way from the sub-queue that a client writes in an address (`$deadletterqueue`, and
that of transfers) to what a fragment understands.
"""

from typing import Final

from partibus.domain.address import DEAD_LETTER, TRANSFER_DEAD_LETTER, Address
from partibus.fragment.commands import SubQueueType

_SUBQUEUES: Final = {
    "": SubQueueType.MAIN,
    DEAD_LETTER: SubQueueType.DEAD_LETTER,
    TRANSFER_DEAD_LETTER: SubQueueType.TRANSFER_DEAD_LETTER,
}


def subqueue_of(address: Address) -> SubQueueType:
    """The subqueue of a fragment that an address means."""
    return _SUBQUEUES[address.sub_queue]
