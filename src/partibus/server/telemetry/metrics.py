"""The metrics of `/metrics` as data points of OpenTelemetry.

Owns only the translation: names, labels and values come from `ops.metrics`, so that what a
collector receives and what Prometheus scrapes can never differ.
"""

from collections.abc import Iterable
from typing import Any, Final

from opentelemetry.sdk.metrics import export
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from partibus.domain.observing.histogram import BOUNDS_S
from partibus.ops.metrics import COUNTER, HISTOGRAM, LABELS, Row, Series, families

_CUMULATIVE: Final = export.AggregationTemporality.CUMULATIVE
_UNITS: Final = {"bytes": "By", "seconds": "s"}


def metrics_data(
    signals: dict[str, Any],
    resource: Resource,
    scope: InstrumentationScope,
    start_ns: int,
    now_ns: int,
) -> export.MetricsData:
    """Everything that a scrape would return now."""
    metrics = [
        _metric(series, rows, start_ns, now_ns) for series, rows in families(signals) if rows
    ]
    scoped = export.ScopeMetrics(scope, metrics, scope.schema_url or "")
    return export.MetricsData([export.ResourceMetrics(resource, [scoped], resource.schema_url)])


def _metric(series: Series, rows: Iterable[Row], start_ns: int, now_ns: int) -> export.Metric:
    unit = _UNITS.get(series.name.rpartition("_")[2], "1")
    return export.Metric(series.name, series.text, unit, _data(series, rows, start_ns, now_ns))


def _data(
    series: Series, rows: Iterable[Row], start_ns: int, now_ns: int
) -> export.Sum | export.Gauge | export.Histogram:
    labels = LABELS[series]
    named = [(dict(zip(labels, values, strict=True)), value) for values, value in rows]
    if series.kind == HISTOGRAM:
        points = [_histogram(found, value, start_ns, now_ns) for found, value in named]
        return export.Histogram(points, _CUMULATIVE)
    if series.kind == COUNTER:
        counts = [export.NumberDataPoint(found, start_ns, now_ns, value) for found, value in named]
        return export.Sum(counts, _CUMULATIVE, is_monotonic=True)
    return export.Gauge([export.NumberDataPoint(found, 0, now_ns, value) for found, value in named])


def _histogram(
    labels: dict[str, str], found: dict[str, Any], start_ns: int, now_ns: int
) -> export.HistogramDataPoint:
    counts = found["counts"]
    return export.HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=start_ns,
        time_unix_nano=now_ns,
        count=sum(counts),
        sum=found["sum_s"],
        bucket_counts=counts,
        explicit_bounds=BOUNDS_S,
        # The buckets do not have them, and both are optional in OTLP.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )
