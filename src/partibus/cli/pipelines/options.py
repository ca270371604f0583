"""Options of every verb of `partibus pipeline`, with the same text everywhere.

Owns `runs_pipeline`, which gives a verb its options as one `Execution`, and wraps every such verb.
The options themselves are declared with the pipelines, for scripts too.
"""

from collections.abc import Callable
from typing import Any, Final

from partibus.cli.pipelines.settings_options import option_of, with_settings
from pyspark_servicebus.pipelines.run.execution import Execution

StateDir: Final = option_of(Execution, "state_dir")


def runs_pipeline(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For a verb with a parameter `running`: the options of an Execution are added, except some.

    The verb is called once Spark and the pipelines are available, and its errors are reported."""

    def run(verb: Callable[..., None], *place: Any, running: Any, **given: Any) -> None:
        from partibus.cli.failures import reported
        from partibus.cli.pipelines.running import pipelines_ready

        with reported(), pipelines_ready():
            verb(*place, running=Execution.from_table(running), **given)

    return with_settings(Execution, *without, name="running", run=run, at_end=True)
