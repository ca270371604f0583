"""Where lanes are served, by what the nodes report."""

from partibus.cluster.lane_table import LaneTable


def table() -> tuple[LaneTable, list[int]]:
    moved: list[int] = []
    made = LaneTable()
    made.on_moved = moved.append
    return made, moved


def test_a_lane_is_where_it_is_reported() -> None:
    lanes, moved = table()
    lanes.reported(1, {0: 5, 1: 5})
    assert (lanes.server_of(0), lanes.epoch_of(0), moved) == (1, 5, [0, 1])
    lanes.reported(1, {0: 5, 1: 5})
    assert moved == [0, 1]
    lanes.reported(1, {1: 5})
    assert (lanes.server_of(0), lanes.epoch_of(0), moved) == (None, None, [0, 1, 0])


def test_the_higher_epoch_has_the_lane() -> None:
    lanes, moved = table()
    lanes.reported(1, {0: 5})
    lanes.reported(2, {0: 6})
    assert (lanes.server_of(0), moved) == (2, [0, 0])
    # The one that was taken over notices late.
    lanes.reported(1, {})
    assert (lanes.server_of(0), moved) == (2, [0, 0])


def test_a_lane_that_comes_back_to_the_same_node_has_moved() -> None:
    """What was locked or asked for before is gone with the state of the old epoch."""
    lanes, moved = table()
    lanes.reported(1, {0: 5})
    lanes.reported(1, {0: 6})
    assert moved == [0, 0]
