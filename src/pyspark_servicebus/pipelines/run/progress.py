"""How a pipeline reports its progress: rows, lag and rate, to its watchers.

Owns the interface (`Progress`), a watcher for consoles, and `watch`, which follows a streaming
query until it ends and turns its error into a readable text. It must never change what a query
does.
"""

import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from pyspark_servicebus.lag import messages_behind, reported_offset
from pyspark_servicebus.pipelines.report.wording import format_span

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S: Final = 0.5
LINE_EVERY_S: Final = 10.0
_OWN_WORDS: Final = re.compile(r"^pyspark_servicebus\.[\w.]+: (.+(?:\n  \w.+)*)$", re.MULTILINE)
_PYTHON_WORDS: Final = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_CAUSE: Final = re.compile(r"^Caused by: (?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
_CODES: Final = re.compile(
    r"^\[STREAM_FAILED\] .*? terminated with exception: |\[[A-Z][A-Z_.]+\] |\s*SQLSTATE: \w+"
)
"""What Spark puts around an error text."""
_FULL_DISK: Final = ("No space left on device", "File too large", "Disk quota exceeded")


class PipelineFailed(RuntimeError):
    """A pipeline ended prematurely; the text says why and what to do."""

    def __init__(self, text: str, condition: str | None = None) -> None:
        super().__init__(text)
        self.condition = condition
        """The condition of the data source that ended it, such as SERVICEBUS_UNREACHABLE."""


class Progress(Protocol):
    """A watcher of a pipeline."""

    def started(self, name: str, total: int | None) -> None:
        """It begins; with the total number of rows, if known."""

    def advanced(self, rows: int, lag: int | None, batch: int) -> None:
        """A batch is done, with this many rows; `lag` is what still waits, if known."""

    def finished(self) -> None:
        """It has ended, successfully or not."""


class ProgressGroup:
    """Passes everything on to several watchers."""

    def __init__(self, *watchers: Progress) -> None:
        self._watchers = watchers

    def started(self, name: str, total: int | None) -> None:
        for watcher in self._watchers:
            watcher.started(name, total)

    def advanced(self, rows: int, lag: int | None, batch: int) -> None:
        for watcher in self._watchers:
            watcher.advanced(rows, lag, batch)

    def finished(self) -> None:
        for watcher in self._watchers:
            watcher.finished()


SILENT: Final[Progress] = ProgressGroup()


class ConsoleProgress:
    """Rows, rate, lag and the remaining time: one updated line on a terminal, else plain lines."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._name = ""
        self._total: int | None = None
        self._rows = 0
        self._lag: int | None = None
        self._reported_at = self._began = 0.0
        self._reported_rows = -1
        self._status: Any = None

    def started(self, name: str, total: int | None) -> None:
        self._name, self._total, self._rows = name, total, 0
        self._began = self._reported_at = self._clock()
        if self._stream.isatty():
            from rich.console import Console

            self._status = Console(file=self._stream).status(f"{name}: starting")
            self._status.start()

    def advanced(self, rows: int, lag: int | None, batch: int) -> None:
        self._rows += rows
        self._lag = lag
        if self._status is not None:
            self._status.update(self.line())
        elif self._clock() - self._reported_at >= LINE_EVERY_S:
            self._print()

    def finished(self) -> None:
        if self._status is not None:
            self._status.stop()
        if self._rows != self._reported_rows:
            self._print()

    def line(self) -> str:
        """The current values, as a line."""
        seconds = max(self._clock() - self._began, 1e-9)
        rate = self._rows / seconds
        left = self._lag
        if self._total is not None:
            left = max(self._total - self._rows, 0)
        parts = [f"{self._name}: {self._rows:,}"]
        if self._total is not None:
            parts[0] += f" of {self._total:,}"
        parts[0] += " messages"
        parts.append(f"{rate:,.0f}/s")
        if self._lag is not None and self._total is None:
            parts.append(f"{self._lag:,} behind")
        if left and rate >= 1:
            parts.append(f"{format_span(left / rate)} left")
        return ", ".join(parts)

    def _print(self) -> None:
        self._reported_at, self._reported_rows = self._clock(), self._rows
        print(self.line(), file=self._stream, flush=True)


Advanced = Callable[[int, int | None, int], None]
"""Gets the reports of a query; `Progress.advanced`, or what counts them first."""
RowsOf = Callable[[int], int]
"""How many rows a batch had, for queries whose reports do not know (`foreachBatch`)."""


def watch(query: "StreamingQuery", advanced: Advanced, rows_of: RowsOf | None = None) -> None:
    """Follow a query until it ends; its error is raised with the data source's own text.

    Ctrl-C stops the query at the next batch and is passed on.
    """
    from pyspark.errors import StreamingQueryException

    seen: set[tuple[int, str]] = set()
    try:
        while query.isActive:
            _report_progress(query, advanced, seen, rows_of)
            # Here rather than in the JVM, so that Ctrl-C leaves nothing half done.
            time.sleep(POLL_S)
        _report_progress(query, advanced, seen, rows_of)
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
        _report_progress(query, advanced, seen, rows_of)
        raise
    except StreamingQueryException as error:
        raise failure_of(error) from error


def _report_progress(
    query: "StreamingQuery",
    advanced: Advanced,
    seen: set[tuple[int, str]],
    rows_of: RowsOf | None,
) -> None:
    # All retained reports take a hundred milliseconds to read, the last one takes one.
    last = query.lastProgress
    if last is None or (last.batchId, last.timestamp) in seen:
        return
    for report in query.recentProgress:
        key = (report.batchId, report.timestamp)
        if key in seen:
            continue
        seen.add(key)
        rows = _rows(report) if rows_of is None else rows_of(report.batchId)
        if rows:
            advanced(rows, _lag(report), report.batchId)


def _rows(report: Any) -> int:
    """The messages of a batch.

    Spark counts rows twice that a stage read again after the loss of an executor: a batch has no
    more messages than were planned for it.
    """
    if not report.numInputRows:
        return 0
    return sum(
        min(source.numInputRows, _planned(source, source.numInputRows)) for source in report.sources
    )


def _planned(source: Any, unknown: int) -> int:
    """How many messages a batch was planned with, according to its offsets."""
    end = reported_offset(source.endOffset)
    planned = None if end is None else end.planned_after(reported_offset(source.startOffset))
    return unknown if planned is None else planned


def _lag(report: Any) -> int | None:
    """Messages between the end of the batch and the end of the fragments."""
    known = [
        messages_behind({"latestOffset": source.latestOffset, "endOffset": source.endOffset})
        for source in report.sources
    ]
    seen = [sum(behind.values()) for behind in known if behind is not None]
    return sum(seen) if seen else None


def failure_of(error: Exception) -> PipelineFailed:
    """An error of the bus or of Spark as the failure of a pipeline, in one sentence."""
    from pyspark_servicebus.errors import ServiceBusError, condition_of

    if isinstance(error, ServiceBusError):
        return PipelineFailed(error.words, error.getCondition())
    text = f"{type(error).__name__}: {error}" if isinstance(error, OSError) else str(error)
    return PipelineFailed(plain_words(text), condition_of(error))


def plain_words(text: str) -> str:
    """The readable sentence in Spark's error text."""
    for words in _FULL_DISK:
        if words in text:
            return (
                f"The target is full ({words}). Nothing half-written is counted: make room and run "
                "the same command again, and it continues from its last batch."
            )
    if (own := _OWN_WORDS.findall(text)) or (own := [m[1] for m in _PYTHON_WORDS.findall(text)]):
        return _CODES.sub("", str(own[-1])).strip()
    if causes := _CAUSE.findall(text):
        return f"{causes[-1][0]}: {_CODES.sub('', causes[-1][1])}".strip()
    return _CODES.sub("", text.partition("\n")[0]).strip()
