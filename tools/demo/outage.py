"""The first half of the story: traffic, a store that goes down and comes back, and the count.

Owns the three phases, and what is known of the traffic when it is over. The waits here
are the story itself: this is how long the shop sells before, during and after the outage.
"""

import time
from dataclasses import dataclass, field
from typing import Final

from demo.billing import Billing
from demo.bus import Bus
from demo.orders import Order
from demo.senders import Shop

PHASE_SECONDS: Final = 8.0
SETTLING_SECONDS_MAX: Final = 90.0
LAME_STORE: Final = 2


@dataclass(slots=True)
class Traffic:
    """What the shop and billing knew when both had closed."""

    acknowledged: dict[str, Order] = field(default_factory=dict)
    refused_sends: int = 0
    abandoned: int = 0
    booked: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    seen_again: int = 0
    down_at: float = 0.0
    up_at: float = 0.0
    seconds: float = 0.0

    @property
    def lost(self) -> set[str]:
        """Acknowledged, and yet with nobody."""
        return set(self.acknowledged) - self.booked - self.rejected - self.stuck


def trade(bus: Bus, billing: Billing, phase_seconds: float, tell: "Tell") -> Traffic:
    """Sell and book through an outage of one store, until every order has been dealt with."""
    shop = Shop(bus.connection_string)
    traffic = Traffic()
    began = time.monotonic()
    shop.open()
    billing.open()
    try:
        time.sleep(phase_seconds)
        tell(f"{len(shop.acknowledged):,} orders; now store {LAME_STORE} goes down.")
        bus.command("fault", "store", str(LAME_STORE), "down")
        traffic.down_at = time.time()
        before = len(shop.acknowledged)
        time.sleep(phase_seconds)
        bus.command("fault", "store", str(LAME_STORE), "up")
        traffic.up_at = time.time()
        sold = len(shop.acknowledged) - before
        tell(f"Store {LAME_STORE} is back. {sold:,} orders were taken meanwhile by the others.")
        time.sleep(phase_seconds)
        shop.close()
        _settle(shop, billing)
    finally:
        shop.close()
        billing.close()
    traffic.seconds = time.monotonic() - began
    traffic.acknowledged = shop.acknowledged
    traffic.refused_sends = sum(shop.refusals.values())
    traffic.abandoned = len(shop.abandoned)
    traffic.booked, traffic.rejected = billing.booked, billing.rejected
    traffic.stuck, traffic.seen_again = billing.stuck, billing.seen_again
    return traffic


def _settle(shop: Shop, billing: Billing) -> None:
    """Wait until every order has been booked, rejected or given up."""
    until = time.monotonic() + SETTLING_SECONDS_MAX
    while time.monotonic() < until:
        done = billing.dealt_with()
        if not set(shop.acknowledged) - done:
            return
        time.sleep(0.2)


class Tell:
    """Says how the story goes on, with the seconds since it began."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", flush=True)
