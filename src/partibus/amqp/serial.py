"""Serial number arithmetic on 32 bits (RFC 1982), for delivery ids and counts [2.8.10].

Owns the distance between numbers that wrap from 4294967295 to 0. Must never see a number
outside 0..4294967295; the performative readers return none. Called by sessions and links wherever a
delivery-id, transfer-id or delivery-count advances.
"""

from typing import Final

SERIAL_MAX: Final = 0xFFFFFFFF
_HALF: Final = 0x80000000


def distance(start: int, stop: int) -> int:
    """How far `stop` is after `start`; negative when it is before.

    Half the circle away is both before and after, which the RFC leaves undefined [RFC
    1982, 3.2]; a peer may send it, so it is read as "before" in either direction.
    """
    return ((stop - start + _HALF) & SERIAL_MAX) - _HALF
