"""`partibus sim`: the bus in a simulated world with faults, and checked.

Owns the options and texts. The world, its faults and its checkers are in `partibus.simulation`,
which is loaded when the verb runs.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from partibus.domain.errors import ConfigError

Seed = Annotated[int, typer.Option("--seed", help="The first seed; a seed decides the whole run.")]
Steps = Annotated[int, typer.Option("--steps", min=1, help="Steps of each run before it heals.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="How many seeds, one after the other.")]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        min=0,
        help="Run a cluster of this many nodes; 0: the seed says how many. Without it one server "
        "with its workers is run.",
    ),
]
Minutes = Annotated[
    float | None, typer.Option("--minutes", min=0.0, help="Stop after this many minutes.")
]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", help="Write a timeline of the run of --seed, as an HTML page."),
]
Shrink = Annotated[
    bool,
    typer.Option(
        "--shrink",
        help="Reduce a failing run to its essential events and print them as a short story.",
    ),
]


def sim(
    seed: Seed = 1,
    steps: Steps = 4000,
    seeds: Seeds = 1,
    nodes: Nodes = None,
    minutes: Minutes = None,
    trace: Trace = None,
    shrink: Shrink = False,
) -> None:
    """Run the bus in a simulated world, in which disks, networks and processes fail.

    The real code of the bus runs with simulated time, disks, network, processes and clients, all
    decided by the seed. Exit code 1 when a promise was broken; the same seed breaks it again.

    Examples:

        partibus sim --seed 7
        partibus sim --seed 1 --seeds 100 --steps 2000
        partibus sim --nodes 3 --seed 7
    """
    from partibus.simulation.reports import run_series

    if nodes is not None:
        _require_driver()
    if trace is not None or shrink:
        raise typer.Exit(_look_closer(seed, steps, nodes, trace, shrink))
    series = run_series(
        range(seed, seed + seeds),
        steps,
        typer.echo,
        nodes=nodes,
        seconds_max=None if minutes is None else minutes * 60,
    )
    typer.echo(series.summary())
    raise typer.Exit(1 if series.failures else 0)


def _require_driver() -> None:
    """The stores of a cluster use the errors of the driver, although there is no database."""
    if find_spec("psycopg") is None:
        raise ConfigError(
            "A simulated cluster runs the stores in PostgreSQL, and their driver is missing: "
            "pip install 'partibus[postgres]'."
        )


def _look_closer(seed: int, steps: int, nodes: int | None, trace: Path | None, shrink: bool) -> int:
    """One run in detail."""
    from partibus.simulation.plan import draw_for
    from partibus.simulation.run import run_plan
    from partibus.simulation.shrinking import shrink_plan
    from partibus.simulation.story import story
    from partibus.simulation.timeline import timeline

    plan = draw_for(seed, steps, nodes)
    if shrink:
        plan = shrink_plan(plan, typer.echo)
    verdict = run_plan(plan, keeps_events=True)
    if trace is not None:
        trace.write_text(timeline(verdict), encoding="utf-8")
        typer.echo(f"The timeline is in {trace}.")
    typer.echo(story(verdict))
    return 1 if verdict.violation is not None else 0
