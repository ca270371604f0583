"""Options that every verb of `partibus pipeline` has, in the same words everywhere.

Owns the flags that say where Spark runs and where the state of a pipeline is kept. Nothing is read
or started here, and neither Spark nor the pipelines are imported.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

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
