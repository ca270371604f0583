"""`partibus pipeline analytics`: the traffic of queues and subscriptions, in numbers and charts.

Owns the text of its help. The settings are declared, and the work is done, in
`pyspark_servicebus.pipelines`.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from partibus.cli.asking import on_server
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import bus_of, run_pipeline
from partibus.cli.pipelines.settings_options import with_settings
from pyspark_servicebus.pipelines.analytics.settings import AnalyticsSettings
from pyspark_servicebus.pipelines.run.execution import Execution

if TYPE_CHECKING:
    from partibus.cli.place import Place


@on_server
@runs_pipeline()
@with_settings(AnalyticsSettings, "mode")
def analytics(
    place: "Place",
    running: Execution,
    table: dict[str, Any],
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Follow the traffic with a cursor instead of examining the waiting messages.",
        ),
    ] = False,
) -> None:
    """Report rates, bytes, ages, the lag of cursors, and skew over fragments and keys.

    A snapshot examines the waiting messages and locks nothing. A stream follows the traffic with a
    cursor and appends what passes, window by window; run again, it continues where it stopped. The
    report is a page for a browser, charts as PNG, and tables as Parquet.

    Examples:

        partibus pipeline analytics --output ./traffic
        partibus pipeline analytics 'orders*' --output ./traffic --key subject
        partibus pipeline analytics orders -o ./traffic --stream --continuous --run-time 1h
        partibus pipeline analytics --output ./traffic --captured ./lake
    """
    if "output" not in table:
        # Before there was --output, the directory was the first argument.
        output, *table["entities"] = table.get("entities") or [""]
        if not output:
            raise typer.BadParameter("give a directory for the report: --output DIR.")
        table["output"] = output
    if stream:
        table["mode"] = "stream"
    from pyspark_servicebus.pipelines.analytics.pipeline import analytics as work
    from pyspark_servicebus.pipelines.analytics.pipeline import entities_of

    settings = AnalyticsSettings.from_table({**table, "bus": bus_of(place)})
    if settings.captured is None:
        entities_of(settings)
    run_pipeline("analytics", running, work, settings)
