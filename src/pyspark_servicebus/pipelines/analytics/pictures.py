"""The charts of a traffic report: each says in its title what it shows.

Owns the findings and which charts are worth drawing for a report: one without messages has none,
one without keys none of keys. `chart_marks` draws the elements.
"""

import datetime
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from partibus.domain.quantities import format_bytes
from pyspark_servicebus.pipelines.analytics.arithmetic import (
    AGE_NAMES,
    concentration,
    format_age,
    largest,
    longest_gap,
    percent,
    share_of_top,
    steps,
)
from pyspark_servicebus.pipelines.analytics.report import (
    EntityTraffic,
    TrafficReport,
    TrafficWindow,
)
from pyspark_servicebus.pipelines.report.charts import Chart, Theme
from pyspark_servicebus.pipelines.report.text_table import short
from pyspark_servicebus.pipelines.report.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SERIES_MAX: Final = 5
KEYS_SHOWN: Final = 12
CURSORS_SHOWN: Final = 12
COLUMNS_MAX: Final = 80
EVEN: Final = 0.2
"""A Gini coefficient below which shares are called even."""
DELIVERIES_SHOWN: Final = 10
STEADY: Final = 0.7
"""A rate that falls below this share of its mean is not steady."""
GAP_MESSAGES: Final = 5
"""A step without messages is a gap if this many are to be expected."""


def charts_of(report: TrafficReport) -> list[Chart]:
    """The charts of a report, in the order of the page."""
    if not report.entities:
        return []
    made = [rate_chart(report), bytes_chart(report) if report.bytes else None]
    made += [fragment_chart(report), key_chart(report), concentration_chart(report)]
    made += [age_chart(report), delivery_chart(report), cursor_chart(report)]
    return [chart for chart in made if chart is not None]


# --- over time --------------------------------------------------------------------------------


def rate_chart(report: TrafficReport) -> Chart:
    """Messages a second, by entity."""
    return _over_time(
        report,
        "rate",
        lambda window: window.messages,
        lambda rate: f"{rate:,.1f} messages/s" if rate < 100 else f"{rate:,.0f} messages/s",
        "Messages enqueued per second",
    )


def bytes_chart(report: TrafficReport) -> Chart:
    """Bytes of bodies a second, by entity."""
    return _over_time(
        report,
        "bytes",
        lambda window: window.bytes,
        lambda rate: f"{format_bytes(round(rate))}/s",
        "Bytes of message bodies enqueued per second",
    )


def _over_time(
    report: TrafficReport,
    name: str,
    measure: Callable[[TrafficWindow], int],
    spoken: Callable[[float], str],
    what: str,
) -> Chart:
    width = datetime.timedelta(seconds=report.window_s)
    sums: dict[datetime.datetime, float] = {}
    for window in report.windows:
        sums[window.start] = sums.get(window.start, 0.0) + measure(window)
    step, starts, values = steps(sums, width, COLUMNS_MAX)
    rates = [value / step.total_seconds() for value in values]
    mean = sum(rates) / len(rates)
    title = _course(rates, starts, step, spoken)
    series = _series(report, measure, starts, step)

    def draw(axes: "Axes", theme: Theme) -> None:
        from pyspark_servicebus.pipelines.report.chart_marks import bytes_on, level, stacked_columns

        stacked_columns(axes, theme, starts, series, step)
        if name == "bytes":
            bytes_on(axes)
        if len(rates) > 2:
            level(axes, theme, mean, "mean\n" + spoken(mean).removesuffix(" messages/s"))

    subtitle = f"{what}, in steps of {format_age(step.total_seconds())} (UTC)"
    return Chart(name, title, subtitle, draw)


def _course(
    rates: list[float],
    starts: list[datetime.datetime],
    step: datetime.timedelta,
    spoken: Callable[[float], str],
) -> str:
    """How the rates developed, as a sentence: a gap, a peak, a dip, or steady."""
    if len(rates) == 1:
        return f"Everything came within {format_age(step.total_seconds())}: {spoken(rates[0])}"
    mean, peak = sum(rates) / len(rates), largest(rates)
    at = "%H:%M:%S" if step < datetime.timedelta(minutes=1) else "%H:%M on %d %b"
    gap = longest_gap(rates)
    # With few messages, steps without any are not a finding; and a high peak is the bigger one.
    busy = sum(rates) / (len(rates) - rates.count(0))
    if gap is not None and busy * step.total_seconds() >= GAP_MESSAGES and rates[peak] < 2 * busy:
        length = format_age(gap[1] * step.total_seconds())
        since = starts[gap[0]].strftime(at)
        return f"{spoken(mean)} on average, with nothing at all for {length} from {since} on"
    if rates[peak] >= 1.5 * mean:
        factor, when = f"{rates[peak] / mean:.1f}".removesuffix(".0"), starts[peak].strftime(at)
        return f"The peak of {spoken(rates[peak])}, at {when}, is {factor} times the mean"
    # The first and the last step may be incomplete.
    low = min(range(1, len(rates) - 1), key=rates.__getitem__, default=0)
    if len(rates) > 2 and rates[low] < STEADY * mean:
        when = starts[low].strftime(at)
        return f"{spoken(mean)} on average, down to {spoken(rates[low])} at {when}"
    return f"A steady {spoken(mean)} on average, {spoken(rates[peak])} at most"


def _series(
    report: TrafficReport,
    measure: Callable[[TrafficWindow], int],
    starts: list[datetime.datetime],
    step: datetime.timedelta,
) -> dict[str, list[float]]:
    """Rates by entity, the largest first, the small ones combined."""
    totals: Counter[str] = Counter()
    for window in report.windows:
        totals[window.entity] += measure(window)
    order = sorted(totals, key=lambda entity: (-totals[entity], entity))
    named = order if len(order) <= SERIES_MAX + 1 else order[:SERIES_MAX]
    names = [*named, "others"] if len(order) > len(named) else named
    series = {name: [0.0] * len(starts) for name in names}
    for window in report.windows:
        name = window.entity if window.entity in series else "others"
        place = (window.start - starts[0]) // step
        series[name][place] += measure(window) / step.total_seconds()
    return series


# --- skew -------------------------------------------------------------------------------------


def fragment_chart(report: TrafficReport) -> Chart | None:
    """The fragments of the entity with the greatest skew."""
    parted = [entity for entity in report.entities if entity.fragments > 1]
    if not parted:
        return None
    entity = max(parted, key=lambda one: (one.fragment_gini * one.messages**0.5, one.messages))
    values = [0.0] * entity.fragments
    for fragment in report.fragments:
        if fragment.entity == entity.entity:
            values[fragment.fragment] = fragment.messages
    top, even = largest(values), entity.messages / entity.fragments
    share = percent(values[top] / entity.messages)
    where = short(entity.entity, 30)
    empty = sum(not value for value in values)
    if entity.fragment_gini < EVEN:
        title = f"The fragments of {where} are evenly filled: {share} in the fullest"
    else:
        factor = f"{values[top] / even:.1f}".removesuffix(".0")
        title = f"Fragment {top} of {where} has {share}, {factor} times an even share"
    idle = f", {counted(empty, 'fragment')} without any" if empty else ""
    subtitle = f"Messages in each fragment; Gini {entity.fragment_gini:.2f}{idle}"

    def draw(axes: "Axes", theme: Theme) -> None:
        from pyspark_servicebus.pipelines.report.chart_marks import columns, format_number, level

        hot = [top] if entity.fragment_gini >= EVEN else []
        texts = [format_number(value) if n in hot else "" for n, value in enumerate(values)]
        columns(axes, theme, [str(n) for n in range(len(values))], values, hot, texts=texts)
        axes.set_xlabel("fragment")
        level(axes, theme, even, f"even share\n{format_number(even)}")

    return Chart("fragments", title, subtitle, draw)


def key_chart(report: TrafficReport) -> Chart | None:
    """The hottest keys over all entities."""
    if not report.keys:
        return None
    keys = sorted(report.keys, key=lambda key: (-key.messages, key.entity, key.key))[:KEYS_SHOWN]
    by_entity = {entity.entity: entity for entity in report.entities}
    shares = [key.messages / _keyed(by_entity[key.entity]) for key in keys]
    several = len({key.entity for key in report.keys}) > 1
    labels = [f"{key.key}  ({short(key.entity, 16)})" if several else key.key for key in keys]
    texts = [f"{key.messages:,}  ({percent(s)})" for key, s in zip(keys, shares, strict=True)]
    total = sum(entity.keys for entity in report.entities)
    hot = [n for n, share in enumerate(shares) if share >= 0.1 and total > KEYS_SHOWN]
    first = short(keys[0].key, 28)
    if hot:
        share = percent(shares[hot[0]])
        first, where = short(keys[hot[0]].key, 28), short(keys[hot[0]].entity, 24)
        title = f"The key {first} carries {share} of the messages of {where}"
    else:
        title = f"No key stands out: the hottest, {first}, has {percent(shares[0])}"
    subtitle = f"Messages of the hottest of {total:,} keys (session or partition key)"

    def draw(axes: "Axes", theme: Theme) -> None:
        from pyspark_servicebus.pipelines.report.chart_marks import bars

        bars(axes, theme, labels, [key.messages for key in keys], texts, hot)

    return Chart("keys", title, subtitle, draw, 0.9 + 0.3 * len(keys))


def concentration_chart(report: TrafficReport) -> Chart | None:
    """Which share of the messages the hottest keys have."""
    entities = [one for one in report.entities if one.keys >= KEYS_SHOWN]
    if not entities:
        return None
    entity = max(entities, key=lambda one: (one.key_gini, one.messages))
    counts = report.key_counts[entity.entity]
    xs, ys = concentration(counts)
    share = share_of_top(counts, 0.1)
    title = f"The hottest tenth of the keys of {short(entity.entity, 24)} has {percent(share)}"
    title += " of the messages"
    subtitle = f"Share of messages by share of {entity.keys:,} keys, the hottest first; "
    subtitle += f"Gini {entity.key_gini:.2f}"

    def draw(axes: "Axes", theme: Theme) -> None:
        from pyspark_servicebus.pipelines.report.chart_marks import curve

        curve(axes, theme, xs, ys, (0.1, share, f"10 % of keys, {percent(share)} of messages"))

    return Chart("concentration", title, subtitle, draw)


def _keyed(entity: EntityTraffic) -> int:
    return max(1, entity.messages - entity.without_key)


# --- what waits -------------------------------------------------------------------------------


def age_chart(report: TrafficReport) -> Chart | None:
    """How old the waiting messages are."""
    if not report.ages:
        return None
    counts = _together(report.age_buckets)
    values = [float(counts.get(bucket, 0)) for bucket in range(len(AGE_NAMES))]
    oldest = max(report.ages, key=lambda age: age.oldest_s)
    total, young = sum(values), sum(values[:3])
    if young == total:
        title = (
            f"Nothing waits longer than a minute: the oldest is {format_age(oldest.oldest_s)} old"
        )
    else:
        share = percent((total - young) / total) if young else "All"
        title = f"{share} wait longer than a minute, the oldest for "
        title += f"{format_age(oldest.oldest_s)}"
        title += f" in {short(oldest.entity, 24)}" if len(report.ages) > 1 else ""

    def draw(axes: "Axes", theme: Theme) -> None:
        from pyspark_servicebus.pipelines.report.chart_marks import columns, format_number

        texts = [format_number(value) if value else "" for value in values]
        columns(axes, theme, AGE_NAMES, values, texts=texts)

    subtitle = "Messages by the time since they were enqueued, when they were looked at"
    return Chart("ages", title, subtitle, draw)


def delivery_chart(report: TrafficReport) -> Chart | None:
    """How often waiting messages were delivered before."""
    counts = _together(report.deliveries)
    total = sum(counts.values())
    again = total - counts.get(0, 0)
    if not again:
        return None
    last = min(max(counts), DELIVERIES_SHOWN)
    values = [float(counts.get(value, 0)) for value in range(last + 1)]
    values[last] += sum(count for value, count in counts.items() if value > last)
    labels = [str(value) for value in range(last + 1)]
    if max(counts) > last:
        labels[last] += " or more"
    title = (
        f"{percent(again / total)} of what waits was delivered before, up to {max(counts)} times"
    )

    def draw(axes: "Axes", theme: Theme) -> None:
        from pyspark_servicebus.pipelines.report.chart_marks import columns, format_number

        texts = [format_number(value) if value else "" for value in values]
        columns(axes, theme, labels, values, range(1, last + 1), texts=texts)
        axes.set_xlabel("deliveries that did not end well")

    subtitle = "Messages by their delivery count; 0 is those that nobody has received yet"
    return Chart("deliveries", title, subtitle, draw)


def cursor_chart(report: TrafficReport) -> Chart | None:
    """How far cursors are behind."""
    cursors = report.cursors[:CURSORS_SHOWN]
    if not cursors:
        return None
    behind = [cursor for cursor in report.cursors if cursor.lag]
    if behind:
        first = behind[0]
        title = f"{counted(len(behind), 'cursor')} behind; {short(first.cursor, 24)} of "
        title += f"{short(first.entity, 24)} by {counted(first.lag, 'message')}"
    else:
        title = f"All {counted(len(report.cursors), 'cursor')} have read everything"
        title = title.replace("All 1 cursor have", "The one cursor has")
    labels = [f"{cursor.cursor}  ({short(cursor.entity, 16)})" for cursor in cursors]
    texts = [f"{cursor.lag:,}" for cursor in cursors]

    def draw(axes: "Axes", theme: Theme) -> None:
        from pyspark_servicebus.pipelines.report.chart_marks import bars

        bars(axes, theme, labels, [cursor.lag for cursor in cursors], texts)

    subtitle = "Messages between the cursor and the end of its entity"
    return Chart("cursors", title, subtitle, draw, 0.8 + 0.32 * len(cursors))


def _together(by_entity: Mapping[str, Mapping[int, int]]) -> dict[int, int]:
    sums: Counter[int] = Counter()
    for counts in by_entity.values():
        sums.update(counts)
    return sums
