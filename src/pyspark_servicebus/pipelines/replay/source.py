"""The messages to replay: captured messages as a data frame, in batches that keep their order.

Owns the forms of a capture (its folder, a Delta table, a window's manifest, plain Parquet files),
the check of its columns, the choice of messages, and the plan: cuts in time, turned into ranges of
numbers in each fragment, so that a batch contains what arrived together and every fragment keeps
its order even if its clock was set.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from partibus.domain.sequence import SEQUENCE_BITS, client_sequence
from pyspark_servicebus.pipelines.capture.delta import is_delta, open_table
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.manifest import CapturedFile, Window, current_files
from pyspark_servicebus.pipelines.capture.target import DESCRIPTION
from pyspark_servicebus.pipelines.replay.settings import ReplaySettings
from pyspark_servicebus.pipelines.run.progress import plain_words
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.schema import RAW_COLUMN, arrow_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SLICE_S: Final = 30.0
"""The maximum time between two records of the positions, at the pace of the replay."""
SLICES_MAX: Final = 50_000
_PLAN_DDL: Final = "fragment int, slice int, last bigint, rows bigint"
_PLAN_SCHEMA: Final = arrow_of(_PLAN_DDL)


@dataclass(frozen=True, slots=True)
class Batch:
    """What is sent together: a range of numbers of each fragment, including `first` and `last`."""

    ranges: dict[int, tuple[int, int]]
    rows: int
    starts_ms: int
    """The enqueued time from which on it holds messages."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is to send."""

    rows: int
    first_ms: int | None
    last_ms: int | None


class ReplaySource:
    """The selected captured messages."""

    def __init__(self, spark: "SparkSession", settings: ReplaySettings) -> None:
        self._spark, self._settings = spark, settings
        self._files = found_files(settings.source)
        frame = self._read(self._files)
        self._check(frame.columns)
        self._chosen(frame)  # an invalid filter is reported now

    def _read(self, files: Iterable[CapturedFile]) -> "DataFrame":
        reader = self._spark.read.option("mergeSchema", "true")
        return reader.parquet(*(file.path for file in files))

    def _check(self, columns: list[str]) -> None:
        settings = self._settings
        needed = {"sequence_number": "the order of messages"}
        if RAW_COLUMN not in columns:
            needed["body"] = "the messages themselves"
        if settings.pace == "original" or settings.since_ms or settings.until_ms:
            needed["enqueued_time"] = "the pace and for times"
        complaints = [
            f"source: there is no column '{name}', which is needed for {what}; it has"
            f" {', '.join(columns)}."
            for name, what in needed.items()
            if name not in columns
        ]
        if complaints:
            raise SettingsError.of(complaints)

    def _chosen(self, frame: "DataFrame") -> "DataFrame":
        """The messages that the settings ask for."""
        from pyspark.errors import AnalysisException, ParseException
        from pyspark.sql import functions as f

        settings = self._settings
        time = f.unix_millis("enqueued_time") if "enqueued_time" in frame.columns else None
        if settings.since_ms is not None and time is not None:
            frame = frame.where(time >= settings.since_ms)
        if settings.until_ms is not None and time is not None:
            frame = frame.where(time < settings.until_ms)
        if settings.filter is None:
            return frame
        try:
            return frame.where(f.expr(settings.filter))
        except (AnalysisException, ParseException) as error:
            raise SettingsError(f"filter: {plain_words(str(error))}") from None

    # --- the plan -------------------------------------------------------------------------

    def _narrow(self, behind: Mapping[int, int]) -> "DataFrame":
        """Fragment, number and time of what has to be sent, after the positions."""
        from pyspark.sql import functions as f

        frame = self._chosen(self._read(self._files))
        fragment = _fragment()
        if behind:
            done = f.create_map(*(f.lit(n) for pair in behind.items() for n in pair))
            frame = frame.where(
                f.col("sequence_number") > f.coalesce(done[fragment], f.lit(-1).cast("bigint"))
            )
        has_time = "enqueued_time" in frame.columns
        time = f.unix_millis("enqueued_time") if has_time else f.lit(0).cast("bigint")
        return frame.select(fragment.alias("fragment"), "sequence_number", time.alias("ms"))

    def extent(self, behind: Mapping[int, int]) -> Extent:
        """How much there is after the positions."""
        from pyspark.sql import functions as f

        reported = self._narrow(behind).agg(f.count("*"), f.min("ms"), f.max("ms")).first()
        assert reported is not None
        return Extent(reported[0], reported[1], reported[2])

    def plan(self, behind: Mapping[int, int], extent: Extent) -> list[Batch]:
        """Everything after the positions, in batches."""
        if not extent.rows:
            return []
        cuts = self._cuts(behind, extent)
        frame = self._narrow(behind)
        reported = frame.mapInArrow(_slicer(cuts), _PLAN_DDL).collect()
        return batches_of([tuple(row) for row in reported], behind, cuts, extent.first_ms or 0)

    def _cuts(self, behind: Mapping[int, int], extent: Extent) -> list[int]:
        """Times at which one batch ends and the next begins."""
        from pyspark.sql import functions as f

        cuts: set[int] = set()
        count = min(-(-extent.rows // self._settings.batch), SLICES_MAX)
        if count > 1:
            shares = [number / count for number in range(1, count)]
            found = self._narrow(behind).agg(f.percentile_approx("ms", shares, 10_000)).first()
            assert found is not None
            cuts |= set(found[0])
        speed = self._settings.times_as_fast
        if speed is not None and extent.first_ms is not None and extent.last_ms is not None:
            step_ms = max(
                round(SLICE_S * 1000 * speed), (extent.last_ms - extent.first_ms) // SLICES_MAX, 1
            )
            cuts |= set(range(extent.first_ms + step_ms, extent.last_ms + 1, step_ms))
        return sorted(cuts)

    # --- messages -------------------------------------------------------------------------

    def messages(self, batch: Batch) -> "DataFrame":
        """All columns of the messages of a batch, and `fragment`, in no order yet."""
        from pyspark.sql import functions as f

        condition = f.lit(False)
        for first, last in batch.ranges.values():
            condition = condition | f.col("sequence_number").between(first, last)
        frame = self._chosen(self._read(self._files_of(batch))).where(condition)
        return frame.withColumn("fragment", _fragment())

    def first_rows(self, count: int) -> list[Any]:
        """The first messages, fragment by fragment."""
        frame = self._chosen(self._read(self._files))
        wanted = ("sequence_number", "enqueued_time", "message_id", "partition_key", "session_id")
        names = [name for name in (*wanted, "subject", "body") if name in frame.columns]
        return frame.select(*names).orderBy("sequence_number").limit(count).collect()

    def counts(self) -> dict[int, int]:
        """Messages of each fragment."""
        rows = self._narrow({}).groupBy("fragment").count().orderBy("fragment").collect()
        return {row["fragment"]: row["count"] for row in rows}

    def _files_of(self, batch: Batch) -> list[CapturedFile]:
        """The files that may contain messages of a batch."""
        return [file for file in self._files if not file.fragments or _meets(file, batch)]


def _fragment() -> "Column":
    """What `fragment_of` returns, as an expression of Spark."""
    from pyspark.sql import functions as f

    return f.shiftright("sequence_number", SEQUENCE_BITS).cast("int")


def batches_of(
    reported: Iterable[tuple[int, int, int, int]],
    behind: Mapping[int, int],
    cuts: list[int],
    first_ms: int,
) -> list[Batch]:
    """Ranges of numbers from the last number that each slice of time has of each fragment.

    A number above others of a later slice includes those: the order by number is kept, whatever the
    times are.
    """
    lasts: dict[int, dict[int, int]] = defaultdict(dict)
    rows: dict[int, int] = defaultdict(int)
    for fragment, part, last, count in reported:
        lasts[part][fragment] = max(last, lasts[part].get(fragment, -1))
        rows[part] += count
    reached = dict(behind)
    batches = []
    for part in sorted(lasts):
        ranges: dict[int, tuple[int, int]] = {}
        for fragment, last in sorted(lasts[part].items()):
            first = reached.get(fragment, client_sequence(fragment, 0) - 1) + 1
            if last >= first:
                ranges[fragment] = (first, last)
                reached[fragment] = last
        if ranges:
            starts_ms = first_ms if part == 0 else cuts[part - 1]
            batches.append(Batch(ranges, rows[part], starts_ms))
    return batches


def _slicer(cuts: list[int]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: the last number and the count of each fragment and slice."""

    def slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np

        known: dict[tuple[int, int], list[int]] = {}
        for batch in batches:
            parts = np.searchsorted(cuts, batch.column("ms").to_numpy(), side="right")
            table = pa.table(
                {
                    "fragment": batch.column("fragment"),
                    "slice": pa.array(parts, pa.int32()),
                    "last": batch.column("sequence_number"),
                }
            )
            sums = table.group_by(["fragment", "slice"]).aggregate(
                [("last", "max"), ("last", "count")]
            )
            for row in sums.to_pylist():
                entry = known.setdefault((row["fragment"], row["slice"]), [-1, 0])
                entry[0] = max(entry[0], row["last_max"])
                entry[1] += row["last_count"]
        reported = [
            {"fragment": fragment, "slice": part, "last": last, "rows": count}
            for (fragment, part), (last, count) in known.items()
        ]
        yield pa.RecordBatch.from_pylist(reported, schema=_PLAN_SCHEMA)

    return slices


def _meets(file: CapturedFile, batch: Batch) -> bool:
    return any(
        span.first <= batch.ranges[index][1] and batch.ranges[index][0] <= span.last
        for index, span in file.fragments.items()
        if index in batch.ranges
    )


def found_files(source: str) -> list[CapturedFile]:
    """The files of a source, with paths as Spark reads them."""
    if source.endswith(".json"):
        folder, _, _ = source.rpartition("/_capture/")
        lake = Lake(folder or ".")
        table = lake.read_json(source.removeprefix(folder).lstrip("/"))
        if not folder or table is None or "files" not in table:
            raise SettingsError(
                f"source: '{source}' is not a window manifest; manifests are in _capture/windows."
            )
        return _readable(lake, Window.from_table(table).files)
    lake = Lake(source)
    if is_delta(lake):
        return [_plain(uri) for uri in open_table(lake).file_uris()]
    if lake.read_json(DESCRIPTION) is not None:
        return _readable(lake, current_files(lake))
    if source.endswith(".parquet"):
        paths = [source] if lake.exists("") else []
    else:
        paths = [lake.url(path) for path in lake.paths() if path.endswith(".parquet")]
    if not paths:
        raise SettingsError(f"source: there is no capture and no Parquet file in '{source}'.")
    return [_plain(path) for path in paths]


def _readable(lake: Lake, files: Iterable[CapturedFile]) -> list[CapturedFile]:
    from dataclasses import replace

    found = [replace(file, path=lake.url(file.path)) for file in files]
    if not found:
        raise SettingsError(f"source: the capture in '{lake.uri}' holds no file yet.")
    return found


def _plain(path: str) -> CapturedFile:
    return CapturedFile(path=path, rows=0, bytes=0, first_enqueued_ms=0, last_enqueued_ms=0)
