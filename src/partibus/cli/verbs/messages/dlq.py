"""`partibus dlq ...`: dead letters, from listing to resubmission.

Owns the flags and the tables. `client.messages.resubmission` sends dead letters again without loss,
`purge` deletes them.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_json
from partibus.cli.completion import complete_entity
from partibus.cli.confirming import confirm
from partibus.cli.options import AsJson, Entity, LookOption, ShownMax, ShowsAll, Yes
from partibus.cli.progress import progress_of
from partibus.cli.quantities import rate_per_s
from partibus.cli.tables import print_list

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(no_args_is_help=True)


@app.callback()
def dlq() -> None:
    """Inspect, resubmit and delete dead letters.

    A message is dead-lettered after too many deliveries, when it expires or cannot be forwarded, or
    by a receiver. It stays in the entity's dead-letter queue until it is received or deleted.
    """


@app.command("list")
@on_server
async def list_dead_letters(
    place: "Place",
    entity: Annotated[
        str | None,
        typer.Argument(
            help="Count the reasons of this entity's dead letters.", autocompletion=complete_entity
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """List the entities that have dead letters; or, for one entity, the reasons.

    Examples:

        partibus dlq list
        partibus dlq list orders
    """
    if entity is None:
        _list_entities(place, json)
    else:
        await _list_reasons(place, entity, json)


def _list_entities(place: "Place", json: bool) -> None:
    from partibus.cli.entities.counts import dead_letter_counts

    found = [{"entity": name, "dead_letters": n} for name, n in dead_letter_counts(place) if n]
    print_list(
        {"entities": found},
        json,
        ("entity", "dead letters"),
        ((row["entity"], row["dead_letters"]) for row in found),
        text_columns=("entity",),
        nothing="There are no dead letters.",
    )


async def _list_reasons(place: "Place", entity: str, json: bool) -> None:
    from partibus.client.messages.peeking import Walk, peeked
    from partibus.client.messages.reasons import Reasons

    reasons = Reasons()
    async with place.open() as bus:
        walk = Walk(await bus.management(f"{entity}/$DeadLetterQueue"))
        async for message in peeked(walk, None):
            reasons.add(message)
    rows = reasons.rows()
    columns = ("count", "reason", "oldest", "newest", "description")
    print_list(
        {"entity": entity, "reasons": rows},
        json,
        columns,
        ([row[column] for column in columns] for row in rows),
        text_columns=columns[1:],
        nothing=f"{entity} has no dead letters.",
    )


@app.command()
@on_server
async def peek(
    place: "Place",
    entity: Entity,
    max: ShownMax = 10,  # noqa: A002 - the word of the flag
    all: ShowsAll = False,  # noqa: A002 - the word of the flag
    look: LookOption = None,
    json: AsJson = False,
) -> None:
    """Show dead letters without receiving them: `peek --dead-letter`.

    Example:

        partibus dlq peek orders --json | jq '{reason: .dead_letter_reason, body}'
    """
    from partibus.cli.verbs.messages.peek import show_messages

    path = f"{entity}/$DeadLetterQueue"
    await show_messages(place, path, 0, None if all else max, None, look, json)


@app.command()
@on_server
async def resubmit(
    place: "Place",
    entity: Entity,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="ENTITY",
            help="Send them there. (default: the queue itself, or the topic of the subscription)",
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Only those that were dead-lettered for this reason."),
    ] = None,
    max: Annotated[  # noqa: A002 - the word of the flag
        int | None, typer.Option(metavar="N", min=1, help="At most this many.", show_default=False)
    ] = None,
    new_id: Annotated[bool, typer.Option("--new-id", help="Give each message a new id.")] = False,
    keep_id: Annotated[
        bool, typer.Option("--keep-id", help="Keep the ids even if the entity detects duplicates.")
    ] = False,
    rate: Annotated[
        float | None, typer.Option(metavar="N/s", parser=rate_per_s, help="No faster than this.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count what would be sent.")
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Send dead letters to their entity again.

    Each is received from the dead-letter queue, sent, and completed there once the bus has
    confirmed it. A crash in between leaves the message in both places: it may be duplicated, but is
    never lost. Body, properties, session and key stay as they are; the time to live starts again.
    Only dead letters present at the start are sent. With --reason, the others are locked in the
    meantime.

    An entity that detects duplicates would drop a message whose id it still remembers, so --new-id
    or --keep-id is required there.

    Examples:

        partibus dlq resubmit orders --dry-run
        partibus dlq resubmit orders --reason MaxDeliveryCountExceeded --rate 50/s --yes
    """
    from partibus.cli.entities.counts import refuse_duplicates_at_risk
    from partibus.cli.failures import say
    from partibus.client.messages.pacing import Pacer
    from partibus.client.messages.resubmission import Resubmission

    destination = to or entity.split("/Subscriptions/")[0].split("/subscriptions/")[0]
    if not new_id and not keep_id:
        refuse_duplicates_at_risk(place, destination)
    work = Resubmission(
        dead_letters=f"{entity}/$DeadLetterQueue",
        destination=destination,
        reason=reason,
        most=max,
        new_id=new_id,
    )
    async with place.open() as bus:
        count = await work.choose(bus)
        if count and not dry_run:
            confirm(f"Send {count} dead letters of '{entity}' to '{destination}'?", yes)
            with progress_of(f"resubmitting to {destination}", count) as advance:
                await work.run(bus, Pacer(rate), advance)
    if json:
        answer = {"entity": entity, "to": destination, "found": count, "resubmitted": work.done}
        print_json(answer)
    elif dry_run:
        typer.echo(f"{entity}: {count} dead letters would be sent to {destination}")
    else:
        typer.echo(f"{entity}: {work.done} of {count} dead letters sent to {destination}")
    if work.done < count and not dry_run:
        say(
            f"{count - work.done} could not be resent: another receiver has locked or settled them."
        )
        raise typer.Exit(1)


@app.command()
@on_server
async def purge(
    place: "Place",
    entity: Entity,
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only what was enqueued before this time. (default now)"),
    ] = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Delete the dead letters of an entity, permanently: `purge --dead-letter`.

    Example:

        partibus dlq purge orders --before 2026-01-31T12:00:00Z
    """
    from partibus.cli.verbs.messages.purge import purge_subqueue

    await purge_subqueue(place, entity, True, before, yes, json)
