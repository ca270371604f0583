"""`partibus peek` and `partibus tail`: showing messages without receiving them.

Owns the flags of both. Nothing is locked, settled or counted as delivered; scheduled and
deferred messages are shown too, with their state.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server
from partibus.cli.options import AsJson, DeadLetter, Entity, LookOption, Session, ShownMax, ShowsAll
from partibus.cli.quantities import span_ms

if TYPE_CHECKING:
    from partibus.cli.messages.printing import Look
    from partibus.cli.place import Place


@on_server
async def peek(
    place: "Place",
    entity: Entity,
    from_number: Annotated[
        int, typer.Option("--from", metavar="NUMBER", min=0, help="Begin at this sequence number.")
    ] = 0,
    max: ShownMax = 10,  # noqa: A002 - the word of the flag
    all: ShowsAll = False,  # noqa: A002 - the word of the flag
    dead_letter: DeadLetter = False,
    session: Session = None,
    look: LookOption = None,
    json: AsJson = False,
) -> None:
    """Show messages without receiving them.

    They stay in place, unlocked, and no delivery is counted. Scheduled and deferred
    messages are shown too.

    Examples:

        partibus peek orders
        partibus peek orders --dead-letter --json | jq .dead_letter_reason
        partibus peek orders --from 1000 --max 50
    """
    path = f"{entity}/$DeadLetterQueue" if dead_letter else entity
    await show_messages(place, path, from_number, None if all else max, session, look, json)


async def show_messages(
    place: "Place",
    path: str,
    from_number: int,
    count: int | None,
    session_id: str | None,
    look: "Look | None",
    json: bool,
) -> None:
    """Print messages of a path, or that there are none."""
    from partibus.cli.failures import say
    from partibus.cli.messages.printing import MessagePrinter, chosen_look
    from partibus.client.messages.peeking import Walk, peeked

    printer = MessagePrinter(chosen_look(json, look))
    async with place.open() as bus:
        walk = Walk(await bus.management(path), from_number, session_id)
        async for message in peeked(walk, count):
            printer.show(message)
    if printer.count == 0:
        say(f"there are no messages in {path}.")


@on_server
async def tail(
    place: "Place",
    entity: Entity,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Also show the messages that are already there.")
    ] = False,
    max: Annotated[  # noqa: A002 - the word of the flag
        int | None,
        typer.Option(metavar="N", min=1, help="Stop after this many.", show_default=False),
    ] = None,
    interval: Annotated[
        int, typer.Option(metavar="DURATION", parser=span_ms, help="How often to poll.")
    ] = "1s",  # type: ignore[assignment]  # read by the parser
    dead_letter: DeadLetter = False,
    session: Session = None,
    look: LookOption = None,
    json: AsJson = False,
) -> None:
    """Follow an entity: show each new message, without receiving it, until Ctrl-C.

    It polls once per interval and locks nothing, so it does not disturb your receivers. A message
    that arrives and is completed between two polls is not shown.

    Examples:

        partibus tail orders
        partibus tail orders --dead-letter --json | jq .dead_letter_reason
    """
    import asyncio

    from partibus.cli.messages.printing import MessagePrinter, chosen_look
    from partibus.client.messages.peeking import Walk

    path = f"{entity}/$DeadLetterQueue" if dead_letter else entity
    printer = MessagePrinter(chosen_look(json, look))
    async with place.open() as bus:
        walk = Walk(await bus.management(path), session_id=session)
        if not from_start:
            await walk.skip()
        while True:
            for message in await walk.step():
                printer.show(message)
                if printer.count == max:
                    return
            await asyncio.sleep(interval / 1000)
