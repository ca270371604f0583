"""`partibus pipeline status`: the progress of pipelines, from their state files.

Owns the table and its texts. Needs no bus and no Spark; a pipeline on another machine is visible
where its state directory is.
"""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from partibus.cli.options import AsJson
from partibus.cli.pipelines.options import StateDir
from partibus.cli.tables import print_list

if TYPE_CHECKING:
    from pyspark_servicebus.pipelines.run.state import PipelineState

WATCH_S: Final = 2.0
ERROR_CHARACTERS_MAX: Final = 80
_COLUMNS: Final = (
    *("name", "kind", "state", "since", "last batch", "rows", "rate", "lag", "ETA", "error"),
)


def status(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only this one.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every two seconds, until Ctrl-C.")
    ] = False,
    state_dir: StateDir = None,
    json: AsJson = False,
) -> None:
    """Show the progress of pipelines: state, last batch, rows, rate, backlog and the time left.

    A pipeline that was killed is shown as lost; the same command as before continues it.
    """
    from partibus.cli.failures import reported
    from partibus.cli.pipelines.running import pipelines_ready

    with reported(), pipelines_ready():
        from pyspark_servicebus.pipelines.run.termination import terminated_as_interrupted

        with terminated_as_interrupted():
            while True:
                states = _states(name, state_dir)
                if watch and not json:
                    _clear()
                _show(states, json)
                if not watch:
                    return
                time.sleep(WATCH_S)


def _clear() -> None:
    from rich.console import Console

    Console().clear()


def _states(name: str | None, state_dir: str | None) -> "list[PipelineState]":
    from partibus.cli.failures import CommandFailed
    from partibus.server.failure import EXIT_NOT_FOUND
    from pyspark_servicebus.pipelines.run.state import default_state_dir, load_states

    directory = Path(state_dir) if state_dir else default_state_dir()
    states = load_states(directory)
    if name is None:
        return states
    chosen = [state for state in states if state.name == name]
    if not chosen:
        known = ", ".join(state.name for state in states) or "none"
        raise CommandFailed(
            f"no pipeline '{name}' has run yet, according to {directory}; known pipelines: "
            f"{known}.",
            EXIT_NOT_FOUND,
        )
    return chosen


def _show(states: "list[PipelineState]", as_json: bool) -> None:
    import dataclasses

    print_list(
        [{**dataclasses.asdict(s), "state": _state(s), "eta_seconds": _eta_s(s)} for s in states],
        as_json,
        _COLUMNS,
        map(_row, states),
        text_columns=("name", "kind", "state", "error"),
        nothing="No pipeline has run yet.",
    )


def _row(state: "PipelineState") -> tuple[object, ...]:
    eta_s = _eta_s(state)
    error = " ".join((state.error or "").split())
    if len(error) > ERROR_CHARACTERS_MAX:
        error = error[: ERROR_CHARACTERS_MAX - 1] + "…"
    return (
        state.name,
        state.kind,
        _state(state),
        _ago(state.finished_ms or state.updated_ms),
        state.last_batch,
        f"{state.rows:,}",
        f"{state.rate:,.0f}/s",
        None if state.lag is None else f"{state.lag:,}",
        None if eta_s is None else _span(eta_s),
        error,
    )


def _state(state: "PipelineState") -> str:
    """The state that it reports, unless it claims to run and its process is gone."""
    if state.status != "running" or not state.process:
        return state.status
    try:
        os.kill(state.process, 0)
    except ProcessLookupError:
        return "lost"
    except PermissionError:
        pass  # another user's process, but it exists
    return "running"


def _eta_s(state: "PipelineState") -> float | None:
    if _state(state) != "running" or not state.lag or state.rate < 1:
        return None
    return round(state.lag / state.rate, 1)


def _ago(moment_ms: int) -> str:
    return f"{_span(max(time.time() - moment_ms / 1000, 0))} ago"


def _span(seconds: float) -> str:
    from pyspark_servicebus.pipelines.report.wording import format_span

    return format_span(seconds)
