"""Which fragment takes a message without a key."""

from dataclasses import dataclass
from typing import cast

from partibus.fragment.handle import Fragment
from partibus.gateway.router import Router


@dataclass
class Place:
    """A fragment, as far as the choice looks at it."""

    index: int
    is_available: bool = True


def places(count: int) -> list[Fragment]:
    return cast("list[Fragment]", [Place(index) for index in range(count)])


def chosen(router: Router, count: int, tried: frozenset[int] = frozenset()) -> list[int]:
    found = [router.next_keyless(tried) for _ in range(count)]
    return [one.index for one in found if one is not None]


def test_each_in_turn_from_a_start() -> None:
    assert chosen(Router(places(4), 6, True), 6) == [2, 3, 0, 1, 2, 3]


def test_those_that_are_down_or_tried_are_passed_over() -> None:
    fragments = places(4)
    cast("Place", fragments[1]).is_available = False
    router = Router(fragments, 0, True)
    assert chosen(router, 4) == [0, 2, 3, 0]
    assert chosen(router, 3, frozenset({0, 3})) == [2, 2, 2]
    assert router.next_keyless(frozenset({0, 2, 3})) is None
    for fragment in fragments:
        cast("Place", fragment).is_available = False
    assert router.next_keyless() in fragments  # whichever gives the error


def test_those_nearby_are_taken_first() -> None:
    fragments = places(6)
    router = Router(fragments, 5, True, [fragments[1], fragments[4]])
    assert chosen(router, 4) == [4, 1, 4, 1]
    assert chosen(router, 2, frozenset({1})) == [4, 4]
    cast("Place", fragments[1]).is_available = False
    cast("Place", fragments[4]).is_available = False
    assert set(chosen(router, 4)) == {0, 2, 3, 5}
