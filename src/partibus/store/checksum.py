"""CRC-32C of bytes, and of consecutive bytes that were never joined.

Owns the arithmetic that combines two checksums, so that a large body is read once and not again for
its entry. Called for every entry of the log; reads no file.
"""

from collections.abc import Callable
from typing import Final

import google_crc32c

crc32c: Final[Callable[[bytes], int]] = google_crc32c.value
crc32c_extend: Final[Callable[[int, bytes], int]] = google_crc32c.extend

# The polynomial of Castagnoli without its highest power, bits reversed; bit 31 stands for x^0.
_POLYNOMIAL: Final = 0x82F63B78
_ONE: Final = 1 << 31
_X: Final = 1 << 30
# A length below 2^37 bits, far above the longest entry, is a sum of these powers of two.
_POWERS: Final = 37
# Messages of one sender are often of one length; 4,096 lengths take about half a megabyte.
_SHIFTS_MAX: Final = 4_096

_shifts: Final[dict[int, int]] = {}


def crc32c_joined(first: int, second: int, second_bytes: int) -> int:
    """The checksum of two consecutive pieces, from that of each and the length of the second."""
    shift = _shifts.get(second_bytes)
    if shift is None:
        shift = _power_of_x(8 * second_bytes)
        if len(_shifts) >= _SHIFTS_MAX:
            _shifts.clear()
        _shifts[second_bytes] = shift
    return _product(shift, first) ^ second


def _product(left: int, right: int) -> int:
    """Two polynomials multiplied, modulo that of the checksum."""
    product = 0
    while left:
        if left & _ONE:
            product ^= right
        left = (left << 1) & 0xFFFFFFFF
        right = (right >> 1) ^ _POLYNOMIAL if right & 1 else right >> 1
    return product


def _squares() -> list[int]:
    """x to the powers 1, 2, 4, 8 and so on."""
    squares = [_X]
    while len(squares) < _POWERS:
        squares.append(_product(squares[-1], squares[-1]))
    return squares


_SQUARES: Final = _squares()


def _power_of_x(exponent: int) -> int:
    power = _ONE
    at = 0
    while exponent:
        if exponent & 1:
            power = _product(_SQUARES[at], power)
        exponent >>= 1
        at += 1
    return power
