"""`partibus pipeline run FILE` and `partibus pipeline check FILE`: declared pipelines.

Owns the options of the two verbs and the output between runs. The format of a file, and its
schedule, are in `pyspark_servicebus.pipelines`.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_answer
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import bus_of, session_for_check
from pyspark_servicebus.pipelines.run.execution import Execution

if TYPE_CHECKING:
    import datetime

    from pyspark.sql import SparkSession

    from partibus.cli.place import Place
    from pyspark_servicebus.pipelines.declared.file import Declared
    from pyspark_servicebus.pipelines.run.reports import Report

PipelineFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A pipeline in TOML.", dir_okay=False)
]


@on_server
@runs_pipeline("name")
def run(
    place: "Place",
    running: Execution,
    file: PipelineFile,
    once: Annotated[
        bool, typer.Option("--once", help="Run once now, regardless of the schedule.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Serve Prometheus metrics on this local port."),
    ] = None,
) -> None:
    """Run the pipeline that a file declares, by its schedule.

    The options of the bus and of Spark override the file. After an interruption, the same command
    continues where it stopped.
    """
    from pyspark_servicebus.pipelines.declared.running import DeclaredRun
    from pyspark_servicebus.pipelines.declared.schedule import Schedule
    from pyspark_servicebus.pipelines.run.progress import ConsoleProgress
    from pyspark_servicebus.pipelines.run.termination import terminated_as_interrupted

    declared = _declared(place, file, running)
    if once:
        declared = dataclasses.replace(declared, schedule=Schedule())
    if metrics_port is not None:
        declared = dataclasses.replace(declared, metrics_port=metrics_port)
    sessions = _Sessions(declared, running)
    runs = DeclaredRun(
        declared,
        sessions.get,
        _Reporter(declared.name, running.json),
        running.state_place(),
        running.metrics_place(),
        () if running.json else (ConsoleProgress(),),
    )
    try:
        with terminated_as_interrupted():
            runs.go()
    finally:
        sessions.stop()


@on_server
@runs_pipeline("name", "nice", "metrics_file")
def check(
    place: "Place",
    running: Execution,
    file: PipelineFile,
    reach: Annotated[
        bool, typer.Option("--reach-master", help="Also check that the Spark master answers.")
    ] = False,
) -> None:
    """Check whether the pipeline of a file would work; no message is touched.

    Checks keys, types, entities of the bus, functions, SQL and columns; the last two with Spark,
    on this machine, with an empty DataFrame.
    """
    from pyspark_servicebus.pipelines.declared.check import (
        check_declared,
        check_names,
        reach_master,
    )

    declared = _declared(place, file, running)
    check_names(declared)
    reached = reach_master(running.master or declared.master) if reach else ""
    # Columns are checked on this machine, whatever the master.
    with session_for_check(dataclasses.replace(running, master=None)) as spark:
        report = check_declared(spark, declared)
    answer = {
        "ok": True,
        "name": report.name,
        "kind": report.kind,
        "schedule": report.schedule,
        "columns": report.columns,
    }
    print_answer(answer, running.json, f"{report.as_text()} {reached}".rstrip())


def _declared(place: "Place", file: Path, running: Execution) -> "Declared":
    from pyspark_servicebus.pipelines.declared.file import load_declared

    forced = place.origin.startswith("--")
    with lines_reported():
        return load_declared(file, bus_of(place), running.state_place(), is_bus_forced=forced)


@contextmanager
def lines_reported() -> Iterator[None]:
    """The errors of a file, one line each."""
    from partibus.cli.failures import say
    from partibus.server.failure import EXIT_USAGE
    from pyspark_servicebus.pipelines.declared.file import FileError

    try:
        yield
    except FileError as error:
        for line in error.complaints:
            say(line)
        raise typer.Exit(EXIT_USAGE) from error


class _Sessions:
    """The Spark session of all runs; a new one after it has died."""

    def __init__(self, declared: "Declared", running: Execution) -> None:
        self._declared, self._running = declared, running
        self._session: SparkSession | None = None

    def get(self) -> "SparkSession":
        from pyspark_servicebus.pipelines.run.session import spark_session

        if self._session is not None and _is_alive(self._session):
            return self._session
        declared, running = self._declared, self._running
        nice = declared.kind.nice if running.nice is None else running.nice
        if self._session is not None:
            nice = 0  # the priority of this process is already lowered
        self._session = spark_session(
            f"partibus {declared.name}",
            running.master or declared.master,
            {**declared.conf, **running.spark_conf()},
            running.log_file(declared.name),
            nice,
            declared.kind.jvm_options,
        )
        return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()


def _is_alive(spark: "SparkSession") -> bool:
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False  # whatever is wrong with the connection to the JVM, it is unusable


class _Reporter:
    """Reports on the terminal what happens between runs."""

    def __init__(self, name: str, as_json: bool) -> None:
        self._name, self._as_json = name, as_json

    def report(self, report: "Report") -> None:
        typer.echo(report.as_json() if self._as_json else report.as_text())

    def failed(self, error: Exception) -> None:
        from partibus.cli.failures import say

        say(f"{self._name} failed: {error} The next run starts as scheduled.")

    def waiting(self, until: "datetime.datetime") -> None:
        if not self._as_json:
            moment = until.strftime("%Y-%m-%d %H:%M:%S")
            typer.echo(f"{self._name}: the next run is at {moment}", err=True)

    def serving(self, port: int) -> None:
        typer.echo(f"{self._name}: metrics at http://127.0.0.1:{port}/metrics", err=True)
