"""The traffic of entities: rates, bytes, ages, lag, skew over fragments and keys.

Owns the pipeline: which messages are examined (a snapshot of what waits, a capture, or a stream
with a cursor), the counting in windows, and the report. Nothing on the bus is changed, except for
the cursor of a stream, which the bus keeps until it is dropped.
"""

import contextlib
import datetime
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark_servicebus.pipelines.analytics.cursors import fragments_and_cursors
from pyspark_servicebus.pipelines.analytics.frames import (
    bus_messages,
    captured_messages,
    deliveries_and_ages,
    facts,
    hottest_keys,
    windows_and_fragments,
)
from pyspark_servicebus.pipelines.analytics.report import CursorLag, TrafficReport, entity_traffic
from pyspark_servicebus.pipelines.analytics.settings import AnalyticsSettings
from pyspark_servicebus.pipelines.analytics.writing import write_report
from pyspark_servicebus.pipelines.run.arguments import script_main
from pyspark_servicebus.pipelines.run.choosing import (
    chosen_entities,
    known_entities,
    reported_plainly,
)
from pyspark_servicebus.pipelines.run.place import EntityInfo
from pyspark_servicebus.pipelines.run.progress import SILENT, Progress, watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "analytics"
CHECKPOINT: Final = "checkpoint"


def check_names(settings: AnalyticsSettings) -> None:
    """Check that the bus has the entities, unless captured messages are examined."""
    if settings.captured is None:
        entities_of(settings)


def analytics(
    spark: "SparkSession", settings: AnalyticsSettings, progress: Progress = SILENT
) -> TrafficReport:
    """Examine the traffic, write the report, and return it."""
    with reported_plainly():
        if settings.mode == "stream":
            report = _of_stream(spark, settings, progress)
        else:
            progress.started(NAME, None)
            report = _of_what_is_there(spark, settings)
            progress.advanced(report.messages, None, 0)
            progress.finished()
    return write_report(Path(settings.output), report)


def _of_stream(
    spark: "SparkSession", settings: AnalyticsSettings, progress: Progress
) -> TrafficReport:
    chosen = entities_of(settings)
    count = _stream(spark, settings, chosen, progress)
    fragments, cursors = fragments_and_cursors(settings.bus, chosen)
    empty = _empty(settings, "stream", cursors, len(chosen))
    return replace(_of_facts(spark, settings, empty, fragments), read_now=count)


def _of_what_is_there(spark: "SparkSession", settings: AnalyticsSettings) -> TrafficReport:
    if settings.captured is not None:
        messages = captured_messages(spark, settings.captured, settings.measured())
        return _of_messages(settings, messages, _empty(settings, "captured"), {})
    chosen = entities_of(settings)
    fragments, cursors = fragments_and_cursors(settings.bus, chosen)
    empty = _empty(settings, "snapshot", cursors, len(chosen))
    waiting = [entity for entity in chosen if _waits(entity)]
    if not waiting:
        return empty
    messages = bus_messages(spark, settings.bus, waiting, settings.measured())
    return _of_messages(settings, messages, empty, fragments)


def entities_of(settings: AnalyticsSettings) -> list[EntityInfo]:
    """The entities to examine; found before Spark has to do anything."""
    return chosen_entities(known_entities(settings.bus), settings.entities)


def _waits(entity: EntityInfo) -> bool:
    """Whether there is anything besides dead letters."""
    dead = int(entity.fields.get("counts", {}).get("dead_letter", 0))
    return int(entity.fields.get("message_count", dead + 1)) > dead


# --- a stream ---------------------------------------------------------------------------------


def _stream(
    spark: "SparkSession",
    settings: AnalyticsSettings,
    entities: Sequence[EntityInfo],
    progress: Progress,
) -> int:
    """Follow the entities, and append closed windows; returns the number of messages read."""
    count = 0

    def advanced(rows: int, lag: int | None, batch: int) -> None:
        nonlocal count
        count += rows
        progress.advanced(rows, lag, batch)

    cursor = {"mode": "cursor", "cursor": settings.cursor}
    messages = bus_messages(spark, settings.bus, entities, settings.measured(), cursor)
    late = messages.withWatermark("enqueued_time", f"{settings.watermark_ms} milliseconds")
    writer = (
        facts(late, settings.window_ms)
        .repartition(1)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", settings.facts_path)
        .option("checkpointLocation", f"{settings.output}/{CHECKPOINT}")
    )
    trigger: dict[str, Any] = {"availableNow": True}
    if settings.continuous:
        trigger = {"processingTime": f"{settings.trigger_ms} milliseconds"}
    progress.started(NAME, None)
    query = writer.trigger(**trigger).start()
    try:
        with _ended_after(settings.run_time_ms, query):
            watch(query, advanced)
    except KeyboardInterrupt:
        if not settings.continuous:
            raise
    finally:
        progress.finished()
    return count


@contextlib.contextmanager
def _ended_after(run_time_ms: int | None, query: Any) -> Iterator[None]:
    if run_time_ms is None:
        yield
        return
    timer = threading.Timer(run_time_ms / 1000, query.stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# --- reports ----------------------------------------------------------------------------------


def _of_messages(
    settings: AnalyticsSettings,
    messages: "DataFrame",
    empty: TrafficReport,
    fragments: Mapping[str, int],
) -> TrafficReport:
    """From messages that are read once: cached, in reduced form, for all queries."""
    messages = messages.persist()
    try:
        report = _counted(settings, facts(messages, settings.window_ms), empty, fragments)
        if report.source != "snapshot" or not report.entities:
            return report
        deliveries, buckets, ages = deliveries_and_ages(messages, report.taken_at)
    finally:
        messages.unpersist()
    return replace(report, deliveries=deliveries, age_buckets=buckets, ages=tuple(ages))


def _of_facts(
    spark: "SparkSession",
    settings: AnalyticsSettings,
    empty: TrafficReport,
    fragments: Mapping[str, int],
) -> TrafficReport:
    """From the windows that a stream has written so far."""
    from pyspark.errors import AnalysisException

    try:
        found = spark.read.parquet(settings.facts_path)
    except AnalysisException:
        return empty
    return _counted(settings, found, empty, fragments)


def _counted(
    settings: AnalyticsSettings,
    found: "DataFrame",
    empty: TrafficReport,
    fragments: Mapping[str, int],
) -> TrafficReport:
    """The report with what the facts say."""
    windows, by_fragment = windows_and_fragments(found)
    keys, key_counts = hottest_keys(found, settings.top)
    width = datetime.timedelta(milliseconds=settings.window_ms)
    names = sorted({window.entity for window in windows})
    entities = [
        entity_traffic(
            name,
            [window for window in windows if window.entity == name],
            [fragment for fragment in by_fragment if fragment.entity == name],
            fragments.get(name, 1),
            [key for key in keys if key.entity == name],
            key_counts.get(name, {}),
            width,
        )
        for name in names
    ]
    return replace(
        empty,
        entities_looked_at=empty.entities_looked_at or len(names),
        entities=tuple(entities),
        windows=tuple(windows),
        fragments=tuple(by_fragment),
        keys=tuple(keys),
        key_counts={name: key_counts.get(name, {}) for name in names},
    )


def _empty(
    settings: AnalyticsSettings, source: str, cursors: Sequence[CursorLag] = (), looked_at: int = 0
) -> TrafficReport:
    """A report without messages, taken now."""
    is_captured = settings.captured is not None
    return TrafficReport(
        source=source,
        namespace=str(settings.captured) if is_captured else settings.bus.namespace(),
        taken_at=datetime.datetime.now(datetime.UTC),
        window_s=settings.window_ms / 1000,
        entities_looked_at=looked_at,
        cursors=tuple(cursors),
    )


main = partial(
    script_main,
    name=NAME,
    description="Rates, ages, lag and skew of the traffic of queues and subscriptions.",
    settings=AnalyticsSettings,
    work=analytics,
)
"""The script for spark-submit; returns the exit code."""
