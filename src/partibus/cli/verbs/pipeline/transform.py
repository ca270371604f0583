"""`partibus pipeline transform`: messages from entity to entity, by SQL or functions.

Owns the options of the verb. The work, and the same settings for files and scripts, are in
`pyspark_servicebus.pipelines.transform`.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from partibus.cli.asking import on_server, print_json
from partibus.cli.completion import complete_entity
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import Running, bus_of, given, run_pipeline

if TYPE_CHECKING:
    from partibus.cli.place import Place
    from pyspark_servicebus.pipelines.transforming.settings import TransformSettings

_WORK: Final = "What is done to messages"
_PROMISE: Final = "What is promised"
_READ: Final = "How messages are read"


@on_server
@runs_pipeline()
def transform(
    place: "Place",
    running: Running,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A queue, or a subscription: TOPIC/Subscriptions/NAME.",
            autocompletion=complete_entity,
        ),
    ],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="A queue or a topic.", autocompletion=complete_entity
        ),
    ],
    sql: Annotated[
        str | None,
        typer.Option(
            metavar="SELECT",
            help="A SELECT over the view `messages`; @FILE reads it from a file.",
            rich_help_panel=_WORK,
        ),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A function from DataFrame to DataFrame; file.py:function works too.",
            rich_help_panel=_WORK,
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A function from a message (dict) to a message, several, or None.",
            rich_help_panel=_WORK,
        ),
    ] = None,
    stateful: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A function (key, rows, state) -> rows that remembers; with --key.",
            rich_help_panel=_WORK,
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="With --stateful: the values of this column have a state each; may be repeated.",
            rich_help_panel=_WORK,
        ),
    ] = None,
    forget_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --stateful: forget keys that were silent so long.",
            rich_help_panel=_WORK,
        ),
    ] = None,
    extra_columns: Annotated[
        Literal["refuse", "properties"] | None,
        typer.Option(
            help="What columns become that messages do not have. (default refuse)",
            rich_help_panel=_WORK,
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        Literal["claim", "cursor"] | None,
        typer.Option(
            help="claim consumes the messages, cursor copies them. (default claim)",
            rich_help_panel=_READ,
            show_default=False,
        ),
    ] = None,
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous",
            help="Go on until Ctrl-C, instead of taking what is there.",
            rich_help_panel=_READ,
        ),
    ] = False,
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --continuous: the time between batches. (default 1s)",
            rich_help_panel=_READ,
        ),
    ] = None,
    max_messages: Annotated[
        int | None,
        typer.Option(metavar="N", help="Messages of a batch at most.", rich_help_panel=_READ),
    ] = None,
    watermark: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How late messages may come, for windows in SQL.",
            rich_help_panel=_READ,
        ),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The name of this pipeline on the bus. (default SOURCE-to-TARGET)",
            rich_help_panel=_READ,
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where Spark keeps how far it is. (default in the state directory)",
            rich_help_panel=_READ,
        ),
    ] = None,
    deliver: Annotated[
        Literal["staged", "dedup", "atLeastOnce"] | None,
        typer.Option(
            help="staged: exactly once; dedup: with a target that detects duplicates."
            " (default staged)",
            rich_help_panel=_PROMISE,
            show_default=False,
        ),
    ] = None,
    dedup_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="With dedup: the columns that make the id of a message.",
            rich_help_panel=_PROMISE,
        ),
    ] = None,
    failure_queue: Annotated[
        str | None,
        typer.Option(
            metavar="QUEUE",
            help="Where messages go that fail, with the reason; else the first ends the run.",
            rich_help_panel=_PROMISE,
        ),
    ] = None,
    failures_max: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="End the run when more messages of a batch fail. (default 100)",
            rich_help_panel=_PROMISE,
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say whether it would work; touch no message.")
    ] = False,
) -> None:
    """Send the messages of SOURCE on to TARGET, changed by SQL or a function.

    Without either they are passed on as they are. A column `target` sends single messages
    elsewhere. A run that was interrupted goes on where it was when the same command is given again.

        partibus pipeline transform orders bills --sql 'select body, subject from messages'
    """
    from pyspark_servicebus.pipelines.transforming.settings import TransformSettings

    settings = TransformSettings.from_table(
        given(
            bus=bus_of(place),
            source=source,
            target=target,
            sql=_statement(sql),
            python=python,
            rows=rows,
            stateful=stateful,
            key=key,
            forget_after=forget_after,
            extra_columns=extra_columns,
            mode=mode,
            continuous=continuous or None,
            interval=interval,
            max_messages=max_messages,
            watermark=watermark,
            owner=owner or running.name,
            checkpoint=checkpoint,
            deliver=deliver,
            dedup_key=dedup_key,
            failure_queue=failure_queue,
            failures_max=failures_max,
        )
    )
    if running.state_dir is not None and checkpoint is None:
        settings = settings.in_state_dir(running.state_dir)
    running = dataclasses.replace(running, name=running.name or settings.owner)
    (_check if check else _run)(settings, running)


def _run(settings: "TransformSettings", running: Running) -> None:
    from pyspark_servicebus.pipelines.transform import transform
    from pyspark_servicebus.pipelines.transforming.check import check_entities

    check_entities(settings)  # a name that is wrong is told before Spark has started
    run_pipeline("transform", running, transform, settings)


def _check(settings: "TransformSettings", running: Running) -> None:
    from partibus.cli.pipelines.checking import session_for_check
    from pyspark_servicebus.pipelines.transforming.check import check_transform

    with session_for_check(running) as spark:
        checked = check_transform(spark, settings)
    if running.json:
        print_json({"ok": True, "name": settings.owner, "columns": checked.columns()})
    else:
        typer.echo(f"{settings.owner}: it would work. {checked.as_text()}")


def _statement(sql: str | None) -> str | None:
    if sql is None or not sql.startswith("@"):
        return sql
    return Path(sql[1:]).read_text(encoding="utf-8")
