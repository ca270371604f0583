"""One checksum of two."""

import random

import pytest

from partibus.store.checksum import crc32c, crc32c_joined

SEED = 20


@pytest.mark.parametrize("second_bytes", [0, 1, 3, 4, 255, 4096, 65_537, (1 << 20) + 5])
def test_two_checksums_make_that_of_both_pieces_in_a_row(second_bytes: int) -> None:
    source = random.Random(SEED)
    for first_bytes in (0, 1, 100):
        first, second = source.randbytes(first_bytes), source.randbytes(second_bytes)
        joined = crc32c_joined(crc32c(first), crc32c(second), len(second))
        assert joined == crc32c(first + second)


def test_pieces_are_joined_one_after_the_other_however_many_lengths_there_are() -> None:
    source = random.Random(SEED)
    crc, whole = 0, b""
    for length in range(5_000):
        piece = source.randbytes(length % 7)
        crc = crc32c_joined(crc, crc32c(piece), len(piece))
        whole += piece
        crc32c_joined(0, 0, 10_000 + length)
    assert crc == crc32c(whole)


def test_a_piece_of_many_gigabytes_has_a_checksum_too() -> None:
    length = 1 << 33
    step = crc = 0x1234
    for _ in range(2):
        crc = crc32c_joined(crc, 0, length // 2)
    assert crc == crc32c_joined(step, 0, length)
