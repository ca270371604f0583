"""A clock that stands still until a test advances it.

Owns test time. Machines, brokers and gateways accept it in place of the system clock, so that no
test sleeps to see a lock lapse.
"""


class ManualClock:
    """Time controlled by a test."""

    __slots__ = ("_now_ms", "_stepped_ms", "_unseen_ms")

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._stepped_ms = 0
        self._unseen_ms = 0

    def now_ms(self) -> int:
        """The current time."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """The same, without the steps that were followed."""
        return self._now_ms - self._stepped_ms

    def advance_ms(self, delta_ms: int) -> int:
        """Let time pass; it never runs backwards."""
        assert delta_ms >= 0
        self._now_ms += delta_ms
        return self._now_ms

    def step_wall_ms(self, delta_ms: int) -> None:
        """Set the wall clock, which takes effect when it is followed."""
        self._unseen_ms += delta_ms

    def follow(self) -> int:
        """Apply the step; returns by how much."""
        delta_ms, self._unseen_ms = self._unseen_ms, 0
        self._now_ms += delta_ms
        self._stepped_ms += delta_ms
        return delta_ms
