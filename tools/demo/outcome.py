"""What the demo promises, and whether the run has kept it: the figures of the report.

Owns the reconciliation. Every number here was counted in the run; a promise that is not kept makes
`make demo` fail.
"""

from dataclasses import dataclass
from typing import Final

from demo.bus import Place
from demo.figures import Timeline
from demo.outage import LAME_STORE, Traffic

KEPT: Final = "kept"
BROKEN: Final = "BROKEN"


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise, the figures behind it, and whether it was kept."""

    text: str
    figures: str
    is_kept: bool

    def line(self) -> str:
        return f"  {KEPT if self.is_kept else BROKEN:6}  {self.text}: {self.figures}"


@dataclass(frozen=True, slots=True)
class Captured:
    """What the capture says of the traffic."""

    rows: int
    orders: int
    """Distinct orders."""
    timeline: Timeline
    """When and where each was stored, with the outage in it."""
    places: list[Place]
    """Where the fragments of the topic live."""
    finding: str
    """What the analytics found, in a sentence."""


@dataclass(frozen=True, slots=True)
class Treated:
    """What became of the dead letters."""

    dead_letters: int
    causes: int
    sent_again: int
    parked: int
    left: int
    booked_in_the_end: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that was counted."""

    traffic: Traffic
    shipped: int
    captured: Captured
    treated: Treated
    total_seconds: float

    @property
    def is_kept(self) -> bool:
        return all(promise.is_kept for promise in self.promises())

    def promises(self) -> list[Promise]:
        """Every promise of the story, in its order."""
        return [*self._of_the_outage(), *self._of_the_capture(), *self._of_the_dead()]

    def _of_the_outage(self) -> list[Promise]:
        traffic, timeline = self.traffic, self.captured.timeline
        while_down, lame = timeline.while_down(), timeline.lame_while_down()
        sent = len(traffic.sales)
        express = sum(sale.order.is_express for sale in traffic.sales.values())
        return [
            Promise(
                "a store that is down takes only its own fragments with it",
                f"{while_down:,} orders were stored meanwhile, {lame} of them in store"
                f" {LAME_STORE}",
                while_down > 0 and lame == 0,
            ),
            Promise(
                "nothing acknowledged is lost",
                f"{sent:,} acknowledged, {len(traffic.lost)} lost",
                sent > 0 and not traffic.lost,
            ),
            Promise(
                "a refused order can be sent again",
                f"{traffic.refused_sends:,} refusals, {traffic.abandoned} orders given up",
                traffic.abandoned == 0,
            ),
            Promise(
                "the rule lets express orders through, and no others",
                f"{express:,} sent, {self.shipped:,} in shipping",
                express == self.shipped,
            ),
        ]

    def _of_the_capture(self) -> list[Promise]:
        sent, captured = len(self.traffic.sales), self.captured
        return [
            Promise(
                "the capture holds every order exactly once, despite retries",
                f"{sent:,} sent, {captured.rows:,} rows, {captured.orders:,} different orders",
                captured.rows == captured.orders == sent,
            )
        ]

    def _of_the_dead(self) -> list[Promise]:
        traffic, treated = self.traffic, self.treated
        sent = len(traffic.sales)
        died = len(traffic.rejected | traffic.stuck)
        return [
            Promise(
                "every failed order is a dead letter",
                f"{died:,} orders failed, {treated.dead_letters:,} dead letters,"
                f" {treated.causes} causes",
                died == treated.dead_letters,
            ),
            Promise(
                "every dead letter is dealt with",
                f"{treated.sent_again:,} sent again, {treated.parked:,} parked,"
                f" {treated.left} left",
                treated.sent_again + treated.parked == treated.dead_letters and not treated.left,
            ),
            Promise(
                "the books agree in the end",
                f"{treated.booked_in_the_end:,} booked + {treated.parked:,} parked"
                f" = {sent:,} orders",
                treated.booked_in_the_end + treated.parked == sent,
            ),
        ]
