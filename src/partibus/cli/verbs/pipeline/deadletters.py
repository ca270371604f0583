"""`partibus pipeline deadletters`: why messages died, in a whole namespace, and what to do.

Owns the options of the verb and the question before anything is changed. Settings and rules are
judged, and the work is done, by `pyspark_servicebus.pipelines`.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server
from partibus.cli.options import Yes
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import Running, bus_of, given, run_pipeline

if TYPE_CHECKING:
    from partibus.cli.place import Place

_RULES = "Rules"


@on_server
@runs_pipeline()
def deadletters(
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
    rules: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Rules to carry out, in TOML: resubmit, fix, park, purge or leave.",
            rich_help_panel=_RULES,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only count what the rules would do.", rich_help_panel=_RULES
        ),
    ] = False,
    yes: Yes = False,
    wait: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long messages are waited for that another receiver has locked."
            " (default: as long as the entity locks)",
            rich_help_panel=_RULES,
        ),
    ] = None,
    retry: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long a bus that is away is waited for. (default 60s)",
            rich_help_panel=_RULES,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write the report there too: HTML, JSON, text and Parquet.",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(metavar="N", help="Show so many dead letters of each cause. (default 3)"),
    ] = None,
    sample_characters: Annotated[
        int | None,
        typer.Option(metavar="N", help="Of their bodies, so many characters. (default 200)"),
    ] = None,
) -> None:
    """Report on the dead letters of all queues and subscriptions, and carry out rules on them.

    Dead letters are counted by entity, reason, the shape of their text, and hour. With --rules each
    is sent again, corrected, parked, deleted or left, as the first rule says that fits. To send and
    to complete are one transaction: a run that is killed has lost nothing and doubled nothing, and
    the same command goes on where it was. The exit code is 1 when some could not be moved.

    Examples:

        partibus pipeline deadletters --output ./dead
        partibus pipeline deadletters 'orders*' --rules rules.toml --dry-run
        partibus pipeline deadletters 'orders*' --rules rules.toml --yes
    """
    from partibus.cli.confirming import confirm
    from pyspark_servicebus.pipelines.deadletters import DeadLetterSettings, prepared
    from pyspark_servicebus.pipelines.deadletters import deadletters as work

    settings = DeadLetterSettings.from_table(
        given(
            bus=bus_of(place),
            entities=entities,
            rules=rules,
            dry_run=dry_run,
            output=output,
            samples=samples,
            sample_characters=sample_characters,
            wait=wait,
            retry=retry,
        )
    )
    plan = prepared(settings)
    count = sum(plan.counted.values())
    if plan.rules and count and not dry_run:
        confirm(f"Carry out the rules of '{rules}' on {count:,} dead letters?", yes)
    run_pipeline("deadletters", running, work, settings)
