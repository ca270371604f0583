"""Traffic in Spark: messages from a snapshot, a capture or a stream, counted in windows.

Owns the frames. `facts` is what everything else is added up from: messages and bytes by window,
entity, fragment and key. A stream writes the same facts, window by window, when they are closed.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark_servicebus.pipelines.analytics.arithmetic import AGE_BINS, AGE_S_MIN, AGES_S, age_at
from pyspark_servicebus.pipelines.analytics.report import (
    Ages,
    FragmentTraffic,
    KeyTraffic,
    TrafficWindow,
)
from pyspark_servicebus.pipelines.run.place import BusPlace, EntityInfo
from pyspark_servicebus.pipelines.run.settings import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_COLUMNS: Final = ("fragment", "enqueued_time", "delivery_count", "session_id", "partition_key")
KEY_CHARACTERS_MAX: Final = 200
Buckets = dict[str, dict[int, int]]
"""For each entity, how many have each value."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What is measured of a message."""

    key: str = "auto"
    sizes: bool = True
    """Whether bodies are read for their size."""

    def columns(self) -> list[str]:
        """The columns of the source that are needed."""
        own = [] if self.key in ("auto", *_COLUMNS) else [self.key]
        return [*_COLUMNS, *own, *(["body"] if self.sizes else [])]

    def of(self, frame: "DataFrame") -> "DataFrame":
        """The few columns that matter, of messages with the columns of the source."""
        from pyspark.sql import functions as f

        names = ("session_id", "partition_key") if self.key == "auto" else (self.key,)
        there = [f.col(name) for name in names if name in frame.columns]
        key: Column = f.coalesce(*there) if there else f.lit(None)
        size: Column = (
            f.octet_length("body") if self.sizes and "body" in frame.columns else f.lit(0)
        )
        given = f.col("delivery_count") if "delivery_count" in frame.columns else f.lit(0)
        return frame.select(
            "enqueued_time",
            "entity",
            f.coalesce("fragment", f.lit(0)).alias("fragment"),
            f.substring(key.cast("string"), 1, KEY_CHARACTERS_MAX).alias("key"),
            f.coalesce(size.cast("long"), f.lit(0)).alias("bytes"),
            f.coalesce(given, f.lit(0)).alias("delivery_count"),
        )


def bus_messages(
    spark: "SparkSession",
    bus: BusPlace,
    entities: Sequence[EntityInfo],
    measured: Measured,
    cursor: Mapping[str, str] | None = None,
) -> "DataFrame":
    """A snapshot of entities, or, with the options of a cursor, a stream of them."""
    from pyspark.sql import functions as f

    reader: Any = spark.read if cursor is None else spark.readStream
    options = {"mode": "peek"} if cursor is None else dict(cursor)
    columns = ",".join(measured.columns())
    frames = [
        reader.format("servicebus")
        .options(**bus.options(), **entity.source_options(), **options, columns=columns)
        .load()
        .withColumn("entity", f.lit(entity.path))
        for entity in entities
    ]
    return measured.of(reduce(lambda one, other: one.unionByName(other), frames))


def captured_messages(spark: "SparkSession", path: str, measured: Measured) -> "DataFrame":
    """Messages that were captured as Parquet, whatever the folders."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    try:
        frame = spark.read.option("recursiveFileLookup", "true").parquet(path)
    except AnalysisException as error:
        raise SettingsError(
            f"captured: {path} has no readable Parquet files: {error.getCondition()}."
        ) from None
    if "enqueued_time" not in frame.columns:
        raise SettingsError(
            f"captured: the files of {path} have no column enqueued_time; name a folder that "
            "`partibus pipeline capture` wrote."
        )
    for name, kind in (("entity", "string"), ("fragment", "int")):
        if name not in frame.columns:
            missing = f.lit("captured") if name == "entity" else f.lit(None)
            frame = frame.withColumn(name, missing.cast(kind))
    return measured.of(frame)


def facts(messages: "DataFrame", window_ms: int) -> "DataFrame":
    """Messages and bytes by window, entity, fragment and key."""
    from pyspark.sql import functions as f

    window = f.window("enqueued_time", f"{window_ms} milliseconds")
    grouped = messages.groupBy(window.alias("w"), "entity", "fragment", "key").agg(
        f.count("*").alias("messages"), f.sum("bytes").alias("bytes")
    )
    return grouped.select(
        f.col("w.start").alias("window_start"), "entity", "fragment", "key", "messages", "bytes"
    )


# --- answers ----------------------------------------------------------------------------------


def windows_and_fragments(facts: "DataFrame") -> tuple[list[TrafficWindow], list[FragmentTraffic]]:
    """Both from one pass, without the keys."""
    from pyspark.sql import functions as f

    windows: dict[tuple[datetime.datetime, str], list[int]] = {}
    fragments: dict[tuple[str, int], list[int]] = {}
    grouped = facts.groupBy("window_start", "entity", "fragment")
    for row in grouped.agg(f.sum("messages").alias("n"), f.sum("bytes").alias("b")).collect():
        start = row["window_start"].astimezone(datetime.UTC)
        for sums in (
            windows.setdefault((start, row["entity"]), [0, 0]),
            fragments.setdefault((row["entity"], row["fragment"]), [0, 0]),
        ):
            sums[0] += row["n"]
            sums[1] += row["b"]
    return (
        [
            TrafficWindow(start=start, entity=entity, messages=n, bytes=b)
            for (start, entity), (n, b) in sorted(windows.items())
        ],
        [
            FragmentTraffic(entity=entity, fragment=index, messages=n, bytes=b)
            for (entity, index), (n, b) in sorted(fragments.items())
        ],
    )


def hottest_keys(
    facts: "DataFrame", top: int
) -> tuple[list[KeyTraffic], dict[str, dict[int, int]]]:
    """The hottest keys of each entity, and how many keys have how many messages."""
    from pyspark.sql import Window as Over
    from pyspark.sql import functions as f

    by_key = (
        facts.where(f.col("key").isNotNull())
        .groupBy("entity", "key")
        .agg(f.sum("messages").alias("n"), f.sum("bytes").alias("b"))
    )
    order = Over.partitionBy("entity").orderBy(f.desc("n"), "key")
    ranked = by_key.withColumn("place", f.row_number().over(order))
    rows = ranked.where(f.col("place") <= top).collect()
    counts: Buckets = {}
    if rows:
        for row in by_key.groupBy("entity", "n").agg(f.count("*").alias("keys")).collect():
            counts.setdefault(row["entity"], {})[row["n"]] = row["keys"]
    rows.sort(key=lambda row: (row["entity"], row["place"]))
    keys = [
        KeyTraffic(entity=row["entity"], key=row["key"], messages=row["n"], bytes=row["b"])
        for row in rows
    ]
    return keys, counts


def deliveries_and_ages(
    messages: "DataFrame", now: datetime.datetime
) -> tuple[Buckets, Buckets, list[Ages]]:
    """For each entity: messages by earlier deliveries, by bucket of age, and their ages."""
    from pyspark.sql import functions as f

    age_s = f.lit(now.timestamp()) - f.col("enqueued_time").cast("double")
    aged = messages.withColumn("age_s", f.greatest(age_s, f.lit(0.0)))
    bucket = f.lit(0)
    for limit in AGES_S:
        bucket = bucket + (f.col("age_s") >= limit).cast("int")
    bin_number = f.floor(AGE_BINS * f.log10(f.col("age_s") + AGE_S_MIN)).cast("int")
    grouped = aged.groupBy(
        "entity", "delivery_count", bucket.alias("bucket"), bin_number.alias("i")
    )
    deliveries: Buckets = {}
    buckets: Buckets = {}
    bins: Buckets = {}
    oldest: dict[str, float] = {}
    rows = grouped.agg(f.count("*").alias("n"), f.max("age_s").alias("oldest")).collect()
    for row in rows:
        entity = row["entity"]
        oldest[entity] = max(oldest.get(entity, 0.0), row["oldest"])
        for found, name in ((deliveries, "delivery_count"), (buckets, "bucket"), (bins, "i")):
            counts = found.setdefault(entity, {})
            counts[row[name]] = counts.get(row[name], 0) + row["n"]
    ages = [
        Ages(
            entity=entity,
            median_s=min(age_at(bins[entity], 0.5), oldest[entity]),
            p95_s=min(age_at(bins[entity], 0.95), oldest[entity]),
            oldest_s=oldest[entity],
        )
        for entity in sorted(oldest)
    ]
    return deliveries, buckets, ages
