"""Numbers that wrap (RFC 1982)."""

import pytest

from partibus.amqp.serial import SERIAL_MAX, distance


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (1, 4, 3),
        (4, 1, -3),
        (7, 7, 0),
        (SERIAL_MAX, 1, 2),
        (1, SERIAL_MAX, -2),
        (0, 2**31 - 1, 2**31 - 1),
        (0, 2**31, -(2**31)),
        (2**31, 0, -(2**31)),
    ],
)
def test_distance_is_the_shorter_way_round(start, stop, expected):
    assert distance(start, stop) == expected
