"""What the verbs about claims, cursors and stages have in common.

Owns their two forms: a table of what an entity has, and a change after a confirmation. The content
is the server's answer.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from partibus.cli.asking import print_answer, server_at
from partibus.cli.confirming import confirm
from partibus.cli.quantities import clock_time
from partibus.cli.tables import print_list

if TYPE_CHECKING:
    from partibus.cli.place import Place


def show_table(
    place: "Place",
    entity: str,
    what: str,
    rows: "Callable[[dict[str, Any]], Iterable[tuple[object, ...]]]",
    headings: tuple[str, ...],
    text_columns: tuple[str, ...],
    nothing: str,
    json: bool,
) -> None:
    """Print a table for an entity, or that it is empty; {} is the entity's name."""
    answer = server_at(place).ask("GET", f"/entities/{entity}/{what}")
    said = nothing.format(answer["name"])
    print_list(answer, json, headings, rows(answer), text_columns=text_columns, nothing=said)


def change(
    place: "Place",
    path: str,
    body: dict[str, object],
    question: str,
    done: "Callable[[dict[str, Any]], str]",
    yes: bool,
    json: bool,
) -> None:
    """Confirm, change, and print the result."""
    confirm(question, yes)
    answer = server_at(place).ask("POST", f"/entities/{path}", body)
    print_answer(answer, json, f"{answer['name']}: {done(answer)}")


def moment(time_ms: int | None) -> str:
    """A time in UTC, to the second; - for none."""
    return clock_time(time_ms or None).removesuffix("Z")
