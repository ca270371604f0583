"""`partibus receive`: messages to stdout, and each settled once it is printed.

Owns the flags of receiving. `client.messages.receiving` waits and settles, `cli.messages.printing`
formats messages.
"""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from partibus.cli.asking import on_server
from partibus.cli.options import AsJson, DeadLetter, Entity, LookOption, Session
from partibus.cli.quantities import span_ms

if TYPE_CHECKING:
    from partibus.cli.place import Place

_after_option: Final = partial(typer.Option, rich_help_panel="Settlement")
_which_option: Final = partial(typer.Option, rich_help_panel="Which messages")


@on_server
async def receive(
    place: "Place",
    entity: Entity,
    max: Annotated[  # noqa: A002 - the word of the flag
        int, _which_option(metavar="N", min=1, help="At most this many.")
    ] = 1,
    all: Annotated[  # noqa: A002 - the word of the flag
        bool, _which_option("--all", help="All messages, until the queue is empty.")
    ] = False,
    follow: Annotated[bool, _which_option("--follow", "-f", help="Run until Ctrl-C.")] = False,
    wait: Annotated[
        int,
        _which_option(
            metavar="DURATION", parser=span_ms, help="How long to wait for the first message."
        ),
    ] = "5s",  # type: ignore[assignment]  # read by the parser
    dead_letter: DeadLetter = False,
    session: Session = None,
    next_session: Annotated[
        bool, _which_option("--next-session", help="The next session that is free.")
    ] = False,
    deferred: Annotated[
        list[int] | None,
        _which_option(
            metavar="NUMBER",
            help="The deferred message with this sequence number; repeat for each.",
        ),
    ] = None,
    delete: Annotated[
        bool,
        _after_option(
            "--delete",
            help="Receive and delete: faster, but a message lost in transit is gone.",
        ),
    ] = False,
    settle: Annotated[
        Literal["complete", "abandon", "defer", "dead-letter"],
        _after_option(help="How a locked message is settled."),
    ] = "complete",
    reason: Annotated[
        str | None, _after_option(metavar="TEXT", help="The reason, with --settle dead-letter.")
    ] = None,
    description: Annotated[
        str | None,
        _after_option(metavar="TEXT", help="The error description, with --settle dead-letter."),
    ] = None,
    fail_empty: Annotated[
        bool, typer.Option("--fail-empty", help="Exit with code 7 if no message was received.")
    ] = False,
    look: LookOption = None,
    json: AsJson = False,
) -> None:
    """Receive messages, print them, and settle them.

    A message is locked, printed, and then completed, so that nothing is lost when the reader of
    the output goes away: what was not completed is delivered again. The command waits for the
    first message, then receives what is there, up to --max, and ends.

    Examples:

        partibus receive orders
        partibus receive orders --all --format body > bodies.txt
        partibus receive news/Subscriptions/mine --follow | jq .properties
        partibus receive orders --dead-letter --max 10 --settle abandon
        partibus receive orders --settle defer --json | jq .sequence_number
    """
    from partibus.cli.failures import EXIT_NOTHING, say
    from partibus.cli.messages.printing import MessagePrinter, chosen_look
    from partibus.client.messages.receiving import Reception, receive_deferred, receive_each

    if delete and settle != "complete":
        raise typer.BadParameter("--delete settles by itself; leave out --settle.")
    if (reason or description) and settle != "dead-letter":
        raise typer.BadParameter("--reason and --description need --settle dead-letter.")
    if session is not None and next_session:
        raise typer.BadParameter("give --session-id or --next-session, not both.")
    reception = Reception(
        path=f"{entity}/$DeadLetterQueue" if dead_letter else entity,
        session_id=session,
        next_session=next_session,
        delete=delete,
        wait_s=None if follow else wait / 1000,
        count=None if all or follow else max,
        settle=settle,
        reason=reason,
        description=description,
    )
    printer = MessagePrinter(chosen_look(json, look))
    async with place.open() as bus:
        if deferred:
            await receive_deferred(bus, reception, deferred, printer.show)
        else:
            await receive_each(bus, reception, printer.show)
    if printer.count == 0:
        say(f"no message was received from {reception.path}.")
        if fail_empty:
            raise typer.Exit(EXIT_NOTHING)
