"""Which process serves which lane, as reported by those processes.

Owns that table. A node reports its lanes, with the epoch of each, to every other node when they
connect and whenever a lane is opened or closed there; its report is valid as long as the
connection. Of two nodes that report the same lane the one with the higher epoch has it; the other
has not noticed yet. Leases do not matter here: a lane is reached where it is open. Filled by
`cluster.peers` and by the node; read for every handle of a fragment.
"""

from collections.abc import Callable, Mapping


class LaneTable:
    """Lanes to the numbers of processes."""

    def __init__(self) -> None:
        self._served: dict[int, Mapping[int, int]] = {}
        self._servers: dict[int, tuple[int, int]] = {}
        self.on_moved: Callable[[int], None] | None = None
        """Called with a lane that is served by another process than before, or by none."""

    def reported(self, number: int, lanes: Mapping[int, int]) -> None:
        """A process serves exactly these lanes, by their epochs."""
        before = self._served.get(number, {})
        self._served[number] = dict(lanes)
        for lane in sorted({*before, *lanes}):
            self._settle(lane)

    def server_of(self, lane: int) -> int | None:
        """The process that serves a lane; None when none is known."""
        found = self._servers.get(lane)
        return None if found is None else found[1]

    def epoch_of(self, lane: int) -> int | None:
        """The epoch under which a lane is served."""
        found = self._servers.get(lane)
        return None if found is None else found[0]

    def _settle(self, lane: int) -> None:
        serving = [(lanes[lane], n) for n, lanes in self._served.items() if lane in lanes]
        before = self._servers.pop(lane, None)
        if serving:
            self._servers[lane] = max(serving)
        if self._servers.get(lane) != before and self.on_moved is not None:
            self.on_moved(lane)
