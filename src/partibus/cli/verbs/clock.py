"""`partibus clock ...`: the time of a server for tests.

Owns the texts and flags. The server advances its time, only if it was started with `--fake-time` or
`--testing`; the key of the connection string selects the namespace.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from partibus.cli.asking import on_server, print_answer, server_at
from partibus.cli.options import AsJson
from partibus.cli.quantities import format_span

if TYPE_CHECKING:
    from partibus.cli.place import Place

HELP: Final = """\
Show the time of a server for tests, or move it.

Works with a server that was started with `partibus serve --testing`, or `--memory --fake-time`. The
time of messages and entities moves; connections and tokens keep the machine's time.

    partibus clock advance 7d
"""
app = typer.Typer(help=HELP, no_args_is_help=True)


@app.command()
@on_server
def advance(
    place: "Place",
    by: Annotated[
        str, typer.Argument(metavar="DURATION", help="For example 30s, 1h30m, 7d or P7D.")
    ],
    json: AsJson = False,
) -> None:
    """Advance the time; everything that becomes due in between happens.

    When it returns, expired locks are free, due scheduled messages are active, expired messages
    are gone, and idle entities are deleted.
    """
    _show(server_at(place).ask("POST", "/clock/advance", {"by": by}), json)


@app.command()
@on_server
def show(place: "Place", json: AsJson = False) -> None:
    """Show the current time of messages and entities."""
    _show(server_at(place).ask("GET", "/clock"), json)


def _show(answer: dict[str, Any], json: bool) -> None:
    ahead = format_span(answer["advanced_ms"])
    print_answer(answer, json, f"{answer['now']}, {ahead} ahead of the machine")
