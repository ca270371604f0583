"""Numbers that wrap (RFC 1982)."""

import pytest

from partibus.amqp.serial import SERIAL_MAX, add, compare, distance


@pytest.mark.parametrize(
    ("serial", "n", "expected"),
    [(0, 1, 1), (SERIAL_MAX, 1, 0), (SERIAL_MAX, 3, 2), (0, -1, SERIAL_MAX), (5, 0, 5)],
)
def test_adding_wraps(serial, n, expected):
    assert add(serial, n) == expected


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


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (1, 2, -1),
        (2, 1, 1),
        (2, 2, 0),
        (SERIAL_MAX, 0, -1),
        (0, SERIAL_MAX, 1),
        (0, 2**31 - 1, -1),
        (2**31 - 1, 0, 1),
    ],
)
def test_order_holds_across_the_wrap(a, b, expected):
    assert compare(a, b) == expected


def test_half_the_circle_away_is_before_in_either_direction():
    assert compare(0, 2**31) == compare(2**31, 0) == -1
