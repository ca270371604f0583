"""The metrics of `/metrics` as data points of OpenTelemetry.

Owns only the translation: names, labels and values come from `ops.metrics`, so that what a
collector receives and what Prometheus scrapes can never differ.
"""

from collections.abc import Iterable
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from partibus.domain.histogram import BOUNDS_S
from partibus.ops.metrics import COUNTER, HISTOGRAM, LABELS, Row, Series, families

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_UNITS: Final = {"bytes": "By", "seconds": "s"}


def metrics_data(
    signals: dict[str, Any],
    resource: Resource,
    scope: InstrumentationScope,
    start_ns: int,
    now_ns: int,
) -> MetricsData:
    """Everything that a scrape would return now."""
    metrics = [
        _metric(series, rows, start_ns, now_ns) for series, rows in families(signals) if rows
    ]
    scoped = ScopeMetrics(scope, metrics, scope.schema_url or "")
    return MetricsData([ResourceMetrics(resource, [scoped], resource.schema_url)])


def _metric(series: Series, rows: Iterable[Row], start_ns: int, now_ns: int) -> Metric:
    unit = _UNITS.get(series.name.rpartition("_")[2], "1")
    return Metric(series.name, series.text, unit, _data(series, rows, start_ns, now_ns))


def _data(
    series: Series, rows: Iterable[Row], start_ns: int, now_ns: int
) -> Sum | Gauge | Histogram:
    labels = LABELS[series]
    named = [(dict(zip(labels, values, strict=True)), value) for values, value in rows]
    if series.kind == HISTOGRAM:
        points = [_histogram(found, value, start_ns, now_ns) for found, value in named]
        return Histogram(points, _CUMULATIVE)
    if series.kind == COUNTER:
        counts = [NumberDataPoint(found, start_ns, now_ns, value) for found, value in named]
        return Sum(counts, _CUMULATIVE, is_monotonic=True)
    return Gauge([NumberDataPoint(found, 0, now_ns, value) for found, value in named])


def _histogram(
    labels: dict[str, str], found: dict[str, Any], start_ns: int, now_ns: int
) -> HistogramDataPoint:
    counts = found["counts"]
    return HistogramDataPoint(
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
