"""Capture: what passes through a queue or subscription, as Parquet files or a Delta table, exactly
once.

Owns the run: windows read with a cursor, once or repeatedly until stopped. The driver plans a
window as a stream would and keeps the positions in the manifests; a task reads its part of it from
the bus and writes the files, all in one Python process, since passing the messages through the JVM
would cost more than the rest. Other consumers are not affected: a cursor locks and settles nothing.
`capture.target` makes it exactly-once.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from partibus.domain.quantities import format_bytes
from pyspark_servicebus.errors import LossAdvice
from pyspark_servicebus.options import source_options
from pyspark_servicebus.pipelines.capture.files import REPORT_DDL, WindowOptions, window_writer
from pyspark_servicebus.pipelines.capture.folder import Lake
from pyspark_servicebus.pipelines.capture.manifest import STAGING, Window, spans_of, window_name
from pyspark_servicebus.pipelines.capture.settings import CaptureSettings
from pyspark_servicebus.pipelines.capture.target import CaptureTarget, next_numbers
from pyspark_servicebus.pipelines.report.wording import counted
from pyspark_servicebus.pipelines.run.arguments import script_main
from pyspark_servicebus.pipelines.run.choosing import find_entity
from pyspark_servicebus.pipelines.run.progress import SILENT, PipelineFailed, Progress, failure_of
from pyspark_servicebus.pipelines.run.reports import JsonReport
from pyspark_servicebus.source.cursor_stream import FIRST_NUMBER, CursorStream
from pyspark_servicebus.source.offsets import Offset, SourceOffset
from pyspark_servicebus.source.positions import cursor_positions, latest_positions
from pyspark_servicebus.source.reading import Reading, good

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_EVERY_S_MAX: Final = 5.0
LOOK_EVERY_S_MIN: Final = 0.2
SAMPLE_MESSAGES: Final = 64
LOSS_ADVICE: Final = LossAdvice(
    "Capture into another target", "accept the loss (accept_loss, --accept-loss)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureReport(JsonReport):
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
    """Messages behind the cursor at the end, if the bus answered."""
    seconds: float = 0.0

    def as_text(self) -> str:
        lines = [
            f"{self.entity} -> {self.target} ({self.format})",
            f"  {counted(self.rows, 'message')} of {counted(len(self.fragments), 'fragment')} in"
            f" {counted(self.windows, 'window')}, {counted(self.files, 'file')},"
            f" {format_bytes(self.bytes)}, {self.seconds:.1f} s",
        ]
        if self.empty_windows:
            lines.append(f"  {counted(self.empty_windows, 'empty window')}")
        waiting = "not known" if self.waiting is None else counted(self.waiting, "message")
        lines.append(f"  behind the cursor '{self.cursor}': {waiting}")
        return "\n".join(lines)


def check_names(settings: CaptureSettings) -> None:
    """Check that the bus has the entity."""
    find_entity(settings.bus, "entity", settings.entity)


def capture(
    spark: "SparkSession", settings: CaptureSettings, progress: Progress = SILENT
) -> CaptureReport:
    """Capture once what is there, or continue until stopped (Ctrl-C, or the run time)."""
    lake = Lake(settings.target)
    bus = Reading(source_options(settings.source_options("capture"), is_stream=True))
    try:
        with lake.alone("capture"):
            target = CaptureTarget(lake, settings, bus.refresh().entity_id)
            return _Run(spark, target, bus, progress).go()
    except (OSError, PySparkException) as error:
        raise failure_of(error) from error
    finally:
        bus.close()


class _Run:
    """One run of a capture."""

    def __init__(
        self, spark: "SparkSession", target: CaptureTarget, bus: Reading, progress: Progress
    ) -> None:
        self._spark, self._target, self._progress = spark, target, progress
        self._settings = target.settings
        target.recover()
        self._batch, self._reached = target.reached()
        self._bus = bus
        bus.options = source_options(self._settings.source_options(target.cursor), is_stream=True)
        self._stream = CursorStream(bus.options, bus, LOSS_ADVICE)
        self._offset: Offset = {}
        """The positions after all valid windows."""
        self._windows: list[Window] = []
        """Those that this run has closed."""
        self._began = time.monotonic()

    def go(self) -> CaptureReport:
        """All windows of the run, and the report."""
        waiting: int | None = None
        self._progress.started(self._settings.entity, None)
        try:
            self._offset = self._stream.begin_at(self._start())
            self._drain()
            while self._settings.continuous and self._wait():
                self._drain()
            waiting = sum(self._lag().values())
        except KeyboardInterrupt:
            if not self._settings.continuous:
                raise
        finally:
            self._progress.finished()
        return self._report(waiting)

    def _start(self) -> dict[int, int]:
        """Where the first window begins: after everything captured, else at the cursor.

        The cursor may be behind the windows, and is never ahead of them.
        """
        standing = cursor_positions(self._bus)
        if self._reached:
            self._require_cursor(standing)
        if standing or self._reached:
            known = {index: max(standing.get(index, 0), n) for index, n in self._reached.items()}
            begun = standing | known
            return {index: begun.get(index, 0) for index in self._bus.fragments()}
        if self._settings.starting == "latest":
            return latest_positions(self._bus)
        return dict.fromkeys(self._bus.fragments(), 0)

    def _require_cursor(self, standing: dict[int, int]) -> None:
        missing = [str(index) for index in self._bus.fragments() if index not in standing]
        if missing and not self._settings.accept_loss:
            raise PipelineFailed(
                f"The cursor '{self._target.cursor}' of '{self._settings.entity}' was dropped in "
                f"fragments {', '.join(missing)}: what others have settled since then can no "
                f"longer be captured. {LOSS_ADVICE.restart}, or {LOSS_ADVICE.accept}."
            )

    # --- windows --------------------------------------------------------------------------

    def _drain(self) -> None:
        """Windows until everything that was there at the beginning is captured."""
        before = len(self._windows)
        stream = self._stream
        stream.prepareForTriggerAvailableNow()
        while (end := stream.latestOffset(self._offset, stream.getDefaultReadLimit())) != (
            self._offset
        ):
            self._capture(end)
        if len(self._windows) == before and self._settings.empty_windows:
            now_ms = round(time.time() * 1000)
            noted = self._target.note_empty(self._bus.fragments(), now_ms)
            self._windows += [] if noted is None else [noted]

    def _capture(self, end: Offset) -> None:
        """One window, from the bus to its final files."""
        target, batch = self._target, self._batch + 1
        reported = self._written(batch, self._stream.partitions(self._offset, end))
        if reported:  # all numbers of a range may be of messages that are gone
            window = target.close_window(batch, reported)
            self._batch = batch
            target.publish(window)
            self._reached |= next_numbers([window])
            target.note_reached(batch, self._reached)
            self._windows.append(window)
        self._offset = end
        rows = sum(row["rows"] for row in reported)
        self._progress.advanced(rows, sum(self._lag().values()), batch)

    def _written(self, batch: int, parts: Sequence[Any]) -> list[Any]:
        """The tasks' reports of the files of a window."""
        target = self._target
        name = window_name(target.app, batch)
        target.lake.delete_folder(f"{STAGING}/{name}")
        options = WindowOptions(target.lake, target.template, name, target.columns)
        advice = None if self._settings.accept_loss else LOSS_ADVICE
        writer = window_writer(list(parts), advice, options)
        frame = self._spark.range(0, len(parts), 1, len(parts))
        return frame.mapInArrow(writer, REPORT_DDL).collect()

    # --- time -----------------------------------------------------------------------------

    def _wait(self) -> bool:
        """Wait until a window is due; False when the run should end."""
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

    def _positions(self) -> dict[int, int]:
        """The number after the windows in each fragment."""
        return SourceOffset.from_json(self._offset).positions or {}

    def _lag(self) -> dict[int, int]:
        """How many numbers each fragment has after the windows, as far as the bus answers."""
        positions = self._positions()
        reported = good(self._bus.ask("status", list(positions), sub_queue="none"), "status")
        return {
            index: max(answer["end"] - max(positions[index], FIRST_NUMBER), 0)
            for index, answer in reported.items()
        }

    def _waiting_bytes(self) -> int:
        """About how many bytes are not captured yet: numbers times the size of the first messages.

        Adding up all sizes would cost the bus more than reading the messages.
        """
        lag = {index: count for index, count in self._lag().items() if count}
        limits = {str(index): {"messages": SAMPLE_MESSAGES} for index in lag}
        positions = self._positions()
        starts = {index: positions[index] for index in lag}
        plans = good(self._bus.ask("plan", starts, sub_queue="none", limits=limits), "plan")
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


main = partial(
    script_main,
    name="capture",
    description="Capture the messages of a queue or subscription as Parquet or Delta.",
    settings=CaptureSettings,
    work=capture,
)
"""The script for spark-submit; returns the exit code."""
