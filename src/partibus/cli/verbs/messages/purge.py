"""`partibus purge`: delete the waiting messages of an entity, on the server.

Owns the confirmation and the progress. The server deletes in portions, so that the bar moves and no
request takes long; messages that arrive after the start stay.
"""

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.confirming import confirm
from partibus.cli.options import AsJson, Entity, Yes
from partibus.cli.progress import progress_of
from partibus.cli.quantities import moment_ms

if TYPE_CHECKING:
    from partibus.cli.place import Place
    from partibus.cli.progress import Advance
    from partibus.cli.remote import RemoteServer

PORTION_MESSAGES: Final = 10_000
CLOUD_PORTION_MESSAGES: Final = 500
"""The maximum that every tier of the cloud deletes in one request."""


@on_server
async def purge(
    place: "Place",
    name: Entity,
    dead_letter: Annotated[
        bool, typer.Option("--dead-letter", help="Delete the dead letters instead.")
    ] = False,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Delete only what was enqueued before this time, for example 2026-01-31T12:00:00Z."
            " (default now)",
        ),
    ] = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Delete the waiting messages of an entity, permanently.

    Locked, deferred and scheduled messages stay, and so do messages sent after the start.
    Fragments whose store is down are skipped and listed, and the exit code is 1.

    Example:

        partibus purge orders --before 2026-01-31T12:00:00Z
    """
    await purge_subqueue(place, name, dead_letter, before, yes, json)


async def purge_subqueue(
    place: "Place", name: str, dead_letter: bool, before: str | None, yes: bool, json: bool
) -> None:
    """Confirm, delete with a bar, and report what was deleted."""
    from partibus.cli.failures import say

    subqueue = "dead-letter" if dead_letter else "active"
    if place.connection.is_cloud:
        confirm(f"Delete the {_spoken(subqueue)} of '{name}' permanently?", yes)
        with progress_of("purging", None) as advance:
            answer = await _in_the_cloud(place, name, subqueue, before, advance)
    else:
        server = server_at(place)
        count = _waiting(server.ask("GET", f"/entities/{name}")["totals"], dead_letter)
        confirm(f"Delete about {count} {_spoken(subqueue)} of '{name}' permanently?", yes)
        with progress_of("purging", max(count, 1)) as advance:
            answer = _portions(server, name, subqueue, before, advance)
    if json:
        print_json(answer)
    else:
        count = answer["purged"]
        typer.echo(f"{answer['name']}: {count} {_spoken(subqueue, count)} deleted")
    missing = answer["unavailable_fragments"]
    if missing:
        say(f"skipped, because their store is down: {', '.join(map(str, missing))}")
        raise typer.Exit(1)


def _waiting(totals: dict[str, Any], dead_letter: bool) -> int:
    """About how many can be deleted: locked messages may soon be free."""
    dead_locked = totals["dead_letter_locked"]
    if dead_letter:
        return max(0, int(totals["dead_letter"] - dead_locked))
    return max(0, int(totals["active"] - (totals["locked"] - dead_locked)))


def _spoken(subqueue: str, count: int = 2) -> str:
    word = "dead letter" if subqueue == "dead-letter" else "message"
    return word if count == 1 else f"{word}s"


def _portions(
    server: "RemoteServer", name: str, subqueue: str, before: str | None, advance: "Advance"
) -> dict[str, Any]:
    """Request portion after portion."""
    purged = 0
    while True:
        body = {"subqueue": subqueue, "before": before, "limit": PORTION_MESSAGES}
        answer = server.ask("POST", f"/entities/{name}/purge", body)
        purged += answer["purged"]
        before = answer["before"]  # the same time for every portion
        advance(purged)
        if answer["finished"]:
            return {**answer, "purged": purged}


async def _in_the_cloud(
    place: "Place", name: str, subqueue: str, before: str | None, advance: "Advance"
) -> dict[str, Any]:
    """The cloud has no purge; it deletes batches through the management node."""
    from partibus.domain.quantities import format_moment

    before_ms = round(time.time() * 1000) if before is None else moment_ms(before)
    path = f"{name}/$DeadLetterQueue" if subqueue == "dead-letter" else name
    purged = 0
    async with place.open() as bus:
        management = await bus.management(path)
        while count := await management.delete_batch(CLOUD_PORTION_MESSAGES, before_ms):
            purged += count
            advance(purged)
    return {
        "name": name,
        "subqueue": subqueue,
        "before": format_moment(before_ms),
        "purged": purged,
        "finished": True,
        "unavailable_fragments": [],
    }
