"""What has passed through a fragment since its process started.

Owns only the counters: integers, raised once per batch by the modules that decide, and read by
operators. They are not durable; a restart begins at zero, as Prometheus expects of a counter.
"""


class Tally:
    """The counters of one fragment."""

    __slots__ = (
        "abandoned",
        "completed",
        "dead_lettered",
        "deferred",
        "expired",
        "incoming",
        "lapsed",
        "lost",
        "outgoing",
    )

    def __init__(self) -> None:
        self.incoming = 0
        """Messages that were stored, scheduled ones included."""
        self.outgoing = 0
        """Deliveries to receivers."""
        self.completed = 0
        self.abandoned = 0
        self.deferred = 0
        self.dead_lettered = 0
        self.expired = 0
        """Messages whose time to live has ended, dead-lettered or dropped."""
        self.lapsed = 0
        """Locks that ended because their time was up."""
        self.lost = 0
        """Settlements that came too late: the lock was gone."""
