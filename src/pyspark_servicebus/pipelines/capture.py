"""Capture: what passes a queue or subscription, as Parquet files or a Delta table, exactly once.

Owns the run: a streaming query behind a cursor whose batches are the windows, taken once or again
and again until stopped. Other consumers are not touched: a cursor locks and settles nothing. What
makes it exact is `capture_target`'s.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark_servicebus.errors import BulkError
from pyspark_servicebus.options import source_options
from pyspark_servicebus.pipelines.capture_files import REPORT_DDL, task_writer
from pyspark_servicebus.pipelines.capture_settings import CaptureSettings
from pyspark_servicebus.pipelines.capture_target import CaptureTarget
from pyspark_servicebus.pipelines.lake import Lake
from pyspark_servicebus.pipelines.manifest import (
    STAGING,
    Window,
    spans_of,
    window_name,
    window_named,
)
from pyspark_servicebus.pipelines.progress import SILENT, PipelineFailed, Progress, watch
from pyspark_servicebus.pipelines.wording import counted, spoken_bytes
from pyspark_servicebus.positions import cursor_positions
from pyspark_servicebus.reading import Reading, good

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CaptureReport", "CaptureSettings", "capture", "main"]
LOOK_EVERY_S_MAX: Final = 5.0
LOOK_EVERY_S_MIN: Final = 0.2
FIRST_NUMBER: Final = 1
SAMPLE_MESSAGES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureReport:
    """What a run has captured."""

    entity: str
    target: str
    format: str
    cursor: str
    windows: int = 0
    empty_windows: int = 0
    files: int = 0
    rows: int = 0
    bytes: int = 0
    fragments: dict[int, dict[str, int]] = field(default_factory=dict)
    waiting: int | None = None
    """Messages behind the cursor at the end, where the bus could be asked."""
    seconds: float = 0.0

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def as_text(self) -> str:
        lines = [
            f"{self.entity} -> {self.target} ({self.format})",
            f"  {counted(self.rows, 'message')} of {counted(len(self.fragments), 'fragment')} in"
            f" {counted(self.windows, 'window')}, {counted(self.files, 'file')},"
            f" {spoken_bytes(self.bytes)}, {self.seconds:.1f} s",
        ]
        if self.empty_windows:
            lines.append(f"  {counted(self.empty_windows, 'empty window')}")
        waiting = "not known" if self.waiting is None else counted(self.waiting, "message")
        lines.append(f"  behind the cursor '{self.cursor}': {waiting}")
        return "\n".join(lines)


def capture(
    spark: "SparkSession", settings: CaptureSettings, progress: Progress = SILENT
) -> CaptureReport:
    """Capture once what is there, or go on until stopped (Ctrl-C, or the run time)."""
    lake = Lake(settings.target)
    bus = Reading(source_options(settings.source_options("capture"), is_stream=True))
    try:
        with lake.alone("capture"):
            run = _Run(spark, CaptureTarget(lake, settings, bus.refresh().generation), progress)
            return run.go()
    except BulkError as error:
        raise PipelineFailed(str(error)) from error
    finally:
        bus.close()


class _Run:
    """One run of a capture."""

    def __init__(self, spark: "SparkSession", target: CaptureTarget, progress: Progress) -> None:
        self._spark, self._target, self._progress = spark, target, progress
        self._settings = target.settings
        self._options = self._settings.source_options(target.cursor)
        self._bus = Reading(source_options(self._options, is_stream=True))
        self._checkpoint = Lake(target.checkpoint)
        self._windows: list[Window] = []
        """Those that this run has closed."""
        self._began = time.monotonic()

    def go(self) -> CaptureReport:
        """All batches of the run, and what became of it."""
        self._target.recover()
        self._choose_start()
        waiting: int | None = None
        self._progress.started(self._settings.entity, None)
        try:
            self._drain()
            while self._settings.continuous and self._wait():
                self._drain()
            waiting = sum(self._lag(cursor_positions(self._bus)).values())
        except KeyboardInterrupt:
            if not self._settings.continuous:
                raise
        finally:
            self._progress.finished()
            self._bus.close()
        return self._report(waiting)

    def _choose_start(self) -> None:
        """Where a query without a checkpoint begins: behind what was captured, if anything."""
        if self._checkpoint.names("offsets"):
            return
        if positions := self._target.next_numbers():
            self._options["startingPositionsByFragment"] = json.dumps(positions)
        elif self._settings.starting is not None:
            self._options["startingPosition"] = self._settings.starting

    # --- batches --------------------------------------------------------------------------

    def _drain(self) -> None:
        """Windows until nothing waits of what was there at the beginning."""
        before = len(self._windows)
        frame = self._spark.readStream.format("servicebus").options(**self._options).load()
        query = (
            frame.writeStream.foreachBatch(self._write)
            .option("checkpointLocation", self._target.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        watch(query, self._progress)
        if len(self._windows) == before and self._settings.empty_windows:
            now_ms = round(time.time() * 1000)
            noted = self._target.note_empty(self._bus.fragments(), now_ms)
            self._windows += [] if noted is None else [noted]

    def _write(self, frame: "DataFrame", batch: int) -> None:
        """One batch; one that counts already is not written again."""
        target = self._target
        app = self._app()
        name = window_name(app, batch)
        window = window_named(target.lake, name)
        if window is None:
            staging = f"{STAGING}/{name}"
            target.lake.delete_folder(staging)
            writer = task_writer(target.lake, target.template, staging, name, target.columns)
            told = frame.mapInArrow(writer, REPORT_DDL).collect()
            if not told:
                return  # Spark begins a query without messages with a batch without rows
            window = target.close_window(app, batch, told)
        target.publish(window)
        self._windows.append(window)

    def _app(self) -> str:
        """The id of the query, which its checkpoint keeps: a new checkpoint numbers anew."""
        metadata = self._checkpoint.read_json("metadata")
        assert metadata is not None, "Spark writes it before the first batch"
        return str(metadata["id"])

    # --- time -----------------------------------------------------------------------------

    def _wait(self) -> bool:
        """Wait until a window is due; False when the run is to end."""
        settings = self._settings
        opened = time.monotonic()
        window_s = settings.window_time_ms / 1000
        pause_s = min(max(window_s / 10, LOOK_EVERY_S_MIN), LOOK_EVERY_S_MAX)
        while True:
            now = time.monotonic()
            if settings.run_time_ms is not None:
                left_s = self._began + settings.run_time_ms / 1000 - now
                if left_s <= 0:
                    return False
                pause_s = min(pause_s, left_s)
            if now - opened >= window_s:
                return True
            if self._waiting_bytes() >= settings.window_size_bytes:
                return True
            time.sleep(min(pause_s, max(opened + window_s - now, 0.01)))

    def _lag(self, positions: dict[int, int]) -> dict[int, int]:
        """How many numbers each fragment has behind the cursor, as far as the bus tells."""
        told = good(
            self._bus.ask("status", "fragments", list(positions), sub_queue="none"), "status"
        )
        return {
            index: max(answer["end"] - max(positions[index], FIRST_NUMBER), 0)
            for index, answer in told.items()
        }

    def _waiting_bytes(self) -> int:
        """About how much no window has yet: the numbers, by the size of the first messages.

        To add all sizes up would cost the bus more than reading the messages."""
        positions = cursor_positions(self._bus)
        lag = {index: count for index, count in self._lag(positions).items() if count}
        limits = {str(index): {"messages": SAMPLE_MESSAGES} for index in lag}
        starts = {index: positions[index] for index in lag}
        plans = good(self._bus.ask("plan", "from", starts, sub_queue="none", limits=limits), "plan")
        count = sum(plan["count"] for plan in plans.values())
        size = sum(plan["bytes"] for plan in plans.values())
        return round(sum(lag.values()) * size / count) if count else 0

    def _report(self, waiting: int | None) -> CaptureReport:
        full = [window for window in self._windows if not window.is_empty]
        files = [file for window in full for file in window.files]
        return CaptureReport(
            entity=self._settings.entity,
            target=self._settings.target,
            format=self._settings.format,
            cursor=self._target.cursor,
            windows=len(full),
            empty_windows=sum(window.is_empty for window in self._windows),
            files=len(files),
            rows=sum(file.rows for file in files),
            bytes=sum(file.bytes for file in files),
            fragments={index: asdict(span) for index, span in spans_of(files).items()},
            waiting=waiting,
            seconds=round(time.monotonic() - self._began, 3),
        )


def main(argv: Sequence[str] | None = None) -> int:
    """The script for spark-submit."""
    from pyspark_servicebus.pipelines.arguments import BACKGROUND, script_main

    return script_main(
        argv,
        name="capture",
        description="Capture what passes a queue or subscription as Parquet or Delta.",
        settings=CaptureSettings,
        read=CaptureSettings.from_table,
        work=capture,
        nice=BACKGROUND,
    )
