"""Options that every verb of `partibus pipeline` has, in the same words everywhere.

Owns the flags that say where Spark runs and where the state of a pipeline is kept, and
`runs_pipeline`, which gives them to a verb as one `Running`. Nothing is read or started here, and
neither Spark nor the pipelines are imported.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from partibus.cli.added_options import options_of, stands_for
from partibus.cli.options import AsJson

_RUN: Final = "How it is run"

Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The name of this pipeline in `partibus pipeline status`.",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark's master, for example spark://host:7077. (default this machine, all cores)",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="K=V",
        help="A setting of Spark; give it once for each.",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
Nice = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Give way to other processes of this machine: 0 to 19.",
        rich_help_panel=_RUN,
        show_default=False,
        min=0,
        max=19,
    ),
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where the state of pipelines is kept. (default ~/.local/share/partibus/pipelines)",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
MetricsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the state for Prometheus here too.",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]
SparkLog = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Where Spark's own words go; - for stderr. (default NAME.log in the state directory)",
        rich_help_panel=_RUN,
        show_default=False,
    ),
]

RUNNING_OPTIONS: Final = {
    "name": Name,
    "master": Master,
    "conf": Conf,
    "nice": Nice,
    "state_dir": StateDir,
    "metrics_file": MetricsFile,
    "spark_log": SparkLog,
    "json": AsJson,
}


def runs_pipeline(
    *without: str,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For a verb with a parameter `running`: the options above are added, but for some.

    The verb is called with Spark and the pipelines at hand, and what fails in it is told."""
    kinds = {name: kind for name, kind in RUNNING_OPTIONS.items() if name not in without}

    def added(verb: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(verb).parameters.values() if p.name != "running"]

        def command(*place: Any, **given: Any) -> None:
            from partibus.cli.failures import told
            from partibus.cli.pipelines.running import Running, pipelines_ready

            running = Running(**{name: given.pop(name) for name in kinds})
            with told(), pipelines_ready():
                verb(*place, running=running, **given)

        return stands_for(command, verb, [*own, *options_of(kinds, {"json": False})])

    return added
