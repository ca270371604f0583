"""Which lanes each node of a cluster should own: the pure decision.

Owns the rule: lanes without an owner go at once to the nodes with the fewest lanes; the rest moves
a few lanes at a time, first away from draining nodes, then from the fullest to the emptiest, until
no node has two lanes more than another. A lane is not given to a node that cannot reach its
database while another can. The same input gives the same answer on every node, and the answer stays
the same during a move, so that no leader is needed. The caller says which nodes are alive. Called
by the view of the leases.
"""

from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

MOVES_MAX: Final = 4
"""How many lanes may be without an owner, or moving, because of a rebalance. A hand-over takes
about ten milliseconds, in which senders to that lane wait."""
_NOTHING: Final[Mapping[int, Collection[int]]] = {}


Unreachable = Mapping[int, Collection[int]]
"""By node, the lanes whose database it cannot reach now."""


class Move(NamedTuple):
    """A lane that should change its owner."""

    lane: int
    origin: int
    target: int


def place_lanes(
    lanes: Iterable[int],
    owners: Mapping[int, int],
    nodes: Collection[int],
    draining: Collection[int] = (),
    moves_max: int = MOVES_MAX,
    unreachable: Unreachable = _NOTHING,
) -> dict[int, frozenset[int]]:
    """By live node, the lanes it should own now; `owners` has the holders of live leases."""
    takers = _takers(nodes, draining)
    held, free = _sort(lanes, owners, nodes, takers, unreachable)
    if takers:
        _deal(free, held, takers, unreachable)
        for move in _moves(held, takers, moves_max - len(free), unreachable):
            held[move.origin].remove(move.lane)
            held[move.target].add(move.lane)
    return {node: frozenset(lanes) for node, lanes in held.items()}


def planned_moves(
    lanes: Iterable[int],
    owners: Mapping[int, int],
    nodes: Collection[int],
    draining: Collection[int] = (),
    unreachable: Unreachable = _NOTHING,
) -> list[Move]:
    """Every lane that changes its owner until the load is even, in the order of the moves."""
    takers = _takers(nodes, draining)
    held, free = _sort(lanes, owners, nodes, takers, unreachable)
    if not takers:
        return []
    _deal(free, held, takers, unreachable)
    return _moves(held, takers, sum(map(len, held.values())), unreachable)


def _sort(
    lanes: Iterable[int],
    owners: Mapping[int, int],
    nodes: Collection[int],
    takers: list[int],
    unreachable: Unreachable,
) -> tuple[dict[int, set[int]], list[int]]:
    """The lanes of the live nodes, and those without an owner that can serve them."""
    held: dict[int, set[int]] = {node: set() for node in sorted(nodes)}
    free = []
    for lane in sorted(lanes):
        owner = owners.get(lane)
        if owner is not None and owner in held and not _is_lost(lane, owner, takers, unreachable):
            held[owner].add(lane)
        else:
            free.append(lane)
    return held, free


def _is_lost(lane: int, owner: int, takers: list[int], unreachable: Unreachable) -> bool:
    """Whether its owner cannot reach a lane while another node can."""
    if lane not in unreachable.get(owner, ()):
        return False
    return any(lane not in unreachable.get(node, ()) for node in takers)


def _takers(nodes: Collection[int], draining: Collection[int]) -> list[int]:
    """Which nodes may get lanes. When every node drains, all of them stay eligible: a lane is
    better served by a node that is about to stop than by none."""
    return sorted(set(nodes) - set(draining)) or sorted(nodes)


def _deal(
    free: list[int], held: Mapping[int, set[int]], takers: list[int], unreachable: Unreachable
) -> None:
    """Give each lane without an owner to the node with the fewest that can reach it."""
    heap = [(len(held[node]), node) for node in takers]
    heapify(heap)
    for lane in free:
        if any(lane in lanes for lanes in unreachable.values()):
            able = [node for node in takers if lane not in unreachable.get(node, ())]
            held[_emptiest(held, able or takers)].add(lane)
            heap = [(len(held[node]), node) for node in takers]
            heapify(heap)
            continue
        count, node = heap[0]
        held[node].add(lane)
        heapreplace(heap, (count + 1, node))


def _moves(
    held: Mapping[int, set[int]], takers: list[int], most: int, unreachable: Unreachable
) -> list[Move]:
    """The next moves, up to a limit: from draining nodes first, then from the fullest."""
    left = {node: sorted(lanes) for node, lanes in held.items()}
    moves: list[Move] = []
    while len(moves) < most:
        origin = _giver(left, takers)
        target = _emptiest(left, takers)
        if origin is None or origin == target:
            break
        barred = unreachable.get(target, ())
        lane = next((lane for lane in reversed(left[origin]) if lane not in barred), None)
        if lane is None:
            break
        left[origin].remove(lane)
        left[target].insert(0, lane)  # a lane that was moved is not moved again
        moves.append(Move(lane, origin, target))
    return moves


def _giver(left: Mapping[int, list[int]], takers: list[int]) -> int | None:
    """The next node to give a lane away; None when the load is even."""
    leaving = [node for node in left if left[node] and node not in takers]
    if leaving:
        return leaving[0]
    fullest = max(takers, key=lambda node: (len(left[node]), -node))
    least = len(left[_emptiest(left, takers)])
    return fullest if len(left[fullest]) - least > 1 else None


def _emptiest(held: Mapping[int, Collection[int]], takers: list[int]) -> int:
    return min(takers, key=lambda node: (len(held[node]), node))
