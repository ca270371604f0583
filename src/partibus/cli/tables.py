"""Tables for people: columns of numbers to the right, states in colour on a terminal.

Owns the look of every table of the command line. Rich is loaded when the first table is
printed, since it costs a tenth of a second. Called by the verbs.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import typer

from partibus.cli.asking import print_json

PIPED_WIDTH: Final = 200
"""Without a terminal nothing is truncated: lines are as long as necessary."""
NARROW_WIDTH: Final = 100
_COLOURS: Final = {
    "up": "green",
    "degraded": "yellow",
    "full": "bold red",
    "down": "bold red",
    "Available": "green",
    "Limited": "yellow",
    "Unavailable": "bold red",
}


def print_list(
    answer: object,
    as_json: bool,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    text_columns: Sequence[str] = (),
    nothing: str = "",
) -> None:
    """A list: an answer for programs, or a table for people; `nothing` is printed for an empty
    one."""
    if as_json:
        print_json(answer)
    elif (found := list(rows)) or not nothing:
        print_table(columns, found, text_columns=text_columns)
    else:
        typer.echo(nothing)


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    total: Sequence[object] | None = None,
    text_columns: Sequence[str] = (),
) -> None:
    """One table; `total` is its last row."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPED_WIDTH)
    gap = 1 if console.width < NARROW_WIDTH else 2
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for column in columns:
        justify = "left" if column in text_columns else "right"
        table.add_column(column, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(_cell, row))
    if total is not None:
        table.add_row(*map(_cell, total), style="bold")
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = str(value).replace("[", "\\[")
    colour = _COLOURS.get(text)
    return f"[{colour}]{text}[/]" if colour else text
