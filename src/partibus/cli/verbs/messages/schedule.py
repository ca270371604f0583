"""`partibus schedule ...`: scheduling messages, and cancelling them.

Owns the flags. A scheduled message has a sequence number from the start, by which it can be
cancelled until its time has come.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.added_options import gathers
from partibus.cli.asking import on_server, print_answer
from partibus.cli.messages.options import message_template
from partibus.cli.options import AsJson, Destination, LookOption, ShownMax

if TYPE_CHECKING:
    from partibus.cli.place import Place
    from partibus.client.message import OutgoingMessage

app = typer.Typer(help="Send messages for later, list and cancel them.", no_args_is_help=True)


@app.command()
@on_server
@gathers("message", message_template)
async def create(
    place: "Place",
    entity: Destination,
    body: Annotated[str | None, typer.Argument(help="The body.")] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the body from this file.")
    ] = None,
    *,
    message: "OutgoingMessage",
    json: AsJson = False,
) -> None:
    """Send a message that becomes active later, and print the number that cancels it.

    `partibus send --delay` does the same without printing the number.

    Examples:

        partibus schedule create orders 'remind me' --delay 15m
        partibus schedule create orders 'new year' --at 2027-01-01T00:00:00Z --json
    """
    import uuid

    from partibus.domain.quantities import format_moment

    if (body is None) == (file is None):
        raise typer.BadParameter("give a body, or --file.")
    if message.scheduled_ms is None:
        raise typer.BadParameter("give the time: --at or --delay.")
    message.message_id = message.message_id or uuid.uuid4().hex
    message.body = file.read_bytes() if file is not None else (body or "").encode()
    async with place.open() as bus:
        (number,) = await (await bus.management(entity)).schedule([message])
    when = format_moment(message.scheduled_ms)
    answer = {"entity": entity, "sequence_number": number, "scheduled_enqueue_time": when}
    print_answer(answer, json, f"{entity}: message {number} becomes active at {when}")


@app.command("list")
@on_server
async def list_scheduled(
    place: "Place",
    entity: Destination,
    max: ShownMax = 10,  # noqa: A002 - the word of the flag
    look: LookOption = None,
    json: AsJson = False,
) -> None:
    """Show the scheduled messages of an entity.

    Example:

        partibus schedule list orders --max 100 --json | jq .scheduled_enqueue_time
    """
    from partibus.cli.failures import say
    from partibus.cli.messages.printing import MessagePrinter, chosen_look
    from partibus.client.messages.peeking import Walk, peeked

    printer = MessagePrinter(chosen_look(json, look))
    async with place.open() as bus:
        async for message in peeked(Walk(await bus.management(entity)), None):
            if message.state == "scheduled":
                printer.show(message)
            if printer.count == max:
                break
    if printer.count == 0:
        say(f"no message is scheduled in {entity}.")


@app.command()
@on_server
async def cancel(
    place: "Place",
    entity: Destination,
    numbers: Annotated[
        list[int], typer.Argument(metavar="NUMBER...", help="Sequence numbers, from `create`.")
    ],
) -> None:
    """Cancel scheduled messages before they become active.

    If a number is not scheduled, or no longer, the exit code is 4.

    Example:

        partibus schedule cancel orders 42 43
    """
    async with place.open() as bus:
        await (await bus.management(entity)).cancel(numbers)
    typer.echo(f"{entity}: {len(numbers)} cancelled")
