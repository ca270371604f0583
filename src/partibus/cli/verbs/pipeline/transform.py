"""`partibus pipeline transform`: messages from entity to entity, changed by SQL or functions.

Owns the text of its help. The settings are declared, and the work is done, in
`pyspark_servicebus.pipelines`.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_answer
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import bus_of, run_pipeline, session_for_check
from partibus.cli.pipelines.settings_options import with_settings
from pyspark_servicebus.pipelines.run.execution import Execution
from pyspark_servicebus.pipelines.transform.settings import TransformSettings

if TYPE_CHECKING:
    from partibus.cli.place import Place


@on_server
@runs_pipeline()
@with_settings(TransformSettings)
def transform(
    place: "Place",
    running: Execution,
    table: dict[str, object],
    check: Annotated[
        bool,
        typer.Option("--check", help="Check whether it would work, without touching a message."),
    ] = False,
) -> None:
    """Send the messages of SOURCE on to TARGET, changed by SQL or a function.

    Without either they are passed on unchanged. A column `target` sends single messages elsewhere.
    After an interruption, the same command continues where it stopped.

        partibus pipeline transform orders bills --sql 'select body, subject from messages'
    """
    if isinstance(sql := table.get("sql"), str):
        table["sql"] = _statement(sql)
    if running.name is not None:
        table.setdefault("owner", running.name)
    settings = TransformSettings.from_table({**table, "bus": bus_of(place)})
    if running.state_dir is not None and "checkpoint" not in table:
        settings = settings.in_state_dir(running.state_place())
    running = dataclasses.replace(running, name=running.name or settings.owner)
    (_check if check else _run)(settings, running)


def _run(settings: TransformSettings, running: Execution) -> None:
    from pyspark_servicebus.pipelines.transform.check import check_entities
    from pyspark_servicebus.pipelines.transform.pipeline import transform

    check_entities(settings)  # a wrong name is reported before Spark starts
    run_pipeline("transform", running, transform, settings)


def _check(settings: TransformSettings, running: Execution) -> None:
    from pyspark_servicebus.pipelines.transform.check import check_transform

    with session_for_check(running) as spark:
        checked = check_transform(spark, settings)
    answer = {"ok": True, "name": settings.owner, "columns": checked.columns()}
    print_answer(answer, running.json, f"{settings.owner}: it would work. {checked.as_text()}")


def _statement(sql: str) -> str:
    return Path(sql[1:]).read_text(encoding="utf-8") if sql.startswith("@") else sql
