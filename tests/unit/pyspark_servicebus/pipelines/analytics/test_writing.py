"""A report of made-up traffic: charts that say what is so, a page that loads nothing, tables."""

import datetime
import re
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from pyspark_servicebus.pipelines.analytics.arithmetic import histogram_of
from pyspark_servicebus.pipelines.analytics.pictures import charts_of, rate_chart
from pyspark_servicebus.pipelines.analytics.report import (
    Ages,
    CursorLag,
    FragmentTraffic,
    KeyTraffic,
    TrafficReport,
    TrafficWindow,
    entity_traffic,
)
from pyspark_servicebus.pipelines.analytics.writing import write_report

NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
PNG = b"\x89PNG\r\n\x1a\n"
NASTY = "<script>alert(1)</script>"


def traffic(hot_messages: int = 500) -> TrafficReport:
    """An hour of one queue, 20 messages a minute and a burst, with a hot key and fragment."""
    counts = [20] * 60
    counts[30] += hot_messages
    windows = [
        TrafficWindow(start=NOW + n * MINUTE, entity="orders", messages=count, bytes=100 * count)
        for n, count in enumerate(counts)
    ]
    total = sum(counts)
    per_fragment = [(total - hot_messages) // 4] * 4
    per_fragment[2] += hot_messages
    fragments = [
        FragmentTraffic(entity="orders", fragment=n, messages=count, bytes=100 * count)
        for n, count in enumerate(per_fragment)
    ]
    per_key = [hot_messages + 10, *([10] * 119)]
    keys = [
        KeyTraffic(entity="orders", key=f"{NASTY}-{n}", messages=count, bytes=100 * count)
        for n, count in enumerate(per_key[:20])
    ]
    key_counts = histogram_of(per_key)
    entity = entity_traffic("orders", windows, fragments, 4, keys, key_counts, MINUTE)
    return TrafficReport(
        source="snapshot",
        namespace="shop",
        taken_at=NOW,
        window_s=60,
        entities_looked_at=3,
        entities=(entity,),
        windows=tuple(windows),
        fragments=tuple(fragments),
        keys=tuple(keys),
        key_counts={"orders": key_counts},
        deliveries={"orders": {0: total - 5, 1: 3, 12: 2}},
        age_buckets={"orders": {0: 10, 4: total - 10}},
        ages=(Ages(entity="orders", median_s=700, p95_s=3000, oldest_s=3500),),
        cursors=(CursorLag(entity="orders", cursor="capture", lag=40, moved_at=NOW),),
    )


def test_the_line_of_an_entity() -> None:
    (entity,) = traffic().entities
    assert entity.messages == 1700
    assert entity.rate_mean == pytest.approx(1700 / 3600)
    assert entity.rate_peak == pytest.approx(520 / 60)
    assert entity.peak_at == NOW + 30 * MINUTE
    assert (entity.keys, entity.without_key) == (120, 0)
    assert entity.hottest_key_share == pytest.approx(510 / 1700)
    assert entity.fragment_gini == pytest.approx((500 * 3) / (1700 * 4))


def test_titles_say_the_finding() -> None:
    titles = {chart.name: chart.title for chart in charts_of(traffic())}
    assert titles == {
        "rate": "The peak of 8.7 messages/s, at 12:30 on 31 Jan, is 18.4 times the mean",
        "bytes": "The peak of 867 B/s, at 12:30 on 31 Jan, is 18.4 times the mean",
        "fragments": "Fragment 2 of orders has 47 %, 1.9 times an even share",
        "keys": "The key <script>alert(1)</script>-0 carries 30 % of the messages of orders",
        "concentration": "The hottest tenth of the keys of orders has 36 % of the messages",
        "ages": "99 % wait longer than a minute, the oldest for 58 min",
        "deliveries": "0.3 % of what waits was delivered before, up to 12 times",
        "cursors": "1 cursor behind; capture of orders by 40 messages",
    }


def test_even_traffic_is_called_so() -> None:
    report = traffic(0)
    cursors = tuple(replace(cursor, lag=0) for cursor in report.cursors)
    titles = {chart.name: chart.title for chart in charts_of(replace(report, cursors=cursors))}
    assert titles["rate"].startswith("A steady 0.3 messages/s on average")
    assert titles["fragments"] == "The fragments of orders are evenly filled: 25 % in the fullest"
    assert titles["keys"].startswith("No key stands out")
    assert titles["cursors"] == "The one cursor has read everything"


def with_rates(counts: list[int], width: datetime.timedelta) -> TrafficReport:
    windows = tuple(
        TrafficWindow(start=NOW + n * width, entity="orders", messages=count, bytes=0)
        for n, count in enumerate(counts)
        if count
    )
    return replace(traffic(), windows=windows, window_s=width.total_seconds())


def test_an_outage_is_not_called_steady() -> None:
    second = datetime.timedelta(seconds=1)
    gap = with_rates([100] * 10 + [0] * 3 + [100] * 10, second)
    assert rate_chart(gap).title == (
        "87.0 messages/s on average, with nothing at all for 3 s from 12:00:10 on"
    )
    dip = with_rates([100] * 10 + [30] * 3 + [100] * 10, second)
    assert (
        rate_chart(dip).title == "90.9 messages/s on average, down to 30.0 messages/s at 12:00:10"
    )


def test_the_first_and_the_last_step_may_be_cut_off() -> None:
    second = datetime.timedelta(seconds=1)
    rates = with_rates([20, *([100] * 20), 20], second)
    assert rate_chart(rates).title.startswith("A steady 92.7 messages/s on average")


def test_a_peak_within_seconds_is_told_to_the_second() -> None:
    peak = with_rates([10] * 10 + [100] + [10] * 10, datetime.timedelta(seconds=1))
    assert "at 12:00:10, is" in rate_chart(peak).title


def test_the_steps_are_those_of_a_clock() -> None:
    """200 seconds do not fit 80 columns of one second; they fit columns of five."""
    chart = rate_chart(with_rates([10] * 200, datetime.timedelta(seconds=1)))
    assert "in steps of 5 s" in chart.subtitle


def test_the_files(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "old.png").write_bytes(PNG)
    report = write_report(tmp_path, traffic())
    assert all(Path(name).exists() for name in report.written)
    charts = sorted((tmp_path / "charts").iterdir())
    assert [chart.stem for chart in charts] == sorted(chart.name for chart in charts_of(report))
    assert all(chart.read_bytes().startswith(PNG) for chart in charts)
    assert sum(parquet.read_table(tmp_path / "windows.parquet")["messages"].to_pylist()) == 1700
    page = (tmp_path / "report.html").read_text()
    assert NASTY not in page
    assert not re.search(r"(?:src|href|srcset)=\"(?!data:)", page)
    assert "url(" not in page
    assert page.count("<figure>") == 8


def test_a_report_of_nothing(tmp_path: Path) -> None:
    nothing = replace(
        traffic(), entities=(), windows=(), fragments=(), keys=(), key_counts={}, ages=()
    )
    report = write_report(tmp_path, nothing)
    assert report.as_text().startswith("No messages in 3 entities.")
    assert list((tmp_path / "charts").iterdir()) == []
