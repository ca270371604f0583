"""Which lanes each node of a cluster should hold: the pure decision.

Owns the rule: lanes without an owner go to the nodes with the fewest lanes at once; what is left
moves a few lanes at a time, first away from nodes that drain, then from the fullest to the
emptiest, until no node has two lanes more than another. A lane is not for a node that cannot reach
its database, while another can. The same input gives the same answer on
every node, and the answer stays the same while a move is under way, so that nobody has to be in
charge. Never asks who is alive: the caller says so. Called by the view of the leases.
"""

from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

MOVES_MAX: Final = 4
"""So many lanes may be without an owner, or be on their way, because of a rebalance. A hand-over
takes some ten milliseconds, in which senders to that lane wait."""
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
    """By live node, the lanes it should hold now; `owners` has who holds a live lease."""
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
    """Every lane that changes its owner until all is even, in the order of the moves."""
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
    """What the live nodes hold, and what nobody does, or nobody who can serve it."""
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
    """Whether its owner cannot reach a lane, and another node can."""
    if lane not in unreachable.get(owner, ()):
        return False
    return any(lane not in unreachable.get(node, ()) for node in takers)


def _takers(nodes: Collection[int], draining: Collection[int]) -> list[int]:
    """Who may be given lanes. When every node drains, all go on: a lane is better served by a node
    that is about to end than by none."""
    return sorted(set(nodes) - set(draining)) or sorted(nodes)


def _deal(
    free: list[int], held: Mapping[int, set[int]], takers: list[int], unreachable: Unreachable
) -> None:
    """Give each lane that nobody holds to the node with the fewest that can reach it."""
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
    """The next moves, at most so many: from draining nodes first, then from the fullest."""
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
        left[target].insert(0, lane)  # what was moved is not moved again
        moves.append(Move(lane, origin, target))
    return moves


def _giver(left: Mapping[int, list[int]], takers: list[int]) -> int | None:
    """The next node to give a lane away; None when all is even."""
    leaving = [node for node in left if left[node] and node not in takers]
    if leaving:
        return leaving[0]
    fullest = max(takers, key=lambda node: (len(left[node]), -node))
    least = len(left[_emptiest(left, takers)])
    return fullest if len(left[fullest]) - least > 1 else None


def _emptiest(held: Mapping[int, Collection[int]], takers: list[int]) -> int:
    return min(takers, key=lambda node: (len(held[node]), node))
