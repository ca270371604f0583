"""`partibus cursor ...`: how far pipelines have read an entity.

Owns the table of cursors and the deletion of one.
"""

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partibus.cli.asking import on_server
from partibus.cli.options import AsJson, Entity, Yes
from partibus.cli.pipelines.administration import change, moment, show_table
from partibus.cli.quantities import format_bytes

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(
    help="Cursors: how far pipelines have read, and what is retained for them.",
    no_args_is_help=True,
)


@app.command("list")
@on_server
def list_cursors(place: "Place", name: Entity, json: AsJson = False) -> None:
    """List every cursor of an entity: how many messages it has not passed, and what it keeps.

    Messages that a cursor has not passed are kept for it after others have settled them, within its
    retention; --json shows its position in each fragment.
    """
    headings = ("cursor", "behind", "moved", "keeps for", "keeps at most")
    texts = ("cursor", "moved", "keeps for")
    show_table(place, name, "cursors", _rows, headings, texts, "{} has no cursors.", json)


def _rows(answer: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    return (
        (
            cursor["name"],
            cursor["lag"],
            moment(cursor["moved_ms"]),
            str(datetime.timedelta(milliseconds=cursor["retain_ms"])),
            format_bytes(cursor["retain_bytes"]),
        )
        for cursor in answer["cursors"]
    )


@app.command()
@on_server
def drop(
    place: "Place",
    name: Entity,
    cursor: Annotated[str, typer.Argument(metavar="CURSOR", help="As shown by `cursor list`.")],
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Drop a cursor and what is kept only for it; those messages can no longer be read."""
    change(
        place,
        f"{name}/cursors/drop",
        {"name": cursor},
        f"Drop the cursor '{cursor}' of '{name}' and the messages retained for it?",
        lambda answer: f"cursor '{cursor}' dropped",
        yes,
        json,
    )
