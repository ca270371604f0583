"""The elements of charts: lines and columns over time, bars with their numbers.

Owns axes and labels: times that read well at any span, numbers short enough to read, names cut
where they would run over. Each function draws on the axes that it is given.
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark_servicebus.pipelines.report.charts import Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_CHARACTERS_MAX: Final = 34
BINARY_STEP: Final = 1024
BINARY_UNITS: Final = ("B", "KiB", "MiB", "GiB")
Times = Sequence[datetime.datetime]


def format_number(value: float) -> str:
    """A number on an axis: 950, 12k, 1.5M."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.1f}".rstrip("0").rstrip(".") + unit
    return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 10 else f"{value:,.0f}"


def short_label(text: str, characters_max: int = LABEL_CHARACTERS_MAX) -> str:
    """A name beside a bar; of a long one both ends, which differ most."""
    if len(text) <= characters_max:
        return text
    head = characters_max * 2 // 3
    return f"{text[:head]}\u2026{text[head + 1 - characters_max :]}"


def numbers_on(axes: "Axes") -> None:
    """Short numbers beside the marks, which start at zero."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, at: format_number(value)))
    axes.set_ylim(0, None)


def bytes_on(axes: "Axes") -> None:
    """Bytes beside the marks, in round numbers of one unit."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    top = axes.get_ylim()[1]
    power = min(int(math.log(max(top, 1), BINARY_STEP)), len(BINARY_UNITS) - 1)
    size = BINARY_STEP**power
    ticks = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top / size)
    axes.yaxis.set_major_locator(FixedLocator([tick * size for tick in ticks]))
    unit = BINARY_UNITS[power]
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda value, at: f"{format_number(value / size)} {unit}" if value else "0")
    )
    axes.set_ylim(0, top)


def times_on(axes: "Axes", times: Times) -> None:
    """Times along the bottom, in UTC."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=9, tz=datetime.UTC)
    formats = ["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%H:%M:%S"]
    formatter = ConciseDateFormatter(
        locator,
        tz=datetime.UTC,
        formats=formats,
        zero_formats=["%Y", "%b %Y", "%d %b", "%d %b", "%H:%M", "%H:%M:%S"],
        offset_formats=["", "%Y", "%Y", "%d %b %Y", "%d %b %Y", "%d %b %Y"],
    )
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(formatter)
    pad = max((times[-1] - times[0]) * 0.01, datetime.timedelta(seconds=1))
    first, last = numbered([times[0] - pad, times[-1] + pad])
    axes.set_xlim(first, last)


def numbered(times: Times) -> list[float]:
    """Times as the numbers that stand for them on an axis."""
    from matplotlib.dates import date2num

    return [float(date2num(time)) for time in times]


def stacked_columns(
    axes: "Axes",
    theme: Theme,
    times: Times,
    series: Mapping[str, Sequence[float]],
    width: datetime.timedelta,
) -> None:
    """Columns over time, their parts by colour, with a legend above if there are several."""
    below = [0.0] * len(times)
    at = numbered([time + width / 2 for time in times])
    days = width / datetime.timedelta(days=1)
    for number, (name, values) in enumerate(series.items()):
        colour = theme.series[min(number, len(theme.series) - 1)]
        axes.bar(at, values, days * 0.86, below, color=colour, label=short_label(name))
        below = [low + value for low, value in zip(below, values, strict=True)]
    numbers_on(axes)
    times_on(axes, [times[0], times[-1] + width])
    if len(series) > 1:
        legend_above(axes, theme, len(series))


def legend_above(axes: "Axes", theme: Theme, count: int) -> None:
    """A legend in the order of the parts, out of the way of the marks."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=min(count, 3),
        frameon=False,
        labelcolor=theme.ink,
        handlelength=0.9,
        handleheight=0.9,
        columnspacing=1.6,
        borderaxespad=0.2,
    )


def columns(
    axes: "Axes",
    theme: Theme,
    labels: Sequence[str],
    values: Sequence[float],
    highlight: Sequence[int] = (),
    *,
    texts: Sequence[str] | None = None,
) -> None:
    """Columns side by side; highlighted ones in a warmer colour."""
    colours = [theme.warm if n in highlight else theme.accent for n in range(len(values))]
    bars = axes.bar(range(len(values)), values, 0.74, color=colours)
    step = max(1, math.ceil(len(labels) / 24))
    axes.set_xticks(range(0, len(labels), step), list(labels)[::step])
    if texts is not None and len(values) <= 20:
        axes.bar_label(bars, labels=list(texts), padding=3, color=theme.ink, fontsize=9.5)
    numbers_on(axes)
    axes.set_ylim(0, max(max(values, default=1), 1e-9) * 1.14)


def level(axes: "Axes", theme: Theme, value: float, words: str) -> None:
    """A level across columns, named beside them."""
    axes.axhline(value, color=theme.quiet, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.annotate(
        words,
        (1, value),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        color=theme.quiet,
        fontsize=9.5,
        annotation_clip=False,
    )


def bars(
    axes: "Axes",
    theme: Theme,
    labels: Sequence[str],
    values: Sequence[float],
    texts: Sequence[str],
    highlight: Sequence[int] = (),
) -> None:
    """Bars one below the other, the first on top, each with its number at the end."""
    colours = [theme.warm if n in highlight else theme.accent for n in range(len(values))]
    places = range(len(values))
    drawn = axes.barh(places, values, 0.68, color=colours)
    axes.set_yticks(list(places), [short_label(label) for label in labels])
    axes.tick_params(axis="y", labelcolor=theme.ink)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.set_xticks([])
    axes.bar_label(drawn, labels=list(texts), padding=5, color=theme.ink)
    axes.set_xlim(0, max(max(values, default=1), 1e-9) * 1.22)


def curve(
    axes: "Axes",
    theme: Theme,
    xs: Sequence[float],
    ys: Sequence[float],
    point: tuple[float, float, str],
) -> None:
    """Shares against shares, beside the line on which all are equal; one point is named."""
    from matplotlib.ticker import PercentFormatter

    axes.plot([0, 1], [0, 1], color=theme.quiet, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.annotate(
        "all equal",
        (0.62, 0.62),
        xytext=(6, -10),
        textcoords="offset points",
        color=theme.quiet,
        fontsize=9.5,
    )
    axes.fill_between(xs, ys, xs, color=theme.accent, alpha=0.14, linewidth=0)
    axes.plot(xs, ys, color=theme.accent, linewidth=2)
    x, y, words = point
    axes.plot([x], [y], "o", color=theme.warm, markersize=7)
    axes.annotate(
        words,
        (x, y),
        xytext=(10, -4 if y > 0.2 else 8),
        textcoords="offset points",
        va="top" if y > 0.2 else "bottom",
        color=theme.ink,
        fontweight="bold",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=" %"))
    axes.set_xlim(0, 1.005)
    axes.set_ylim(0, 1.03)
    axes.set_xlabel("keys, the hottest first")
    axes.set_ylabel("messages")
