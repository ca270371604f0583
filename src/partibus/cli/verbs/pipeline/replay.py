"""`partibus pipeline replay`: a capture, sent to a queue or topic again.

Owns the text of its help. The settings are declared, and the work is done, in
`pyspark_servicebus.pipelines`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import bus_of, check_entity, run_pipeline
from partibus.cli.pipelines.settings_options import with_settings
from pyspark_servicebus.pipelines.replay.settings import ID_PREFIX, ReplaySettings
from pyspark_servicebus.pipelines.run.execution import Execution

if TYPE_CHECKING:
    from partibus.cli.place import Place


@on_server
@runs_pipeline()
@with_settings(ReplaySettings)
def replay(
    place: "Place",
    running: Execution,
    table: dict[str, object],
    rewrite_ids: Annotated[
        bool,
        typer.Option(
            "--rewrite-ids",
            help=f"The same as --id-prefix {ID_PREFIX}.",
            rich_help_panel="What is changed",
        ),
    ] = False,
) -> None:
    """Send captured messages to a queue or topic, in order for each key.

    After an interruption, run the same command again: it continues where it stopped, and no
    message is sent twice.

    Example:

        partibus pipeline replay ./lake orders --dry-run
        partibus pipeline replay ./lake orders --speed 2 --rewrite-ids
    """
    from pyspark_servicebus.pipelines.replay.pipeline import replay as send_again
    from pyspark_servicebus.pipelines.replay.source import found_files

    if rewrite_ids:
        table.setdefault("id_prefix", ID_PREFIX)
    settings = ReplaySettings.from_table({**table, "bus": bus_of(place)})
    if running.state_dir is not None:
        settings = settings.in_state_dir(running.state_place())
    found_files(settings.source)
    check_entity(settings.bus, settings.entity)
    run_pipeline("replay", running, send_again, settings)
