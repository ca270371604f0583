"""`partibus log ...`: the level of the server's log.

Owns the texts; the server applies the level to every worker. `ops.logging` owns the levels.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AsJson

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(help="Show the level of the server's log, or change it.", no_args_is_help=True)


@app.command()
@on_server
def level(
    place: "Place",
    to: Annotated[
        str | None, typer.Argument(metavar="LEVEL", help="debug, info, warning or error.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show the level of the log of every worker, or set it.

    It applies until the server restarts, which uses `--log-level` again.

    Example:

        partibus log level debug
    """
    server = server_at(place)
    answer = server.ask("GET", "/log") if to is None else server.ask("PUT", "/log", {"level": to})
    if json:
        print_json(answer)
        return
    for worker in answer["workers"]:
        typer.echo(f"worker {worker['worker']}: {worker['level']}")
