"""Which node should hold which lane, in small cases; tests/property has the laws."""

from partibus.control.lane_placement import MOVES_MAX, Move, place_lanes, planned_moves


def test_lanes_without_an_owner_are_dealt_out_at_once() -> None:
    assert place_lanes(range(5), {}, [1, 2]) == {1: {0, 2, 4}, 2: {1, 3}}


def test_a_new_node_is_given_a_few_lanes_at_a_time() -> None:
    owners = dict.fromkeys(range(32), 1)
    decided = place_lanes(range(32), owners, [1, 2])
    assert len(decided[2]) == MOVES_MAX
    assert len(decided[1]) == 32 - MOVES_MAX


def test_nothing_more_moves_while_lanes_have_no_owner() -> None:
    owners = dict.fromkeys(range(8), 1)  # 8 to 11 were those of a node that is gone
    decided = place_lanes(range(12), owners, [1, 2])
    assert decided == {1: set(range(8)), 2: {8, 9, 10, 11}}


def test_a_draining_node_gives_first_and_is_given_nothing() -> None:
    owners = {0: 1, 1: 1, 2: 2, 3: 2, 4: 2, 5: 2}
    decided = place_lanes(range(7), owners, [1, 2, 3], draining=[1], moves_max=3)
    assert decided == {1: set(), 2: {2, 3, 4, 5}, 3: {0, 1, 6}}


def test_when_every_node_drains_the_lanes_stay_where_they_are() -> None:
    assert place_lanes(range(2), {0: 1, 1: 1}, [1], draining=[1]) == {1: {0, 1}}


def test_without_nodes_there_is_nothing_to_decide() -> None:
    assert place_lanes(range(2), {0: 1}, []) == {}
    assert planned_moves(range(2), {0: 1}, []) == []


def test_an_owner_that_is_gone_does_not_count() -> None:
    assert place_lanes(range(2), {0: 9, 1: 9}, [1, 2]) == {1: {0}, 2: {1}}


def test_the_whole_plan_is_shown_in_the_order_of_the_moves() -> None:
    owners = {0: 1, 1: 1, 2: 2, 3: 2}
    assert planned_moves(range(4), owners, [1, 2, 3], draining=[1]) == [
        Move(1, 1, 3),
        Move(0, 1, 3),
    ]


def test_a_lane_goes_to_a_node_that_reaches_its_database() -> None:
    owners = {0: 1, 1: 1, 2: 2, 3: 2}
    decided = place_lanes(range(4), owners, [1, 2], unreachable={1: {1, 3}})
    assert decided == {1: {0, 2}, 2: {1, 3}}
    assert planned_moves(range(4), owners, [1, 2], unreachable={1: {1, 3}}) == [Move(2, 2, 1)]


def test_a_lane_that_nobody_reaches_stays_where_it_is() -> None:
    owners = {0: 1, 1: 2}
    assert place_lanes(range(2), owners, [1, 2], unreachable={1: {0, 1}, 2: {0, 1}}) == {
        1: {0},
        2: {1},
    }


def test_a_lane_is_not_moved_to_a_node_that_does_not_reach_it() -> None:
    """Also when that node has fewer."""
    owners = {0: 2, 1: 2, 2: 2}
    assert place_lanes(range(3), owners, [1, 2], unreachable={1: {0, 1, 2}}) == {
        1: frozenset(),
        2: {0, 1, 2},
    }
    assert place_lanes(range(3), owners, [1, 2], unreachable={1: {1, 2}}) == {1: {0}, 2: {1, 2}}
