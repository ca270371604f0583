"""`partibus pipeline deadletters`: dead letters of a whole namespace, and what to do with them.

Owns the text of its help and the confirmation before anything is changed. The settings are
declared, and the work is done, in `pyspark_servicebus.pipelines`.
"""

from typing import TYPE_CHECKING

from partibus.cli.asking import on_server
from partibus.cli.confirming import confirm
from partibus.cli.options import Yes
from partibus.cli.pipelines.options import runs_pipeline
from partibus.cli.pipelines.running import bus_of, run_pipeline
from partibus.cli.pipelines.settings_options import with_settings
from pyspark_servicebus.pipelines.deadletters.settings import DeadLetterSettings
from pyspark_servicebus.pipelines.run.execution import Execution

if TYPE_CHECKING:
    from partibus.cli.place import Place


@on_server
@runs_pipeline()
@with_settings(DeadLetterSettings)
def deadletters(
    place: "Place", running: Execution, table: dict[str, object], yes: Yes = False
) -> None:
    """Report on the dead letters of all queues and subscriptions, and carry out rules on them.

    Dead letters are counted by entity, reason, the shape of their text, and hour. With --rules each
    is sent again, corrected, parked, deleted or left, as the first matching rule says. Sending and
    completing are one transaction: a run that is killed loses and duplicates nothing, and the
    same command continues where it stopped. The exit code is 1 when some could not be moved.

    Examples:

        partibus pipeline deadletters --output ./dead
        partibus pipeline deadletters 'orders*' --rules rules.toml --dry-run
        partibus pipeline deadletters 'orders*' --rules rules.toml --yes
    """
    from pyspark_servicebus.pipelines.deadletters.pipeline import deadletters as work
    from pyspark_servicebus.pipelines.deadletters.pipeline import prepared

    settings = DeadLetterSettings.from_table({**table, "bus": bus_of(place)})
    plan = prepared(settings)
    count = sum(plan.counted.values())
    if plan.rules and count and not settings.dry_run:
        confirm(f"Carry out the rules of '{settings.rules}' on {count:,} dead letters?", yes)
    run_pipeline("deadletters", running, work, settings)
