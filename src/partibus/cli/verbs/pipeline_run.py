"""`partibus pipeline run FILE` and `partibus pipeline check FILE`: declared pipelines.

Owns the options of the two verbs and what a person sees between runs. What a file may say, and its
schedule, are in `pyspark_servicebus.pipelines`.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_json
from partibus.cli.options import AsJson
from partibus.cli.pipeline_options import Conf, Master, MetricsFile, SparkLog, StateDir

if TYPE_CHECKING:
    import datetime

    from pyspark.sql import SparkSession

    from partibus.cli.pipeline_running import Running
    from partibus.cli.place import Place
    from pyspark_servicebus.pipelines.arguments import Report
    from pyspark_servicebus.pipelines.declared_file import Declared

PipelineFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A pipeline in TOML.", dir_okay=False)
]


@on_server
def run(
    place: "Place",
    file: PipelineFile,
    once: Annotated[
        bool, typer.Option("--once", help="Run once now, whatever the schedule says.")
    ] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Answer Prometheus on this port of this machine."),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    state_dir: StateDir = None,
    metrics_file: MetricsFile = None,
    spark_log: SparkLog = None,
    json: AsJson = False,
) -> None:
    """Run the pipeline that a file declares, by its schedule.

    The options of the bus and of Spark go before what the file says. A run that was interrupted
    goes on where it was when the same command is given again.
    """
    import dataclasses

    from partibus.cli.pipeline_running import Running, pipelines_ready

    running = Running(master=master, conf=conf, state_dir=state_dir, spark_log=spark_log, json=json)
    with pipelines_ready():
        from pyspark_servicebus.pipelines.declared import DeclaredRun
        from pyspark_servicebus.pipelines.progress import ConsoleProgress
        from pyspark_servicebus.pipelines.schedule import Schedule
        from pyspark_servicebus.pipelines.state import default_state_dir

        declared = _declared(place, file, running)
        if once:
            declared = dataclasses.replace(declared, schedule=Schedule())
        if metrics_port is not None:
            declared = dataclasses.replace(declared, metrics_port=metrics_port)
        sessions = _Sessions(declared, running)
        # A manager of processes ends a pipeline as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            DeclaredRun(
                declared,
                sessions.get,
                _Teller(declared.name, json),
                state_dir or default_state_dir(),
                metrics_file,
                () if json else (ConsoleProgress(),),
            ).go()
        finally:
            sessions.stop()


@on_server
def check(
    place: "Place",
    file: PipelineFile,
    reach: Annotated[
        bool, typer.Option("--reach-master", help="Also ask whether Spark's master answers.")
    ] = False,
    master: Master = None,
    conf: Conf = None,
    state_dir: StateDir = None,
    spark_log: SparkLog = None,
    json: AsJson = False,
) -> None:
    """Say whether the pipeline of a file would work; no message is touched.

    Keys, types, entities of the bus, functions, SQL and columns are looked at, the last two by
    Spark, on this machine, with a frame that has no rows.
    """
    from partibus.cli.pipeline_running import Running, pipelines_ready

    running = Running(conf=conf, state_dir=state_dir, spark_log=spark_log, json=json)
    with pipelines_ready():
        from partibus.cli.pipeline_checking import session_for_check
        from pyspark_servicebus.pipelines.declared_check import (
            check_declared,
            check_names,
            reach_master,
        )

        declared = _declared(place, file, running)
        check_names(declared)
        reached = reach_master(master or declared.master) if reach else ""
        with session_for_check(running) as spark:
            report = check_declared(spark, declared)
        if json:
            print_json(
                {
                    "ok": True,
                    "name": report.name,
                    "kind": report.kind,
                    "schedule": report.schedule,
                    "columns": report.columns,
                }
            )
        else:
            typer.echo(f"{report.as_text()} {reached}".rstrip())


def _declared(place: "Place", file: Path, running: "Running") -> "Declared":
    from partibus.cli.pipeline_running import bus_of
    from pyspark_servicebus.pipelines.declared_file import load_declared
    from pyspark_servicebus.pipelines.state import default_state_dir

    state_dir = running.state_dir or default_state_dir()
    forced = place.origin.startswith("--")
    with lines_told():
        return load_declared(file, bus_of(place), state_dir, is_bus_forced=forced)


@contextmanager
def lines_told() -> Iterator[None]:
    """What is wrong with a file, a line for each complaint."""
    from partibus.cli.failures import say
    from partibus.server.failure import EXIT_USAGE
    from pyspark_servicebus.pipelines.declared_file import FileError

    try:
        yield
    except FileError as error:
        for line in str(error).splitlines():
            say(line)
        raise typer.Exit(EXIT_USAGE) from error


class _Sessions:
    """The Spark session of all runs; another one when it has died."""

    def __init__(self, declared: "Declared", running: "Running") -> None:
        self._declared, self._running = declared, running
        self._session: SparkSession | None = None

    def get(self) -> "SparkSession":
        from pyspark_servicebus.pipelines.arguments import pairs
        from pyspark_servicebus.pipelines.session import spark_session
        from pyspark_servicebus.pipelines.state import default_state_dir

        if self._session is not None and _is_alive(self._session):
            return self._session
        declared, running = self._declared, self._running
        log_file = running.spark_log
        if log_file is None:
            log_file = (running.state_dir or default_state_dir()) / f"{declared.name}.log"
        self._session = spark_session(
            f"partibus {declared.name}",
            running.master or declared.master,
            {**declared.conf, **pairs(running.conf or [])},
            None if str(log_file) == "-" else log_file,
        )
        return self._session

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()


def _is_alive(spark: "SparkSession") -> bool:
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:
        return False  # whatever is wrong with the connection to the JVM, it is of no use


class _Teller:
    """Says on the terminal what happens between runs."""

    def __init__(self, name: str, as_json: bool) -> None:
        self._name, self._as_json = name, as_json

    def report(self, report: "Report") -> None:
        typer.echo(report.as_json() if self._as_json else report.as_text())

    def failed(self, error: Exception) -> None:
        from partibus.cli.failures import say

        say(f"{self._name} failed: {error} The next run comes at its time.")

    def waiting(self, until: "datetime.datetime") -> None:
        if not self._as_json:
            moment = until.strftime("%Y-%m-%d %H:%M:%S")
            typer.echo(f"{self._name}: the next run is at {moment}", err=True)

    def serving(self, port: int) -> None:
        typer.echo(f"{self._name}: metrics at http://127.0.0.1:{port}/metrics", err=True)
