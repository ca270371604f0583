"""The clock of one simulated machine: time that passes, and a wall clock that somebody sets.

Owns the difference between the two, as the server's own clock does.
"""

from partibus.simulation.world import START_MS, World


class SimulatedClock:
    """Keeps the `Clock` contract in simulated time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._offset_ms = START_MS
        self._unseen_ms = 0

    def now_ms(self) -> int:
        """The time of day."""
        return self._world.now_us // 1000 + self._offset_ms

    def monotonic_ms(self) -> int:
        """The time that has passed."""
        return self._world.now_us // 1000

    def jump(self, delta_ms: int) -> None:
        """Set the wall clock; it shows when it is followed."""
        self._unseen_ms += delta_ms

    def follow(self) -> int:
        """Take the step over; answers by how much."""
        delta_ms, self._unseen_ms = self._unseen_ms, 0
        self._offset_ms += delta_ms
        return delta_ms
