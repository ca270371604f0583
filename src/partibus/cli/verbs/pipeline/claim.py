"""`partibus claim ...`: the messages that pipelines hold.

Owns the table of claims and the release of one.
"""

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
    help="Claims: messages that pipelines hold until their batch is complete.", no_args_is_help=True
)


@app.command("list")
@on_server
def list_claims(place: "Place", name: Entity, json: AsJson = False) -> None:
    """List every owner of claims on an entity, with what it holds now.

    An owner without messages has settled its last batch; it is remembered so that an older run of
    it is refused.
    """
    headings = ("owner", "batch", "messages", "bytes", "fragments", "until", "run")
    nothing = "No pipeline has claimed messages of {}."
    show_table(place, name, "claims", _rows, headings, ("owner", "batch", "until"), nothing, json)


def _rows(answer: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    return (
        (
            claim["owner"],
            claim["start"] or "-",
            claim["messages"],
            format_bytes(claim["bytes"]),
            len(claim["fragments"]),
            moment(claim["expires_ms"]),
            claim["epoch"],
        )
        for claim in answer["claims"]
    )


@app.command()
@on_server
def release(
    place: "Place",
    name: Entity,
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="As shown by `claim list`.")],
    forget: Annotated[
        bool, typer.Option("--forget", help="Also remove the owner, when it no longer exists.")
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Return the messages that an owner holds to the queue, at once.

    A run of that owner that is still active ends with an error at its next batch; what it has
    already written is written again by the next receiver of the messages.
    """
    change(
        place,
        f"{name}/claims/release",
        {"owner": owner, "forget": forget},
        f"Release the messages of '{name}' that '{owner}' has claimed?",
        lambda answer: f"{answer['released']} messages of '{owner}' returned to the queue",
        yes,
        json,
    )
