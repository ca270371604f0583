"""Command lines for spark-submit, built from the settings of a pipeline, and one way to run them.

Owns the options that every pipeline script has and the path from them to a report: session,
progress, state file, exit code. The verbs of `partibus pipeline` call `run_job` too, so that a
script and a verb behave alike.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark_servicebus.given_options import OptionsError
from pyspark_servicebus.pipelines.run.execution import Execution
from pyspark_servicebus.pipelines.run.place import PLACE_KEYS
from pyspark_servicebus.pipelines.run.progress import (
    ConsoleProgress,
    PipelineFailed,
    Progress,
    ProgressGroup,
)
from pyspark_servicebus.pipelines.run.reports import Made, Report, all_done
from pyspark_servicebus.pipelines.run.settings import SettingsError
from pyspark_servicebus.pipelines.run.settings_table import (
    Declaration,
    Setting,
    bus_field,
    settings_of,
)
from pyspark_servicebus.pipelines.run.state import RecordedProgress
from pyspark_servicebus.pipelines.run.termination import EXIT_INTERRUPTED, terminated_as_interrupted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Settings = TypeVar("Settings", bound=Declaration)
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
_PLACE_HELP: Final = {
    "connection_string_ref": "Where the connection string is: env:NAME or file:PATH.",
    "connection_string": "The connection string of the bus itself; prefer a reference.",
    "ca_file": "Trust this certificate authority (PEM).",
}


_NOT_OF_SCRIPTS: Final = ("spark_log",)
"""Spark's log is that of spark-submit."""


def run_job(
    kind_name: str,
    execution: Execution,
    work: "Callable[[SparkSession, Settings, Progress], Made]",
    settings: Settings,
    *,
    log_file: Path | None = None,
    is_quiet: bool = False,
) -> Made:
    """Make a session, run a pipeline in it, record its state, and stop the session."""
    from pyspark_servicebus.pipelines.kinds import KINDS
    from pyspark_servicebus.pipelines.run.session import spark_session

    name, conf = execution.name or kind_name, execution.spark_conf()
    recorded = RecordedProgress(name, kind_name, execution.state_place(), execution.metrics_place())
    console: tuple[Progress, ...] = () if is_quiet else (ConsoleProgress(),)
    progress = ProgressGroup(recorded, *console)
    kind = KINDS.get(kind_name)
    jvm_options = kind.jvm_options if kind else ""
    nice = execution.nice
    if nice is None:
        nice = kind.nice if kind else 0

    def run() -> Made:
        spark = spark_session(
            f"partibus {name}", execution.master, conf, log_file, nice, jvm_options
        )
        try:
            return work(spark, settings, progress)
        finally:
            spark.stop()

    with terminated_as_interrupted():
        return recorded.run(run)


def parser_for(kind: type[object], prog: str, description: str) -> argparse.ArgumentParser:
    """The options of a script: the settings of its pipeline, the bus, and how it is run."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    for found in settings_of(kind):
        _add(parser, found)
    if bus_field(kind) is not None:
        for key in PLACE_KEYS:
            parser.add_argument(_flag(key), metavar="TEXT", help=_PLACE_HELP[key])
    running = parser.add_argument_group("execution")
    for found in settings_of(Execution):
        if found.key not in _NOT_OF_SCRIPTS:
            _add(running, found)
    return parser


def table_of(kind: type[object], given: argparse.Namespace) -> dict[str, object]:
    """The given settings, as `from_table` reads them."""
    keys = [found.key for found in settings_of(kind)]
    keys += PLACE_KEYS if bus_field(kind) is not None else ()
    values = {key: getattr(given, key, None) for key in keys}
    return {key: value for key, value in values.items() if value is not None}


def script_main(
    argv: Sequence[str] | None = None,
    *,
    name: str,
    description: str,
    settings: type[Settings],
    work: "Callable[[SparkSession, Settings, Progress], Report]",
) -> int:
    """The `main` of a pipeline script: options, run, report; returns the exit code."""
    from pyspark_servicebus.pipelines.run.session import is_submitted

    parser = parser_for(settings, f"{name}.py", description)
    given = parser.parse_args(argv)
    try:
        chosen = settings.from_table(table_of(settings, given))
        execution = Execution.from_table(table_of(Execution, given))
        # Otherwise progress would be mixed into the report on stdout.
        is_quiet = execution.json and is_submitted()
        report = run_job(name, execution, work, chosen, is_quiet=is_quiet)
        print(report.as_json() if execution.json else report.as_text(), flush=True)
        all_done(report)
    except (SettingsError, OptionsError) as error:
        words = error.words if isinstance(error, OptionsError) else error
        print(f"{name}: {words}", file=sys.stderr)
        return EXIT_USAGE
    except PipelineFailed as error:
        print(f"{name}: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def _flag(key: str) -> str:
    return "--" + key.replace("_", "-")


def _add(parser: argparse._ActionsContainer, found: Setting) -> None:
    text = found.full_help().replace("%", "%%")
    names = dict.fromkeys((_flag(found.key), *found.typed.flags))
    if found.form == "switch":
        action = argparse.BooleanOptionalAction
        parser.add_argument(*names, dest=found.key, action=action, default=None, help=text)
        return
    metavar = "|".join(found.choices) if found.choices else found.metavar
    action_name = "append" if found.form == "texts" else "store"
    parser.add_argument(*names, dest=found.key, action=action_name, metavar=metavar, help=text)
