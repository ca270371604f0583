"""`partibus pipeline replay`: a capture, sent to a queue or topic again.

Owns the options of the verb. Settings are judged, and the work is done, by
`pyspark_servicebus.pipelines`.
"""

from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from partibus.cli.asking import on_server
from partibus.cli.options import Destination
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import Running, bus_of, check_entity, given, run_pipeline

if TYPE_CHECKING:
    from partibus.cli.place import Place

_WHICH: Final = "Which messages"
_CHANGES: Final = "What is changed"
_RESUMING: Final = "Resuming"


@on_server
@runs_pipeline()
def replay(
    place: "Place",
    running: Running,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The folder of a capture, a Delta table, the manifest of a window, or Parquet"
            " files with the columns of messages.",
        ),
    ],
    entity: Destination,
    pace: Annotated[
        Literal["full", "original"] | None,
        typer.Option(help="As fast as the bus takes it, or as it came. (default full)"),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(metavar="N", help="The original pace, so many times as fast."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count and show the first messages; send none."),
    ] = False,
    filter: Annotated[  # noqa: A002 - the name of the option
        str | None,
        typer.Option(
            metavar="SQL",
            help="Only messages for which this expression over the columns is true, for example"
            " \"subject = 'order'\".",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only what was enqueued at or after, for example 2026-01-31T12:00:00Z.",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="TIME",
            help="Only what was enqueued before.",
            rich_help_panel=_WHICH,
        ),
    ] = None,
    rewrite_ids: Annotated[
        bool,
        typer.Option(
            "--rewrite-ids",
            help="Put 'replay-' before every message id, so that an entity that detects duplicates"
            " takes messages that it had before.",
            rich_help_panel=_CHANGES,
        ),
    ] = False,
    id_prefix: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The same with other words.", rich_help_panel=_CHANGES),
    ] = None,
    schedule: Annotated[
        Literal["keep", "shift", "drop"] | None,
        typer.Option(
            help="Scheduled times: keep them, shift them as far as the replay is later, or drop"
            " them. (default keep)",
            rich_help_panel=_CHANGES,
        ),
    ] = None,
    deliver: Annotated[
        Literal["staged", "atLeastOnce"] | None,
        typer.Option(
            help="Each message once, or with half the work for the bus and, after an interruption,"
            " some of them twice. (default staged)",
            rich_help_panel=_RESUMING,
        ),
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="Begin anew, even if a replay was interrupted.",
            rich_help_panel=_RESUMING,
        ),
    ] = False,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The positions of the replay. (default a file in the state directory)",
            rich_help_panel=_RESUMING,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Messages after which the positions are kept. (default 20000)",
            rich_help_panel=_RESUMING,
        ),
    ] = None,
    retry: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long a bus that is away is waited for. (default 5m)"
        ),
    ] = None,
) -> None:
    """Send captured messages to a queue or topic, in order for each key.

    An interrupted replay is run again with the same command: it goes on where it was, and no
    message comes twice.

    Example:

        partibus pipeline replay ./lake orders --dry-run
        partibus pipeline replay ./lake orders --speed 2 --rewrite-ids
    """
    from pyspark_servicebus.pipelines.kinds import KINDS
    from pyspark_servicebus.pipelines.replay import ReplaySettings
    from pyspark_servicebus.pipelines.replay import replay as send_again
    from pyspark_servicebus.pipelines.replaying.settings import ID_PREFIX
    from pyspark_servicebus.pipelines.replaying.source import found_files

    settings = ReplaySettings.from_table(
        given(
            bus=bus_of(place),
            source=source,
            entity=entity,
            pace=pace,
            speed=speed,
            dry_run=dry_run,
            filter=filter,
            since=since,
            until=until,
            id_prefix=id_prefix or (ID_PREFIX if rewrite_ids else None),
            schedule=schedule,
            deliver=deliver,
            restart=restart,
            state=state,
            batch=batch,
            retry=retry,
        )
    )
    if running.state_dir is not None:
        settings = KINDS["replay"].in_state_dir(settings, running.state_dir)
    found_files(source)
    check_entity(settings.bus, entity)
    run_pipeline("replay", running, send_again, settings)
