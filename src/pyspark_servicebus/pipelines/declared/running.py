"""Running declared pipelines: their runs, one after the other, and their status.

Owns the execution of the schedule: runs never overlap, neither in this process nor with another of
the same name on this machine; a failure is reported, and the next run starts at its time. The
pipeline does the work of a run. Called by `partibus pipeline run`.
"""

import argparse
import datetime
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from pyspark_servicebus.pipelines.declared.check import check_names
from pyspark_servicebus.pipelines.declared.file import Declared, load_declared
from pyspark_servicebus.pipelines.run.metrics_port import metrics_at
from pyspark_servicebus.pipelines.run.one_process import in_one_process
from pyspark_servicebus.pipelines.run.progress import (
    ConsoleProgress,
    PipelineFailed,
    Progress,
    ProgressGroup,
)
from pyspark_servicebus.pipelines.run.reports import Report, all_done
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.state import RecordedProgress, default_state_dir, metrics_text
from pyspark_servicebus.pipelines.run.termination import EXIT_INTERRUPTED, terminated_as_interrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_S_MAX: Final = 3600.0
Clock = Callable[[], datetime.datetime]


class Reporter(Protocol):
    """Gets what happens between runs."""

    def report(self, report: Report) -> None:
        """A run has ended; it may have fallen short of what it should do."""

    def failed(self, error: Exception) -> None:
        """A run has failed, and another one will follow."""

    def waiting(self, until: datetime.datetime) -> None:
        """The next run is due then."""

    def serving(self, port: int) -> None:
        """Metrics are available there."""


@dataclass(slots=True)
class DeclaredRun:
    """A declared pipeline, run by its schedule."""

    declared: Declared
    session: "Callable[[], SparkSession]"
    """A session to run in; requested before each run, since one may have died."""
    reporter: Reporter
    state_dir: Path = field(default_factory=default_state_dir)
    metrics_file: Path | None = None
    watchers: tuple[Progress, ...] = ()
    clock: Clock = lambda: datetime.datetime.now().astimezone()
    stopped: threading.Event = field(default_factory=threading.Event)
    _recorded: RecordedProgress | None = None

    def go(self) -> None:
        """All runs of the schedule; ends with the last, or when stopped."""
        declared = self.declared
        with self._alone(), metrics_at(declared.metrics_port, self._metrics) as port:
            if port is not None:
                self.reporter.serving(port)
            check_names(declared)
            if not declared.schedule.repeats:
                self._run(self.session())
                return
            due = declared.schedule.first_run(self.clock())
            while self._wait_until(due):
                began = self.clock()
                self._try()
                due = declared.schedule.next_run(began, self.clock())

    def _try(self) -> None:
        """One of many runs: what fails now may work next time."""
        try:
            self._run(self.session())
        except SettingsError:
            raise
        except Exception as error:
            self.reporter.failed(error)

    def _run(self, spark: "SparkSession") -> None:
        """One run, and its report; PipelineFailed when it did not do everything it should."""
        declared = self.declared
        metrics_file = self.metrics_file or declared.metrics_file
        recorded = RecordedProgress(declared.name, declared.kind.name, self.state_dir, metrics_file)
        self._recorded = recorded
        report = recorded.run(lambda: self._work(spark, ProgressGroup(recorded, *self.watchers)))
        self.reporter.report(report)
        all_done(report)

    def _work(self, spark: "SparkSession", progress: Progress) -> Report:
        try:
            return self.declared.kind.run(spark, self.declared.settings, progress)
        except SettingsError as error:
            raise self.declared.error(error) from error

    def _metrics(self) -> str:
        recorded = self._recorded
        return metrics_text([] if recorded is None else [recorded.state])

    def _wait_until(self, due: datetime.datetime) -> bool:
        """Wait until a time; False when stopped meanwhile."""
        if (due - self.clock()).total_seconds() > 1:
            self.reporter.waiting(due)
        try:
            while (left_s := (due - self.clock()).total_seconds()) > 0:
                if self.stopped.wait(min(left_s, WAIT_S_MAX)):
                    return False
        except KeyboardInterrupt:
            return False  # between runs this is a normal end
        return not self.stopped.is_set()

    def _alone(self) -> AbstractContextManager[None]:
        """Keep a second process from running the same pipeline."""
        name = self.declared.name
        refusal = (
            f"'{name}' is already running on this machine; see: partibus pipeline status {name}"
        )
        return in_one_process(self.state_dir / f"{name}.lock", refusal)


class PrintedRuns:
    """Prints what happens between runs, for a script."""

    def report(self, report: Report) -> None:
        print(report.as_text(), flush=True)

    def failed(self, error: Exception) -> None:
        print(f"failed: {error} The next run starts as scheduled.", file=sys.stderr, flush=True)

    def waiting(self, until: datetime.datetime) -> None:
        print(f"the next run is at {until:%Y-%m-%d %H:%M:%S}", file=sys.stderr, flush=True)

    def serving(self, port: int) -> None:
        print(f"metrics at http://127.0.0.1:{port}/metrics", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The script for spark-submit: a declared file, by its schedule."""
    from pyspark_servicebus.pipelines.run.arguments import EXIT_FAILED, EXIT_USAGE
    from pyspark_servicebus.pipelines.run.session import is_submitted, spark_session

    parser = argparse.ArgumentParser(prog="declared.py", description="Run a declared pipeline.")
    parser.add_argument("file", type=Path, help="The pipeline, in TOML.")
    parser.add_argument("--master", help="Spark's master, unless spark-submit or the file sets it.")
    parser.add_argument("--state-dir", type=Path, help="Where its state is kept.")
    given = parser.parse_args(argv)
    state_dir = given.state_dir or default_state_dir()
    try:
        declared = load_declared(given.file, None, state_dir)
        # The master of spark-submit takes precedence.
        master = given.master or (None if is_submitted() else declared.master)
        kind = declared.kind
        spark = spark_session(
            declared.name, master, declared.conf, nice=kind.nice, jvm_options=kind.jvm_options
        )
        try:
            watchers = (ConsoleProgress(),)
            reporter = PrintedRuns()
            run = DeclaredRun(declared, lambda: spark, reporter, state_dir, watchers=watchers)
            with terminated_as_interrupted():
                run.go()
        finally:
            spark.stop()
    except (SettingsError, PipelineFailed) as error:
        print(f"declared: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, SettingsError) else EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0
