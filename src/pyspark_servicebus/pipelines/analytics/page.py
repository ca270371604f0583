"""The traffic report as a page for a browser.

Owns the content of the page and its order: the finding, the important numbers, charts each with its
table, and every entity in a line. `pipelines.report.page` owns the look.
"""

from collections.abc import Sequence
from typing import Final

from partibus.domain.quantities import format_bytes
from pyspark_servicebus.pipelines.analytics.arithmetic import format_age, percent
from pyspark_servicebus.pipelines.analytics.report import TrafficReport
from pyspark_servicebus.pipelines.report.charts import Chart
from pyspark_servicebus.pipelines.report.page import Column, Page
from pyspark_servicebus.pipelines.report.text_table import moment

ROWS_SHOWN: Final = 100
SOURCES: Final = {
    "snapshot": "what waited in its entities",
    "captured": "captured messages",
    "stream": "what passed through its entities",
}
Table = tuple[str, Sequence[Column], list[tuple[object, ...]]]


def traffic_page(report: TrafficReport, charts: Sequence[Chart]) -> str:
    """The page; it is self-contained."""
    page = Page(
        title=report.headline(),
        over=f"Traffic of {report.namespace}, {SOURCES[report.source]} \u00b7 "
        f"{moment(report.taken_at)} UTC",
        footer="Times are UTC and those of enqueueing. Gini: 0 is even, 1 is all in one place.",
    )
    if report.entities:
        page.tiles(_tiles(report))
        tables = _tables(report)
        for chart in charts:
            page.chart(chart)
            if chart.name in tables:
                summary, columns, rows = tables[chart.name]
                page.table(columns, rows, summary)
        _entities(page, report)
    return page.render()


def _tiles(report: TrafficReport) -> list[tuple[str, str]]:
    first = min(entity.first for entity in report.entities)
    last = max(entity.last for entity in report.entities)
    span_s = (last - first).total_seconds() + report.window_s
    peak = max(report.entities, key=lambda entity: entity.rate_peak)
    tiles = [
        (f"{report.messages:,}", "messages"),
        (_rate(report.messages / span_s), f"on average, over {format_age(span_s)}"),
        (_rate(peak.rate_peak), "at the peak of one entity"),
        (f"{sum(entity.keys for entity in report.entities):,}", "keys"),
    ]
    if report.bytes:
        tiles.insert(1, (format_bytes(report.bytes), "in their bodies"))
    if report.ages:
        oldest = max(age.oldest_s for age in report.ages)
        tiles.append((format_age(oldest), "age of the oldest"))
    elif report.cursors:
        tiles.append((f"{max(cursor.lag for cursor in report.cursors):,}", "the largest lag"))
    return tiles


def _rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 100 else f"{rate:,.1f}/s"


def _tables(report: TrafficReport) -> dict[str, Table]:
    """The numbers behind the charts, by the name of the chart."""
    number = "number"
    tables: dict[str, Table] = {
        "fragments": (
            "Fragments as a table",
            [Column("Entity"), Column("Fragment", number), Column("Messages", number)],
            [(row.entity, row.fragment, f"{row.messages:,}") for row in report.fragments],
        ),
        "keys": (
            "Keys as a table",
            [Column("Entity"), Column("Key", "code"), Column("Messages", number)],
            [(row.entity, row.key, f"{row.messages:,}") for row in report.keys],
        ),
        "ages": (
            "Ages by entity",
            [Column("Entity"), *(Column(head, number) for head in ("Median", "95 %", "Oldest"))],
            [*report.age_rows()],
        ),
        "cursors": (
            "Cursors as a table",
            [Column("Entity"), Column("Cursor"), Column("Behind", number), Column("Moved", "time")],
            [*report.cursor_rows()],
        ),
    }
    return {
        name: (summary, columns, rows[:ROWS_SHOWN])
        for name, (summary, columns, rows) in tables.items()
    }


def _entities(page: Page, report: TrafficReport) -> None:
    entities = sorted(report.entities, key=lambda entity: -entity.messages)
    top = entities[0]
    share = percent(top.messages / report.messages)
    title = (
        f"All messages are in {top.entity}"
        if len(entities) == 1
        else f"{top.entity} has {share} of the messages"
    )
    page.section(title, "Rates are per second over the time from its first window to its last")
    heads = ("Messages", "", "Bytes", "Mean/s", "Peak/s", "Keys", "Gini of keys", "of fragments")
    columns = [Column("Entity")]
    columns += [Column(head, "number" if head else "bar") for head in heads]
    rows = [
        (
            entity.entity,
            f"{entity.messages:,}",
            entity.messages / top.messages,
            format_bytes(entity.bytes),
            f"{entity.rate_mean:,.2f}",
            f"{entity.rate_peak:,.2f}",
            f"{entity.keys:,}",
            f"{entity.key_gini:.2f}" if entity.keys else "-",
            f"{entity.fragment_gini:.2f}" if entity.fragments > 1 else "-",
        )
        for entity in entities[:ROWS_SHOWN]
    ]
    page.table(columns, rows)
