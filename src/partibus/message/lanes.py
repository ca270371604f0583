"""The lane of a fragment that an address names.

Owns the way from the sub-queue that a client writes in an address (`$deadletterqueue`, and
that of transfers) to what a fragment understands.
"""

from typing import Final

from partibus.domain.address import DEAD_LETTER, TRANSFER_DEAD_LETTER, Address
from partibus.fragment.commands import Lane

_LANES: Final = {
    "": Lane.MAIN,
    DEAD_LETTER: Lane.DEAD_LETTER,
    TRANSFER_DEAD_LETTER: Lane.TRANSFER_DEAD_LETTER,
}


def lane_of(address: Address) -> Lane:
    """The lane of a fragment that an address means."""
    return _LANES[address.sub_queue]
