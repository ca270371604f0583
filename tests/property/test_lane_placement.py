"""Laws of the decision which node holds which lane: even, few moves, and it comes to an end."""

from collections import Counter
from itertools import pairwise
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from partibus.control.lane_placement import place_lanes, planned_moves

Owners = dict[int, int]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[int, Owners, set[int], set[int]]:
    """How many lanes, who owns which (also nodes that are gone), the live ones, the draining."""
    lanes = draw(st.integers(0, 40))
    owners = draw(st.dictionaries(st.integers(0, lanes), st.integers(1, 9), max_size=lanes))
    nodes = draw(st.sets(st.integers(1, 9), min_size=1, max_size=7))
    draining = draw(st.sets(st.sampled_from(sorted(nodes))))
    return lanes, {lane: node for lane, node in owners.items() if lane < lanes}, nodes, draining


def live(owners: Owners, nodes: set[int]) -> Owners:
    return {lane: node for lane, node in owners.items() if node in nodes}


def owners_by(decided: dict[int, frozenset[int]]) -> Owners:
    return {lane: node for node, lanes in decided.items() for lane in lanes}


def steps(case: tuple[int, Owners, set[int], set[int]], moves_max: int) -> list[Owners]:
    """Every node does what is decided, again and again until nothing changes."""
    lanes, owners, nodes, draining = case
    seen = [live(owners, nodes)]
    while True:
        seen.append(
            owners_by(place_lanes(range(lanes), seen[-1], nodes, draining, moves_max=moves_max))
        )
        if seen[-1] == seen[-2]:
            return seen
        assert len(seen) < 200, "it does not come to an end"


@given(clusters(), st.integers(1, 6))
def test_it_ends_even_and_with_nothing_on_draining_nodes(
    case: tuple[int, Owners, set[int], set[int]], moves_max: int
) -> None:
    lanes, _, nodes, draining = case
    final = steps(case, moves_max)[-1]
    assert final.keys() == set(range(lanes))
    takers = nodes - draining or nodes
    counts = Counter(final.values())
    assert set(counts) <= takers
    held = [counts[node] for node in takers]
    assert max(held) - min(held) <= 1


@given(clusters())
def test_every_lane_has_exactly_one_node_at_each_step(
    case: tuple[int, Owners, set[int], set[int]],
) -> None:
    lanes, owners, nodes, draining = case
    decided = place_lanes(range(lanes), owners, nodes, draining)
    assert decided.keys() == nodes
    assert sorted(lane for held in decided.values() for lane in held) == list(range(lanes))


@given(clusters(), st.integers(1, 6))
def test_few_lanes_change_their_owner_in_a_step(
    case: tuple[int, Owners, set[int], set[int]], moves_max: int
) -> None:
    for before, after in pairwise(steps(case, moves_max)):
        free = case[0] - len(before)
        moved = sum(after[lane] != node for lane, node in before.items())
        assert moved <= max(0, moves_max - free)


@given(clusters(), st.integers(1, 6))
def test_no_more_lanes_move_than_must(
    case: tuple[int, Owners, set[int], set[int]], moves_max: int
) -> None:
    lanes, owners, nodes, draining = case
    walk = steps(case, moves_max)
    moved = sum(a[lane] != node for b, a in pairwise(walk) for lane, node in b.items())
    takers = nodes - draining or nodes
    counts = Counter(live(owners, nodes).values())
    leaving = sum(counts[node] for node in nodes - takers)
    # The fullest nodes keep the lanes that cannot be shared evenly.
    least, more = divmod(lanes, len(takers))
    fullest = sorted((counts[node] for node in takers), reverse=True)
    surplus = sum(max(0, count - least - (rank < more)) for rank, count in enumerate(fullest))
    assert moved == leaving + surplus
    assert moved == len(planned_moves(range(lanes), owners, nodes, draining))


@given(clusters(), st.data())
def test_a_move_that_is_under_way_stays_decided(
    case: tuple[int, Owners, set[int], set[int]], data: st.DataObject
) -> None:
    """Lanes are released and acquired one by one, in any order: all the same no node ever holds
    more than it should, and each lane goes once."""
    lanes, owners, nodes, draining = case
    now, acquired = live(owners, nodes), Counter[int]()
    must = len(planned_moves(range(lanes), now, nodes, draining)) + lanes - len(now)
    for _ in range(400):
        decided = place_lanes(range(lanes), now, nodes, draining)
        todo: list[tuple[str, int, int]] = []
        for node, wanted in decided.items():
            held = {lane for lane, owner in now.items() if owner == node}
            todo += [("release", node, lane) for lane in held - wanted]
            todo += [("acquire", node, lane) for lane in wanted - held if lane not in now]
        if not todo:
            break
        verb, node, lane = data.draw(st.sampled_from(sorted(todo)))
        if verb == "release":
            del now[lane]
        else:
            now[lane] = node
            acquired[lane] += 1
    assert now.keys() == set(range(lanes))
    counts = Counter(now.values())
    takers = nodes - draining or nodes
    assert max(counts[node] for node in takers) <= ceil(lanes / len(takers)) if lanes else True
    assert acquired.total() == must
    assert not [lane for lane, times in acquired.items() if times > 1]


@given(clusters())
def test_the_order_of_the_input_does_not_matter(
    case: tuple[int, Owners, set[int], set[int]],
) -> None:
    lanes, owners, nodes, draining = case
    backwards = dict(reversed(owners.items()))
    one = place_lanes(range(lanes), owners, sorted(nodes), sorted(draining))
    two = place_lanes(
        reversed(range(lanes)), backwards, sorted(nodes, reverse=True), list(draining)
    )
    assert one == two
