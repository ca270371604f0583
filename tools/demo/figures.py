"""The plot of the outage: orders a second, store by store, as the captured messages tell it.

Owns the counting, which Spark does over the captured files, and the picture. What is drawn is when
the bus stored an order, not when the shop believed to have sent it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLOURS: Final = ("#4c78a8", "#72b7b2", "#e45756", "#b8b0ac")
INK: Final = "#333333"


@dataclass(frozen=True, slots=True)
class Rates:
    """Orders in each second, by store, counted in what was captured."""

    first_second: int
    by_store: dict[int, list[int]]

    def during(self, store: int, begin: float, end: float) -> int:
        """Orders that a store took in the whole seconds of a span."""
        first = int(begin) + 1 - self.first_second
        return sum(self.by_store[store][first : int(end) - self.first_second])


def rates(captured: "DataFrame", stores: dict[int, int]) -> Rates:
    """Count on Spark; the driver gets one row for a second and a fragment."""
    from pyspark.sql import functions as f

    second = f.unix_timestamp("enqueued_time").alias("second")
    rows = captured.groupBy(second, "fragment").count().collect()
    first = min(row["second"] for row in rows)
    last = max(row["second"] for row in rows)
    by_store = {store: [0] * (last - first + 1) for store in sorted(set(stores.values()))}
    for row in rows:
        by_store[stores[row["fragment"]]][row["second"] - first] += row["count"]
    return Rates(first, by_store)


def draw(counted: Rates, down_at: float, up_at: float, lame: int, file: Path) -> None:
    """Write the plot as PNG."""
    figure, axes = pyplot.subplots(figsize=(9.0, 3.8), dpi=130)
    seconds = range(len(next(iter(counted.by_store.values()))))
    stores = sorted(counted.by_store, key=lambda store: store != lame)
    labels = [f"store {store}" + (" (went down)" if store == lame else "") for store in stores]
    others = iter((COLOURS[0], COLOURS[1], COLOURS[3]))
    colours = [COLOURS[2] if store == lame else next(others) for store in stores]
    series = [counted.by_store[store] for store in stores]
    axes.stackplot(seconds, series, labels=labels, colors=colours, step="mid", linewidth=0)
    begin, end = down_at - counted.first_second, up_at - counted.first_second
    axes.axvspan(begin, end, color="#000000", alpha=0.10, linewidth=0)
    top = max(sum(parts) for parts in zip(*series, strict=True))
    axes.text((begin + end) / 2, top * 1.06, f"store {lame} down", ha="center", color=INK)
    axes.set_ylim(0, top * 1.2)
    axes.set_xlim(0, max(seconds))
    axes.set_xlabel("seconds", color=INK)
    axes.set_ylabel("orders stored per second", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)
