"""Replay: captured messages back to a bus, in order, at any pace.

Owns the run: what to send in which batches, a record of the positions after each, and the report.
Messages of one key keep their order, since each fragment is sent by one task after the other. A
replay that was killed continues after its last batch; the bus knows what an incomplete batch had
already sent (`replay.once`), and it is not sent again.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark_servicebus.bus import discover
from pyspark_servicebus.errors import BulkError, retried
from pyspark_servicebus.pipelines.replay.once import ReplayRun, forget
from pyspark_servicebus.pipelines.replay.report import ReplayReport, shown_message
from pyspark_servicebus.pipelines.replay.sending import DUE_COLUMN, SENT_DDL, Pace, batch_sender
from pyspark_servicebus.pipelines.replay.settings import ReplaySettings
from pyspark_servicebus.pipelines.replay.source import Batch, Extent, ReplaySource, found_files
from pyspark_servicebus.pipelines.replay.state import (
    ReplayPositions,
    load_positions,
    save_positions,
)
from pyspark_servicebus.pipelines.run.arguments import script_main
from pyspark_servicebus.pipelines.run.choosing import find_entity
from pyspark_servicebus.pipelines.run.progress import SILENT, PipelineFailed, Progress, failure_of
from pyspark_servicebus.schema import COLUMNS, GIVEN_BY_THE_BUS, RAW_COLUMN
from pyspark_servicebus.sink.plan import MESSAGE_ID, SinkPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN_ROWS: Final = 5
NAP_S_MAX: Final = 5.0


def check_names(settings: ReplaySettings) -> None:
    """Check that there is a capture, and that the bus has the entity."""
    find_entity(settings.bus, "entity", settings.entity)
    found_files(settings.source)


def replay(
    spark: "SparkSession", settings: ReplaySettings, progress: Progress = SILENT
) -> ReplayReport:
    """Send captured messages to a queue or topic; continues an interrupted replay."""
    try:
        return _Run(spark, settings, progress).go()
    except BulkError as error:
        raise failure_of(error) from error


class _Run:
    """One run of a replay."""

    def __init__(self, spark: "SparkSession", settings: ReplaySettings, progress: Progress) -> None:
        self._spark, self._settings, self._progress = spark, settings, progress
        self._began = time.monotonic()
        self._access = settings.bus.access(settings.entity, settings.retry_ms / 1000)
        self._source = ReplaySource(spark, settings)
        self._known = load_positions(settings) or ReplayPositions(
            replay=settings.replay_name(), started_ms=round(time.time() * 1000)
        )
        self._resumed_behind = self._known.rows
        self._run = ReplayRun(self._known.replay, self._known.started_ms)

    def go(self) -> ReplayReport:
        """All batches, and the report."""
        self._require_sendable()
        extent = self._source.extent(self._known.positions)
        if self._settings.dry_run:
            return self._dry(extent)
        sent = duplicates = count = 0
        pace = self._pace(extent)
        batches = self._source.plan(self._known.positions, extent)
        # Before anything is sent: a later run must know the name of this one.
        save_positions(self._settings, self._known)
        self._progress.started(self._settings.entity, extent.rows)
        try:
            for number, batch in enumerate(batches):
                _wait_for(batch, pace)
                reported = self._send(batch, pace)
                sent, duplicates = sent + reported[0], duplicates + reported[1]
                count += 1
                self._note(batch, reported[0], is_done=number == len(batches) - 1)
                self._progress.advanced(reported[0], extent.rows - sent, number)
        finally:
            self._progress.finished()
        if sent != extent.rows:
            raise PipelineFailed(
                f"{extent.rows} messages were to be sent, but {sent} were sent: the capture "
                "changed meanwhile. Run it again when nothing writes to the capture."
            )
        self._forget()
        return self._report(rows=sent, duplicates=duplicates, batches=count)

    def _require_sendable(self) -> None:
        """An error if the entity does not exist or cannot be sent to."""
        access, path = self._access, self._settings.entity
        found = retried(access.retry_s, lambda: discover(access, path))
        if found.kind == "subscription":
            raise PipelineFailed(
                f"'{found.path}' is a subscription; messages are sent to its topic."
            )

    def _pace(self, extent: Extent) -> Pace | None:
        speed = self._settings.times_as_fast
        if speed is None or extent.first_ms is None:
            return None
        return Pace(extent.first_ms, round(time.time() * 1000), speed)

    @property
    def _is_staged(self) -> bool:
        return self._settings.deliver == "staged"

    def _forget(self) -> None:
        """The bus may forget how far the fragments were."""
        for fragment in self._known.positions if self._is_staged else ():
            forget(self._run.home(self._settings.entity, fragment, self._access))

    # --- batches --------------------------------------------------------------------------

    def _send(self, batch: Batch, pace: Pace | None) -> tuple[int, int]:
        frame = self._in_order(self._source.messages(batch), batch, pace)
        plan = self._plan(frame.columns)
        run = self._run if self._is_staged else None
        sender = batch_sender(self._settings.entity, self._access, plan, pace, run)
        try:
            reported = frame.mapInArrow(sender, SENT_DDL).collect()
        except Exception as error:
            raise failure_of(error) from error
        return sum(row["rows"] for row in reported), sum(row["duplicates"] for row in reported)

    def _in_order(self, frame: "DataFrame", batch: Batch, pace: Pace | None) -> "DataFrame":
        """Each fragment in one task and in order, with the final ids and times."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        frame = self._rewritten(frame, pace)
        # Tasks that keep a pace must all run at once.
        tasks = min(len(batch.ranges), self._spark.sparkContext.defaultParallelism)
        frame = frame.repartition(tasks, "fragment")
        if pace is None:
            return frame.sortWithinPartitions("sequence_number")
        so_far = Window.partitionBy("fragment").orderBy("sequence_number")
        due = f.max(f.unix_millis("enqueued_time")).over(so_far)
        return frame.withColumn(DUE_COLUMN, due).sortWithinPartitions(DUE_COLUMN, "sequence_number")

    def _rewritten(self, frame: "DataFrame", pace: Pace | None) -> "DataFrame":
        from pyspark.sql import functions as f

        settings, columns = self._settings, frame.columns
        if settings.id_prefix is not None:
            own = f.col("sequence_number").cast("string")
            if "message_id" in columns:
                own = f.coalesce("message_id", own)
            frame = frame.withColumn("message_id", f.concat(f.lit(settings.id_prefix), own))
        if "scheduled_enqueue_time" not in columns:
            return frame
        scheduled = f.col("scheduled_enqueue_time")
        if settings.schedule == "drop":
            return frame.withColumn("scheduled_enqueue_time", f.lit(None).cast("timestamp"))
        if RAW_COLUMN in columns:
            # A message sent as it was encoded loses its scheduled time, so these are made of
            # columns.
            frame = frame.withColumn(RAW_COLUMN, f.when(scheduled.isNull(), f.col(RAW_COLUMN)))
        if settings.schedule == "shift":
            frame = frame.withColumn("scheduled_enqueue_time", self._shifted(pace))
        return frame

    def _shifted(self, pace: Pace | None) -> Any:
        """Scheduled times, with the same distance from the message as before."""
        from pyspark.sql import functions as f

        scheduled = f.unix_millis("scheduled_enqueue_time")
        ahead = scheduled - f.unix_millis("enqueued_time")
        if pace is None:
            moment = f.lit(round(time.time() * 1000)) + ahead
        else:
            moment = f.lit(pace.start_ms) + (scheduled - f.lit(pace.first_ms)) / f.lit(pace.speed)
        return f.timestamp_millis(moment.cast("bigint"))

    def _plan(self, columns: Sequence[str]) -> SinkPlan:
        known = (set(COLUMNS) - GIVEN_BY_THE_BUS) | {RAW_COLUMN}
        identity = MESSAGE_ID if self._settings.id_prefix is not None else None
        return SinkPlan(frozenset(known & set(columns)), (), identity, ())

    def _note(self, batch: Batch, rows: int, is_done: bool) -> None:
        lasts = {fragment: last for fragment, (_, last) in batch.ranges.items()}
        self._known = replace(
            self._known,
            positions={**self._known.positions, **lasts},
            rows=self._known.rows + rows,
            is_done=is_done,
        )
        save_positions(self._settings, self._known)

    # --- the report -----------------------------------------------------------------------

    def _dry(self, extent: Extent) -> ReplayReport:
        lasts_s = None
        speed = self._settings.times_as_fast
        if speed is not None and extent.first_ms is not None and extent.last_ms is not None:
            lasts_s = (extent.last_ms - extent.first_ms) / 1000 / speed
        return self._report(
            rows=extent.rows,
            dry_run=True,
            lasts_s=lasts_s,
            fragments=self._source.counts(),
            first_rows=[shown_message(row) for row in self._source.first_rows(SHOWN_ROWS)],
        )

    def _report(self, **reported: Any) -> ReplayReport:
        return ReplayReport(
            source=self._settings.source,
            entity=self._settings.entity,
            resumed_behind=self._resumed_behind,
            state=str(self._settings.positions_file()),
            seconds=round(time.monotonic() - self._began, 3),
            **reported,
        )


def _wait_for(batch: Batch, pace: Pace | None) -> None:
    """Sleep here, not in tasks, until a batch is due."""
    while pace is not None:
        left_s = pace.leaves_ms(batch.starts_ms) / 1000 - time.time()
        if left_s <= 0:
            return
        time.sleep(min(left_s, NAP_S_MAX))


main = partial(
    script_main,
    name="replay",
    description="Send captured messages to a queue or topic again, in order.",
    settings=ReplaySettings,
    work=replay,
)
"""The script for spark-submit; returns the exit code."""
