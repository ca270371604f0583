"""The subqueue of a fragment that an address names.

Owns the mapping between the sub-queue in a client's address (`$deadletterqueue`, and that of
transfers) and the subqueue of a fragment.
"""

from typing import Final

from partibus.domain.address import DEAD_LETTER, TRANSFER_DEAD_LETTER, Address
from partibus.fragment.commands import SubQueueType

_SUBQUEUES: Final = {
    "": SubQueueType.MAIN,
    DEAD_LETTER: SubQueueType.DEAD_LETTER,
    TRANSFER_DEAD_LETTER: SubQueueType.TRANSFER_DEAD_LETTER,
}


_NAMES: Final = {subqueue: name for name, subqueue in _SUBQUEUES.items()}


def subqueue_path(path: str, subqueue: SubQueueType) -> str:
    """The path of an entity's subqueue, as clients write it."""
    name = _NAMES[subqueue]
    return f"{path}/{name}" if name else path


def subqueue_of(address: Address) -> SubQueueType:
    """The subqueue of a fragment that an address names."""
    return _SUBQUEUES[address.sub_queue]
