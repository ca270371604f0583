"""From the options of a pipeline verb to a run, and from its failures to one line.

Owns the late import of Spark and of the pipelines, with the pip command where they are missing, and
the translation of their errors. Every verb of `partibus pipeline` that starts one ready-made
pipeline uses `run_pipeline`, those that only check `session_for_check`; all of them run inside
`pipelines_ready`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from partibus.cli.place import Place
    from pyspark_servicebus.pipelines.run.execution import Execution
    from pyspark_servicebus.pipelines.run.place import BusPlace
    from pyspark_servicebus.pipelines.run.progress import Progress
    from pyspark_servicebus.pipelines.run.reports import Report
    from pyspark_servicebus.pipelines.run.settings_table import Declaration

Settings = TypeVar("Settings", bound="Declaration")
PIP: Final = "pip install 'partibus[spark]'"


@contextmanager
def pipelines_ready() -> Iterator[None]:
    """Wraps all use of the pipelines: what is missing or wrong is reported in one line."""
    from partibus.cli.failures import CommandFailed
    from partibus.server.failure import EXIT_FAILED, EXIT_USAGE

    try:
        import pyspark  # noqa: F401

        from pyspark_servicebus.given_options import OptionsError
        from pyspark_servicebus.pipelines.run.progress import PipelineFailed
        from pyspark_servicebus.pipelines.run.settings import SettingsError
    except ImportError as error:
        raise CommandFailed(
            f"pipelines need Apache Spark, and {error.name} is not installed: {PIP}", EXIT_USAGE
        ) from error
    try:
        yield
    except SettingsError as error:
        raise CommandFailed(str(error), EXIT_USAGE) from error
    except OptionsError as error:
        raise CommandFailed(error.words, EXIT_USAGE) from error
    except PipelineFailed as error:
        raise CommandFailed(str(error), EXIT_FAILED) from error


def run_pipeline(
    kind: str,
    running: "Execution",
    work: "Callable[[SparkSession, Settings, Progress], Report]",
    settings: Settings,
) -> None:
    """Run a pipeline in its own session and print its report; an error if it falls short."""
    from pyspark_servicebus.pipelines.run.arguments import run_job
    from pyspark_servicebus.pipelines.run.reports import all_done
    from pyspark_servicebus.pipelines.run.state import checked_name

    log_file = running.log_file(checked_name(running.name or kind))
    report = run_job(kind, running, work, settings, log_file=log_file)
    typer.echo(report.as_json() if running.json else report.as_text())
    all_done(report)


@contextmanager
def session_for_check(running: "Execution") -> "Iterator[SparkSession]":
    """A session for the duration of the block, which leaves no records and no output of Spark."""
    from pyspark_servicebus.pipelines.run.session import spark_session
    from pyspark_servicebus.pipelines.transform.pipeline import own_session

    conf = running.spark_conf()
    spark = spark_session("partibus check", running.master, conf, running.log_file("check"))
    try:
        yield own_session(spark)
    finally:
        spark.stop()


def bus_of(place: "Place") -> "BusPlace":
    """The bus that the options select."""
    from pyspark_servicebus.pipelines.run.place import BusPlace

    text = replace(place.connection, entity_path=None).text()
    return BusPlace(connection_string=text, ca_file=place.ca_file)


def check_entity(bus: "BusPlace", entity: str) -> None:
    """Report before Spark starts that a bus is unreachable or has no such entity."""
    from partibus.cli.failures import CommandFailed
    from partibus.domain import conditions
    from partibus.server import failure
    from pyspark_servicebus.bus import discover
    from pyspark_servicebus.errors import BulkError

    codes = {
        conditions.NOT_FOUND: failure.EXIT_NOT_FOUND,
        conditions.UNAUTHORIZED_ACCESS: failure.EXIT_UNAUTHORIZED,
        conditions.PARTIBUS_UNREACHABLE: failure.EXIT_UNREACHABLE,
    }
    try:
        discover(bus.access(entity), entity)
    except BulkError as error:
        hint = ""
        if error.condition == conditions.PARTIBUS_UNREACHABLE:
            hint = " Is the server running? Start it with: partibus serve"
        code = codes.get(error.condition, failure.EXIT_FAILED)
        raise CommandFailed(f"{error.text}{hint}", code) from error
