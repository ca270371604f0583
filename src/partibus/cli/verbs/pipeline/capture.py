"""`partibus pipeline capture`: what passes through a queue or subscription, as Parquet or Delta.

Owns the text of its help. The settings are declared, and the work is done, in
`pyspark_servicebus.pipelines`.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from partibus.cli.asking import on_server, print_json
from partibus.cli.help_pages import VerbGroup
from partibus.cli.options import AsJson
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import bus_of, check_entity, run_pipeline
from partibus.cli.pipelines.settings_options import with_settings
from partibus.cli.quantities import clock_time, format_bytes
from partibus.cli.tables import print_table
from pyspark_servicebus.pipelines.capture.settings import CaptureSettings, CompactSettings
from pyspark_servicebus.pipelines.run.execution import Execution

if TYPE_CHECKING:
    from partibus.cli.place import Place


class CaptureGroup(VerbGroup):
    """`capture ENTITY TARGET` is `capture run ENTITY TARGET`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=CaptureGroup,
    help="Copy the messages of a queue or subscription to Parquet or Delta, exactly once."
    "\n\n`partibus pipeline capture ENTITY TARGET` is short for `capture run ENTITY TARGET`.",
    no_args_is_help=True,
)


@app.command()
@on_server
@runs_pipeline()
@with_settings(CaptureSettings)
def run(place: "Place", running: Execution, table: dict[str, object]) -> None:
    """Copy the messages of a queue or subscription to Parquet or a Delta table, exactly once.

    Other consumers are not affected: the bus keeps a cursor for the capture, and the messages it
    has not passed, even after others have settled them. When it is started again after a crash,
    it continues where it stopped.

    Example:

        partibus pipeline capture orders ./lake
        partibus pipeline capture orders ./lake --continuous --window-time 1m
    """
    from pyspark_servicebus.pipelines.capture.pipeline import capture

    settings = CaptureSettings.from_table({**table, "bus": bus_of(place)})
    check_entity(settings.bus, settings.entity)
    run_pipeline("capture", running, capture, settings)


@app.command()
@runs_pipeline()
@with_settings(CompactSettings)
def compact(running: Execution, table: dict[str, object]) -> None:
    """Merge the small files of a capture, folder by folder.

    The capture may continue meanwhile. A reader of the files may miss messages for a moment while
    files are replaced, and never sees one twice; readers of a Delta table notice nothing.

    Example:

        partibus pipeline capture compact ./lake --file-size 256m
    """
    from pyspark_servicebus.pipelines.capture.compaction import compact as compact_files

    run_pipeline("compact", running, compact_files, CompactSettings.from_table(table))


@app.command()
def show(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A folder, or a URI.")],
    last: Annotated[
        int, typer.Option(metavar="N", help="How many windows to show, the newest last.", min=1)
    ] = 20,
    json: AsJson = False,
) -> None:
    """Show what a capture holds: its windows, files and messages, without starting Spark."""
    from partibus.cli.failures import reported
    from partibus.cli.pipelines.running import pipelines_ready

    with reported(), pipelines_ready():
        from pyspark_servicebus.pipelines.capture.summary import summary_of

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
                    format_bytes(window.bytes),
                    len(window.files),
                    len(window.fragments) or "-",
                )
                for window in windows
            ],
            text_columns=("window", "closed"),
        )
