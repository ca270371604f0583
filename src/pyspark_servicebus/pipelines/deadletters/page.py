"""The dead-letter report as a page for a browser.

Owns the content of the page and its order: the finding, when the messages arrived, the causes with
samples, what rules do. `pipelines.report.page` owns the look.
"""

import datetime
from collections import Counter
from html import escape
from typing import TYPE_CHECKING, Final

from partibus.domain.quantities import format_bytes
from pyspark_servicebus.pipelines.deadletters.report import Cause, DeadLetterReport
from pyspark_servicebus.pipelines.report.charts import Chart, Theme
from pyspark_servicebus.pipelines.report.page import Column, Page, table_html
from pyspark_servicebus.pipelines.report.text_table import moment
from pyspark_servicebus.pipelines.report.wording import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REASONS_SHOWN: Final = 5
CAUSES_SHOWN: Final = 50
COLUMNS_MAX: Final = 120
_HOUR: Final = datetime.timedelta(hours=1)


def dead_letter_page(report: DeadLetterReport) -> str:
    """The page; it is self-contained."""
    page = Page(
        title=report.headline(),
        over=f"Dead letters of {report.namespace} \u00b7 {moment(report.taken_at)} UTC",
        footer="Times are UTC. Bodies and texts are shortened; control characters are left out.",
    )
    if report.total:
        _tiles(page, report)
        page.chart(hours_chart(report))
        _causes(page, report)
    if report.has_rules:
        _rules(page, report)
    return page.render()


def _tiles(page: Page, report: DeadLetterReport) -> None:
    newest = max(cause.last for cause in report.causes)
    oldest = min(cause.first for cause in report.causes)
    tiles = [
        (f"{report.total:,}", "dead letters"),
        (f"{len(report.counted):,}", f"of {report.entities_looked_at:,} entities have some"),
        (f"{len(report.causes) + report.causes_left_off:,}", "causes"),
        (format_bytes(sum(cause.body_bytes for cause in report.causes)), "in their bodies"),
        (_ago(report.taken_at - oldest), "age of the oldest"),
        (_ago(report.taken_at - newest), "age of the newest"),
    ]
    page.tiles(tiles)


# --- when they came ---------------------------------------------------------------------------


def hours_chart(report: DeadLetterReport) -> Chart:
    """Dead letters by the time their messages were enqueued, and by reason."""
    width, times, series = _series(report)
    totals = [round(sum(values)) for values in zip(*series.values(), strict=True)]
    peak = max(range(len(totals)), key=totals.__getitem__)
    share = round(100 * totals[peak] / report.total)
    is_hourly = width < datetime.timedelta(days=1)
    when = times[peak].strftime("at %H:%M on %d %b" if is_hourly else "on %d %b")
    span = "hour" if width == _HOUR else f"{width // _HOUR} hours"
    title = (
        f"All of them came within one {span}, {when}"
        if len([total for total in totals if total]) == 1
        else f"The peak came {when}: {totals[peak]:,}, or {share} % of all"
    )

    def draw(axes: "Axes", theme: Theme) -> None:
        from pyspark_servicebus.pipelines.report.chart_marks import stacked_columns

        stacked_columns(axes, theme, times, series, width)

    subtitle = f"Dead letters by reason, per {span} in which the message was enqueued (UTC)"
    return Chart("hours", title, subtitle, draw)


def _series(
    report: DeadLetterReport,
) -> tuple[datetime.timedelta, list[datetime.datetime], dict[str, list[float]]]:
    """Columns of equal width without gaps, few enough to be readable, and their parts by reason."""
    first = min(hour.hour for hour in report.hours)
    last = max(hour.hour for hour in report.hours)
    hours = (last - first) // _HOUR + 1
    step = -(-hours // COLUMNS_MAX)
    # A single column shows no time course; a few empty ones around it do.
    around = max(0, 11 - hours // step)
    width = _HOUR * step
    start = first - around // 2 * width
    times = [start + n * width for n in range(-(-hours // step) + around)]
    reasons = Counter[str]()
    for hour in report.hours:
        reasons[hour.reason] += hour.count
    named = [reason for reason, _ in reasons.most_common(REASONS_SHOWN)]
    names = [*named, "others"] if len(reasons) > len(named) else named
    series = {name: [0.0] * len(times) for name in names}
    for hour in report.hours:
        name = hour.reason if hour.reason in named else "others"
        series[name][(hour.hour - start) // width] += hour.count
    return width, times, series


# --- causes -----------------------------------------------------------------------------------


def _causes(page: Page, report: DeadLetterReport) -> None:
    causes = report.causes
    few, total = 0, 0
    for cause in causes:
        few, total = few + 1, total + cause.count
        if total >= 0.8 * report.total:
            break
    title = f"{counted(few, 'cause')} {'stands' if few == 1 else 'stand'} for "
    title += f"{round(100 * total / report.total)} % of the dead letters"
    page.section(title, "Alike in entity, reason and text, but for numbers, ids and times")
    columns = (
        Column("Count", "number"),
        Column("", "bar"),
        Column("Entity"),
        Column("Reason"),
        Column("Text", "code"),
        Column("Newest", "time"),
    )
    rows = [
        (
            f"{cause.count:,}",
            cause.count / causes[0].count,
            cause.entity,
            cause.reason,
            cause.shape or "(no text)",
            _day(cause.last),
        )
        for cause in causes[:CAUSES_SHOWN]
    ]
    page.table(columns, rows)
    left = len(causes) + report.causes_left_off - CAUSES_SHOWN
    if left > 0:
        page.raw(f"<p>{counted(left, 'smaller cause')} not shown.</p>")
    _samples(page, causes[:CAUSES_SHOWN])


def _samples(page: Page, causes: tuple[Cause, ...]) -> None:
    if not any(cause.samples for cause in causes):
        return
    page.section("What such messages look like", "The newest of each cause, shortened")
    columns = (
        Column("Number", "number"),
        Column("Enqueued", "time"),
        Column("Id"),
        Column("Tries", "number"),
        Column("Text", "code"),
        Column("Body", "code"),
    )
    for cause in causes:
        rows = [
            (
                sample.sequence_number,
                _day(sample.enqueued_time),
                sample.message_id or "-",
                sample.attempts,
                sample.description or "-",
                sample.body_preview or f"({format_bytes(sample.body_bytes)})",
            )
            for sample in cause.samples
        ]
        if rows:
            summary = f"{cause.entity}: {cause.reason}, {cause.shape or 'no text'}"
            table = table_html(columns, rows)
            page.raw(
                f"<details><summary>{escape(summary)} <mark>{cause.count:,}</mark></summary>"
                f'<div class="scroll">{table}</div></details>'
            )


# --- rules ------------------------------------------------------------------------------------


def _rules(page: Page, report: DeadLetterReport) -> None:
    done = sum(rule.done for rule in report.rules)
    fits = sum(rule.matched for rule in report.rules if rule.action != "leave")
    if report.is_dry_run:
        title = f"The rules would act on {fits:,} of {report.total:,} dead letters"
        text = "A dry run: nothing was changed"
    else:
        title = f"The rules were carried out on {done:,} of {report.total:,} dead letters"
        text = "Each in a separate transaction"
    page.section(title, text)
    ends = ("Cannot",) if report.is_dry_run else ("Done", "Failed", "Gone", "Held")
    numbers = [Column(head, "number") for head in ("Fits", *ends)]
    rows = [report.rule_row(rule) for rule in report.rules]
    rows.append(("no rule", "left", f"{report.without_rule:,}", *[""] * len(ends)))
    page.table([Column("Rule"), Column("Action"), *numbers], rows)
    if report.problems:
        items = "".join(f"<li>{escape(problem)}</li>" for problem in report.problems)
        page.raw(f"<ul>{items}</ul>")


def _day(time: datetime.datetime) -> str:
    return time.strftime("%d %b %H:%M")


def _ago(span: datetime.timedelta) -> str:
    minutes = max(0, int(span.total_seconds())) // 60
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} days"
