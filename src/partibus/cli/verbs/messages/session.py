"""`partibus session ...`: the sessions of an entity and their states.

Owns the texts. A state can be read or written only by the holder of the session, so the command
takes the session's lock for that moment and releases it.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from partibus.cli.asking import on_server, print_json
from partibus.cli.options import AsJson, Entity

if TYPE_CHECKING:
    from partibus.cli.place import Place

LOCK_WAIT_MS: Final = 5_000

app = typer.Typer(help="Inspect sessions and their state.", no_args_is_help=True)
state_app = typer.Typer(help="Read and write the state of a session.", no_args_is_help=True)
app.add_typer(state_app, name="state")

SessionId = Annotated[str, typer.Argument(metavar="ID", help="The session.")]


@app.command("list")
@on_server
async def list_sessions(place: "Place", entity: Entity, json: AsJson = False) -> None:
    """List the sessions of an entity that hold messages or state.

    Example:

        partibus session list orders
    """
    async with place.open() as bus:
        ids = await (await bus.management(entity)).sessions()
    if json:
        print_json({"entity": entity, "sessions": ids})
    elif ids:
        for session_id in ids:
            typer.echo(session_id)
    else:
        typer.echo(f"{entity} has no sessions with messages or state.")


@state_app.command("get")
@on_server
async def get_state(
    place: "Place", entity: Entity, session_id: SessionId, json: AsJson = False
) -> None:
    """Print the state of a session, unchanged; nothing if it has no state.

    Example:

        partibus session state get orders customer-7
    """
    async with place.open() as bus, bus.holding(entity, session_id, LOCK_WAIT_MS) as management:
        state = await management.session_state(session_id)
    if json:
        from partibus.client.messages.json_form import bytes_to_json

        shown = None if state is None else bytes_to_json(state)
        print_json({"entity": entity, "session_id": session_id, "state": shown})
    elif state is None:
        from partibus.cli.failures import say

        say(f"session {session_id} of {entity} has no state.")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(state)
        if sys.stdout.isatty():
            typer.echo()
        sys.stdout.buffer.flush()


@state_app.command("set")
@on_server
async def set_state(
    place: "Place",
    entity: Entity,
    session_id: SessionId,
    value: Annotated[
        str | None,
        typer.Argument(help="The state. Without it, all of standard input is the state."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the state from this file.")
    ] = None,
) -> None:
    """Write the state of a session.

    Examples:

        partibus session state set orders customer-7 '{"step": 2}'
        partibus session state set orders customer-7 --file state.bin
    """
    if value is not None and file is not None:
        raise typer.BadParameter("give a value or --file, not both.")
    if file is not None:
        state = file.read_bytes()
    else:
        state = sys.stdin.buffer.read() if value is None else value.encode()
    async with place.open() as bus, bus.holding(entity, session_id, LOCK_WAIT_MS) as management:
        await management.set_session_state(session_id, state)
    typer.echo(f"{entity}: session {session_id} has a state of {len(state)} bytes")


@state_app.command("clear")
@on_server
async def clear_state(place: "Place", entity: Entity, session_id: SessionId) -> None:
    """Remove the state of a session.

    Example:

        partibus session state clear orders customer-7
    """
    async with place.open() as bus, bus.holding(entity, session_id, LOCK_WAIT_MS) as management:
        await management.set_session_state(session_id, None)
    typer.echo(f"{entity}: state of session {session_id} cleared")
