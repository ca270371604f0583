"""The first half of the story: traffic, a store that goes down and comes back, and the count.

Owns the three phases, and what is known of the traffic when it is over. The waits here
are the story itself: this is how long the shop sells before, during and after the outage.
"""

import time
from dataclasses import dataclass, field
from typing import Final

from demo.billing import Billing
from demo.bus import Bus
from demo.senders import Sale, Shop

PHASE_SECONDS: Final = 8.0
SETTLING_SECONDS_MAX: Final = 90.0
LAME_STORE: Final = 2


@dataclass(slots=True)
class Outage:
    """When a store was down. A command takes time: each end is requested first, and then there."""

    asked_down_at: float = 0.0
    down_at: float = 0.0
    asked_up_at: float = 0.0
    up_at: float = 0.0

    @property
    def seconds(self) -> float:
        """How long the store was down, at least."""
        return self.asked_up_at - self.down_at


@dataclass(slots=True)
class Traffic:
    """What the shop and billing knew when both had closed."""

    sales: dict[str, Sale] = field(default_factory=dict)
    """The orders that were acknowledged, by their ids."""
    refused_sends: int = 0
    abandoned: int = 0
    booked: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    seen_again: int = 0
    outage: Outage = field(default_factory=Outage)
    seconds: float = 0.0

    @property
    def lost(self) -> set[str]:
        """Acknowledged, but not dealt with by billing."""
        return set(self.sales) - self.booked - self.rejected - self.stuck


def trade(bus: Bus, billing: Billing, phase_seconds: float, tell: "Tell") -> Traffic:
    """Sell and book during an outage of one store, until every order has been dealt with."""
    shop = Shop(bus.connection_string)
    traffic = Traffic()
    began = time.monotonic()
    shop.open()
    billing.open()
    try:
        shop.wait_until_open()
        time.sleep(phase_seconds)
        tell(f"{len(shop.sales):,} orders so far; now store {LAME_STORE} goes down.")
        _break_a_store(bus, traffic.outage, phase_seconds)
        tell(f"Store {LAME_STORE} is back; {len(shop.sales):,} orders so far.")
        time.sleep(phase_seconds)
        shop.close()
        _settle(shop, billing)
    finally:
        shop.close()
        billing.close()
    traffic.seconds = time.monotonic() - began
    traffic.sales = shop.sales
    traffic.refused_sends = sum(shop.refusals.values())
    traffic.abandoned = len(shop.abandoned)
    traffic.booked, traffic.rejected = billing.booked, billing.rejected
    traffic.stuck, traffic.seen_again = billing.stuck, billing.seen_again
    return traffic


def _break_a_store(bus: Bus, outage: Outage, phase_seconds: float) -> None:
    outage.asked_down_at = time.time()
    bus.command("fault", "store", str(LAME_STORE), "down")
    outage.down_at = time.time()
    time.sleep(phase_seconds)
    outage.asked_up_at = time.time()
    bus.command("fault", "store", str(LAME_STORE), "up")
    outage.up_at = time.time()


def _settle(shop: Shop, billing: Billing) -> None:
    """Wait until every order has been booked, rejected or given up."""
    until = time.monotonic() + SETTLING_SECONDS_MAX
    while time.monotonic() < until:
        done = billing.dealt_with()
        if not set(shop.sales) - done:
            return
        time.sleep(0.2)


class Tell:
    """Prints what happens in the story, with the seconds since it began."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", flush=True)
