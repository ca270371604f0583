"""`partibus purge`: delete what waits in an entity, on the server.

Owns the question before it and the progress during it. The server deletes in portions, so
that the bar moves and no request takes long; what arrives after the start is left alone.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from partibus.cli.asking import print_json, server_of
from partibus.cli.options import AsJson, ConnectionString, Url

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from partibus.cli.remote import RemoteServer

PORTION_MESSAGES: Final = 10_000


def purge(
    name: Annotated[str, typer.Argument(help="Name of a queue, or TOPIC/Subscriptions/NAME.")],
    dead_letter: Annotated[
        bool, typer.Option("--dead-letter", help="Delete the dead letters instead.")
    ] = False,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Delete only what was enqueued before, for example 2026-01-31T12:00:00Z."
            " (default now)",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: AsJson = False,
    connection_string: ConnectionString = None,
    url: Url = None,
) -> None:
    """Delete the waiting messages of an entity; they are gone for good.

    Locked, deferred and scheduled messages stay, and so does what is sent after the start.
    Fragments whose store is down are passed over; they are named, and the exit code is 1.
    """
    lane = "dead-letter" if dead_letter else "active"
    with server_of(connection_string, url) as server:
        count = _waiting(server.ask("GET", f"/entities/{name}")["totals"], dead_letter)
        if not yes:
            _confirm(name, lane, count)
        answer = _run(server, name, lane, before, count)
    if json:
        print_json(answer)
    else:
        typer.echo(f"{answer['name']}: {answer['purged']} {_spoken(lane)} deleted")
    missing = answer["unavailable_fragments"]
    if missing:
        listed = ", ".join(map(str, missing))
        typer.echo(f"partibus: their store is down, so they were passed over: {listed}", err=True)
        raise typer.Exit(1)


def _waiting(totals: dict[str, Any], dead_letter: bool) -> int:
    """How many can be deleted, about: what is locked now may be free in a moment."""
    return int(totals["dead_letter"] if dead_letter else totals["active"] - totals["locked"])


def _spoken(lane: str) -> str:
    return "dead letters" if lane == "dead-letter" else "messages"


def _confirm(name: str, lane: str, count: int) -> None:
    if not sys.stdin.isatty():
        typer.echo("partibus: nobody is there to ask; give --yes to delete.", err=True)
        raise typer.Exit(2)
    typer.confirm(f"Delete about {count} {_spoken(lane)} of '{name}' for good?", abort=True)


def _run(
    server: "RemoteServer", name: str, lane: str, before: str | None, count: int
) -> dict[str, Any]:
    """Ask for portion after portion; the bar is shown to people only."""
    if not sys.stderr.isatty():
        return _portions(server, name, lane, before, None, None)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("purging", total=max(count, 1))
        return _portions(server, name, lane, before, progress, task)


def _portions(
    server: "RemoteServer",
    name: str,
    lane: str,
    before: str | None,
    progress: "Progress | None",
    task: "TaskID | None",
) -> dict[str, Any]:
    purged = 0
    while True:
        body = {"lane": lane, "before": before, "limit": PORTION_MESSAGES}
        answer = server.ask("POST", f"/entities/{name}/purge", body)
        purged += answer["purged"]
        before = answer["before"]  # the same moment for every portion
        if progress is not None and task is not None:
            progress.update(task, completed=purged)
        if answer["finished"]:
            return {**answer, "purged": purged}
