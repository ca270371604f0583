"""The charts of the outage: orders a second and how long they waited, on one axis of time.

Owns the counting and the picture. An order is counted when the bus stored it, according to the
capture, not when the shop sent it; how long it waited is what the shop measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from demo.outage import Outage
from demo.senders import Sale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame

HEALTHY: Final = ("#2f6fb0", "#38a3a5", "#8d6cab", "#7a7f87", "#b58900", "#5b8c3a")
LAME: Final = "#d1495b"
INK: Final = "#333333"
BIN_SECONDS: Final = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)
BINS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Stored:
    """An order as the capture has it: when the bus stored it, and where."""

    order_id: str
    at: float
    fragment: int
    store: int


def stored_orders(captured: "DataFrame", stores: dict[int, int]) -> list[Stored]:
    """Every captured order; Spark reads the files, the driver gets a short row for each."""
    at = captured["enqueued_time"].cast("double").alias("at")
    rows = captured.select("message_id", at, "fragment").collect()
    return [
        Stored(row["message_id"], row["at"], row["fragment"], stores[row["fragment"]])
        for row in rows
    ]


@dataclass(frozen=True)
class Timeline:
    """The orders of a run over time, with the outage of one store in it."""

    orders: list[Stored]
    sales: dict[str, Sale]
    lame: int
    outage: Outage

    @cached_property
    def begin(self) -> float:
        return min(order.at for order in self.orders)

    @cached_property
    def stores(self) -> list[int]:
        return sorted({order.store for order in self.orders} | {self.lame})

    @cached_property
    def seconds(self) -> float:
        """From the first order to the last."""
        return max(max(order.at for order in self.orders) - self.begin, BIN_SECONDS[0])

    @cached_property
    def bin_count(self) -> int:
        """As many equal bins as fit the whole span, so that none of them is cut off."""
        few = (width for width in BIN_SECONDS if self.seconds / width <= BINS_MAX)
        return max(1, round(self.seconds / next(few, self.seconds / BINS_MAX)))

    @cached_property
    def bin_seconds(self) -> float:
        return self.seconds / self.bin_count

    def bin_of(self, at: float) -> int:
        return max(0, min(self.bin_count - 1, int((at - self.begin) / self.bin_seconds)))

    def rates(self, store: int) -> list[float]:
        """Orders a second that a store took, bin by bin."""
        counts = [0] * self.bin_count
        for order in self.orders:
            if order.store == store:
                counts[self.bin_of(order.at)] += 1
        return [count / self.bin_seconds for count in counts]

    def waits(self) -> list[list[float]]:
        """Bin by bin, how long orders for the other stores waited for the bus, in milliseconds."""
        found: list[list[float]] = [[] for _ in range(self.bin_count)]
        for order in self._elsewhere():
            sale = self.sales[order.order_id]
            found[self.bin_of(sale.at)].append(sale.seconds * 1000)
        return found

    def while_down(self) -> int:
        """Orders that were stored in the outage."""
        return sum(self._is_in_outage(order.at) for order in self.orders)

    def lame_while_down(self) -> int:
        """Those of them in the store that was down."""
        return sum(
            self._is_in_outage(order.at) and order.store == self.lame for order in self.orders
        )

    def share_kept(self) -> float:
        """The rate of the other stores during the outage, as a share of the rate before it."""
        times = [order.at for order in self.orders if order.store != self.lame]
        begun = self.outage.asked_down_at
        before = sum(at < begun for at in times) / max(begun - self.begin, 1e-3)
        during = sum(map(self._is_in_outage, times)) / max(self.outage.seconds, 1e-3)
        return during / before if before else 0.0

    def rate_title(self) -> str:
        """What the upper chart shows."""
        taken, others = self.lame_while_down(), len(self.stores) - 1
        return (
            f"Store {self.lame} was down for {self.outage.seconds:.1f} s and took"
            f" {taken or 'no'} orders; the other {others} continued at"
            f" {100 * self.share_kept():.0f} % of their previous rate"
        )

    def wait_title(self) -> str:
        """What the lower chart shows."""
        before, during = [], []
        for order in self._elsewhere():
            sale = self.sales[order.order_id]
            if sale.at < self.outage.asked_down_at:
                before.append(sale.seconds * 1000)
            elif self._is_in_outage(sale.at):
                during.append(sale.seconds * 1000)
        if not before or not during:
            return "How long orders waited for the bus to acknowledge them"
        return (
            f"Half of the orders for the other stores waited less than {median(before):.0f} ms"
            f" before the outage, and {median(during):.0f} ms during it"
        )

    def _is_in_outage(self, at: float) -> bool:
        return self.outage.down_at <= at < self.outage.asked_up_at

    def _elsewhere(self) -> Iterable[Stored]:
        """Orders for the stores that were never down, if they succeeded at the first attempt."""
        for order in self.orders:
            sale = self.sales.get(order.order_id)
            if order.store != self.lame and sale is not None and sale.is_first_try:
                yield order


def draw(timeline: Timeline, file: Path) -> None:
    """Write both charts as one PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 6.2), dpi=130)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    edges = [n * timeline.bin_seconds for n in range(timeline.bin_count + 1)]
    _draw_rates(upper, timeline, edges)
    _draw_waits(lower, timeline, edges)
    for axes in (upper, lower):
        _shade(axes, timeline)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK)
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    lower.set_xlim(0, edges[-1])
    lower.set_xlabel("seconds since the first order", color=INK)
    figure.tight_layout()
    figure.savefig(file)


def _shade(axes: "Axes", timeline: Timeline) -> None:
    """The outage; paler while the commands that begin and end it were running."""
    outage, begin = timeline.outage, timeline.begin
    axes.axvspan(
        outage.asked_down_at - begin, outage.up_at - begin, color="#000000", alpha=0.04, linewidth=0
    )
    axes.axvspan(
        outage.down_at - begin, outage.asked_up_at - begin, color="#000000", alpha=0.06, linewidth=0
    )


def _draw_rates(axes: "Axes", timeline: Timeline, edges: list[float]) -> None:
    colours = iter(HEALTHY * len(timeline.stores))
    top = 0.0
    for store in timeline.stores:
        rates = timeline.rates(store)
        top = max(top, *rates)
        is_lame = store == timeline.lame
        colour, width = (LAME, 2.4) if is_lame else (next(colours), 1.6)
        label = f"store {store}" + (" (went down)" if is_lame else "")
        axes.stairs(rates, edges, color=colour, linewidth=width, label=label, baseline=None)
    outage = timeline.outage
    middle = (outage.down_at + outage.asked_up_at) / 2 - timeline.begin
    axes.text(middle, top * 1.08, f"store {timeline.lame} down", ha="center", color=INK)
    axes.set_ylim(0, top * 1.2)
    axes.set_ylabel("orders stored per second", color=INK)


def _draw_waits(axes: "Axes", timeline: Timeline, edges: list[float]) -> None:
    waits = timeline.waits()
    middles = [median(bin_) if bin_ else float("nan") for bin_ in waits]
    slow = [_p95(bin_) for bin_ in waits]
    axes.stairs(middles, edges, color=HEALTHY[0], linewidth=1.8, label="median", baseline=None)
    axes.stairs(slow, edges, color=HEALTHY[3], linewidth=1.2, label="95 % below", baseline=None)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("milliseconds to the\nacknowledgement", color=INK)


def _p95(waits: list[float]) -> float:
    if len(waits) < 2:
        return waits[0] if waits else float("nan")
    return quantiles(waits, n=20, method="inclusive")[-1]
