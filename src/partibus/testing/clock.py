"""A clock that stands still until it is told to move.

Owns test time. Machines, brokers and gateways take it wherever they take the system clock,
so that no test sleeps to see a lock lapse.
"""


class ManualClock:
    """Time in the hands of a test."""

    __slots__ = ("_now_ms",)

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The present moment."""
        return self._now_ms

    def advance_ms(self, delta_ms: int) -> int:
        """Let time pass; it never runs backwards."""
        assert delta_ms >= 0
        self._now_ms += delta_ms
        return self._now_ms
