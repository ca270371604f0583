"""`partibus pipeline analytics`: the traffic of queues and subscriptions, in numbers and charts.

Owns the options of the verb. Settings are judged, and the work is done, by
`pyspark_servicebus.pipelines`.
"""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from partibus.cli.asking import on_server
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import Running, bus_of, given, run_pipeline

if TYPE_CHECKING:
    from partibus.cli.place import Place

_COUNTING = "Counting"
_STREAM = "Streams"


@on_server
@runs_pipeline()
def analytics(
    place: "Place",
    running: Running,
    entities: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GLOB]...",
            help="Which queues and subscriptions: 'orders*', 'events/Subscriptions/*'."
            " (default all)",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where the report goes: HTML, PNG, Parquet, JSON.",
            show_default=False,
        ),
    ] = None,
    captured: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Look at captured messages instead of a bus."),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="Read along behind a cursor instead of looking at what waits."
        ),
    ] = False,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Count in windows of this length. (default 1m)",
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    key: Annotated[
        Literal["auto", "session_id", "partition_key", "subject", "message_id"] | None,
        typer.Option(
            help="What the key of a message is. (default its session, or else its partition key)",
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="So many of the hottest keys. (default 20)",
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    no_sizes: Annotated[
        bool,
        typer.Option(
            "--no-sizes", help="Do not read bodies for their size.", rich_help_panel=_COUNTING
        ),
    ] = False,
    cursor: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="The name of its cursor on the bus. (default analytics)",
            rich_help_panel=_STREAM,
        ),
    ] = None,
    watermark: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long a window waits for late messages. (default 2m)",
            rich_help_panel=_STREAM,
        ),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            "--interval",
            metavar="TIME",
            help="How often it looks. (default 10s)",
            rich_help_panel=_STREAM,
        ),
    ] = None,
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous",
            help="Go on until stopped; else take what is there and end.",
            rich_help_panel=_STREAM,
        ),
    ] = False,
    run_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="End a continuous stream after so long.",
            rich_help_panel=_STREAM,
        ),
    ] = None,
) -> None:
    """Rates, bytes, ages, lag of cursors, and skew over fragments and keys, as a report.

    A snapshot looks at what waits and locks nothing. A stream reads along behind a cursor and
    appends what passes, window by window; run again it goes on where it was. The report is a page
    for a browser, charts as PNG, and tables as Parquet.

    Examples:

        partibus pipeline analytics --output ./traffic
        partibus pipeline analytics 'orders*' --output ./traffic --key subject
        partibus pipeline analytics orders -o ./traffic --stream --continuous --run-time 1h
        partibus pipeline analytics --output ./traffic --captured ./lake
    """
    if output is None:
        # As it was written before there was --output: the directory first.
        output, *entities = entities or [""]
        if not output:
            raise typer.BadParameter("say where the report goes: --output DIR.")
    from pyspark_servicebus.pipelines.analytics import AnalyticsSettings, entities_of
    from pyspark_servicebus.pipelines.analytics import analytics as work

    settings = AnalyticsSettings.from_table(
        given(
            bus=bus_of(place),
            output=output,
            entities=entities or None,
            captured=captured,
            mode="stream" if stream else None,
            window=window,
            key=key,
            top=top,
            sizes=False if no_sizes else None,
            cursor=cursor,
            watermark=watermark,
            trigger=trigger,
            continuous=continuous or None,
            run_time=run_time,
        )
    )
    if captured is None:
        entities_of(settings)
    run_pipeline("analytics", running, work, settings)
