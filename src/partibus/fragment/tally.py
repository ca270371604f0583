"""What has passed through a fragment since its process started.

Owns only the counters: integers, raised once per batch by the modules that decide, and read by
operators. They are not durable; a restart begins at zero, as Prometheus expects of a counter.
"""

from dataclasses import dataclass


@dataclass(eq=False)
class Tally:
    """The counters of one fragment."""

    incoming: int = 0
    """Messages that were stored, scheduled ones included."""
    outgoing: int = 0
    """Deliveries to receivers."""
    completed: int = 0
    abandoned: int = 0
    deferred: int = 0
    dead_lettered: int = 0
    expired: int = 0
    """Messages whose time to live has ended, dead-lettered or dropped."""
    lapsed: int = 0
    """Locks that ended because their time was up."""
    lost: int = 0
    """Settlements that came too late: the lock was gone."""
