"""Which process serves which lane, as those that serve them report.

Owns that table. A node reports its lanes, with the epoch of each, to every other node when they
connect and whenever a lane was opened or closed there; what it reports ends with the connection. Of
two that report the same lane the one with the higher epoch has it; the other has not noticed yet.
Leases are not looked at: a lane is reached where it is open. Fed by `cluster.peers` and by the
node; asked for every handle of a fragment.
"""

from collections.abc import Callable, Mapping


class LaneTable:
    """Lanes to the numbers of processes."""

    def __init__(self) -> None:
        self._served: dict[int, Mapping[int, int]] = {}
        self._servers: dict[int, tuple[int, int]] = {}
        self.on_moved: Callable[[int], None] | None = None
        """Called with a lane that is served elsewhere than before, or by nobody."""

    def reported(self, number: int, lanes: Mapping[int, int]) -> None:
        """A process serves these lanes, by their epochs, and no others."""
        before = self._served.get(number, {})
        self._served[number] = dict(lanes)
        for lane in sorted({*before, *lanes}):
            self._settle(lane)

    def server_of(self, lane: int) -> int | None:
        """The process that serves a lane; None when nobody is known to."""
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
