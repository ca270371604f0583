"""The clock of one simulated machine: elapsed time, and a wall clock that can be set.

Owns the difference between the two, as the server's own clock does, and the rate of the machine's
time: a bad clock counts more or fewer milliseconds than the timers of its loop.
"""

from partibus.simulation.world import START_MS, World


class SimulatedClock:
    """Keeps the `Clock` contract in simulated time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._offset_ms = START_MS
        self._unseen_ms = 0
        self._rate = 1.0
        self._since_us = 0
        self._counted_us = 0.0

    def now_ms(self) -> int:
        """The time of day."""
        return self.monotonic_ms() + self._offset_ms

    def monotonic_ms(self) -> int:
        """The elapsed time."""
        passed_us = self._world.now_us - self._since_us
        return int(self._counted_us + passed_us * self._rate) // 1000

    def drift(self, rate: float) -> None:
        """From now on run at this rate."""
        now_us = self._world.now_us
        self._counted_us += (now_us - self._since_us) * self._rate
        self._since_us, self._rate = now_us, rate

    def jump(self, delta_ms: int) -> None:
        """Set the wall clock; it takes effect when it is followed."""
        self._unseen_ms += delta_ms

    def follow(self) -> int:
        """Apply the step; returns by how much."""
        delta_ms, self._unseen_ms = self._unseen_ms, 0
        self._offset_ms += delta_ms
        return delta_ms
