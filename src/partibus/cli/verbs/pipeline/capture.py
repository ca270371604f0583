"""`partibus pipeline capture`: what passes a queue or subscription, as Parquet or Delta.

Owns the options of the verb. Settings are judged, and the work is done, by
`pyspark_servicebus.pipelines`.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from partibus.cli.asking import on_server
from partibus.cli.help_pages import VerbGroup
from partibus.cli.options import AsJson, Entity
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import Running, bus_of, check_entity, given, run_pipeline

if TYPE_CHECKING:
    from partibus.cli.place import Place

_WINDOWS = "Windows"
_CURSOR = "The cursor"


class CaptureGroup(VerbGroup):
    """`capture ENTITY TARGET` is `capture run ENTITY TARGET`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=CaptureGroup,
    help="Copy what passes a queue or subscription to Parquet or Delta, exactly once."
    "\n\n`partibus pipeline capture ENTITY TARGET` is short for `capture run ENTITY TARGET`.",
    no_args_is_help=True,
)


@app.command()
@on_server
@runs_pipeline()
def run(
    place: "Place",
    running: Running,
    entity: Entity,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A folder, or a URI.")],
    format: Annotated[  # noqa: A002 - the name of the option
        Literal["parquet", "delta"] | None,
        typer.Option(help="Files in folders, or a Delta table. (default parquet)"),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The folder of a message, of {namespace}, {entity}, {fragment}, {yyyy}, {MM},"
            " {dd}, {HH}, {mm}. (default all of these in this order)",
        ),
    ] = None,
    window_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Close a window when so much waits. (default 128MiB)",
            rich_help_panel=_WINDOWS,
        ),
    ] = None,
    window_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Close a window after so long. (default 5m)",
            rich_help_panel=_WINDOWS,
        ),
    ] = None,
    empty_windows: Annotated[
        bool,
        typer.Option(
            "--empty-windows",
            help="Write a file without rows for a window in which nothing came.",
            rich_help_panel=_WINDOWS,
        ),
    ] = False,
    continuous: Annotated[
        bool,
        typer.Option("--continuous", help="Go on until stopped; else take what is there and end."),
    ] = False,
    run_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End a continuous capture after so long."),
    ] = None,
    include_amqp: Annotated[
        bool,
        typer.Option("--include-amqp", help="Keep each message byte by byte too."),
    ] = False,
    starting: Annotated[
        Literal["earliest", "latest"] | None,
        typer.Option(
            help="Where a new capture begins: with the oldest message, or with the next."
            " (default earliest)",
            rich_help_panel=_CURSOR,
        ),
    ] = None,
    cursor: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="The name of its cursor on the bus. (default one of its own)",
            rich_help_panel=_CURSOR,
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long the bus keeps what is not captured yet. (default 7d)",
            rich_help_panel=_CURSOR,
        ),
    ] = None,
    retention_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="How much of it the bus keeps for each fragment. (default 10g)",
            rich_help_panel=_CURSOR,
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss",
            help="Go on when the bus has let messages go that were not captured yet.",
            rich_help_panel=_CURSOR,
        ),
    ] = False,
    retry: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long a bus that is away is waited for. (default 5m)"
        ),
    ] = None,
) -> None:
    """Copy what passes a queue or subscription to Parquet files or a Delta table, exactly once.

    Other consumers are not touched: the bus keeps a cursor for the capture, and what the cursor has
    not passed, also after others have settled it. Killed at any point and started again, it goes
    on where it was.

    Example:

        partibus pipeline capture orders ./lake
        partibus pipeline capture orders ./lake --continuous --window-time 1m
    """
    from pyspark_servicebus.pipelines.capture import CaptureSettings, capture

    settings = CaptureSettings.from_table(
        given(
            bus=bus_of(place),
            entity=entity,
            target=target,
            format=format,
            template=template,
            window_size=window_size,
            window_time=window_time,
            empty_windows=empty_windows,
            continuous=continuous,
            run_time=run_time,
            include_amqp=include_amqp,
            starting=starting,
            cursor=cursor,
            retention=retention,
            retention_size=retention_size,
            accept_loss=accept_loss,
            retry=retry,
        )
    )
    check_entity(settings.bus, entity)
    run_pipeline("capture", running, capture, settings)


@app.command()
@runs_pipeline()
def compact(
    running: Running,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A folder, or a URI.")],
    file_size: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Files grow up to this size. (default 128MiB)"),
    ] = None,
) -> None:
    """Put the small files of a capture together, folder by folder.

    The capture may go on meanwhile. A reader of the files misses messages for a moment while files
    change places, and never sees one twice; readers of a Delta table notice nothing.

    Example:

        partibus pipeline capture compact ./lake --file-size 256m
    """
    from pyspark_servicebus.pipelines.compaction import CompactSettings
    from pyspark_servicebus.pipelines.compaction import compact as compact_files

    settings = CompactSettings.from_table(given(target=target, file_size=file_size))
    run_pipeline("compact", running, compact_files, settings)


@app.command()
def show(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A folder, or a URI.")],
    last: Annotated[
        int, typer.Option(metavar="N", help="So many windows, the newest last.", min=1)
    ] = 20,
    json: AsJson = False,
) -> None:
    """Show what a capture holds: its windows, files and messages, without starting Spark."""
    from partibus.cli.asking import print_json
    from partibus.cli.failures import told
    from partibus.cli.pipelines.running import pipelines_ready
    from partibus.cli.quantities import clock_time, spoken_bytes
    from partibus.cli.tables import print_table

    with told(), pipelines_ready():
        from pyspark_servicebus.pipelines.lake.summary import summary_of

        found = summary_of(target)
        if json:
            print_json(found.as_table())
            return
        typer.echo(found.as_text())
        windows = found.windows[-last:]
        print_table(
            ("window", "closed", "messages", "bytes", "files", "fragments"),
            [
                (
                    window.name,
                    clock_time(window.closed_ms),
                    window.rows,
                    spoken_bytes(window.bytes),
                    len(window.files),
                    len(window.fragments) or "-",
                )
                for window in windows
            ],
            text_columns=("window", "closed"),
        )
