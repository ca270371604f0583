"""`partibus stage ...`: what pipelines have written to an entity and not published.

Owns the table of writers and the dropping of their stages.
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
    help="Stages: what pipelines have written but not yet published.", no_args_is_help=True
)


@app.command("list")
@on_server
def list_stages(place: "Place", name: Entity, json: AsJson = False) -> None:
    """List every writer that stages messages in an entity, and the batch that it published last.

    A writer without stages has published its last batch; it is remembered so that no batch is
    published twice. Stages that nobody has touched for a day are dropped.
    """
    headings = ("writer", "stages", "messages", "bytes", "leaving", "last batch", "of", "heard of")
    nothing = "No pipeline has staged messages in {}."
    show_table(place, name, "stages", _rows, headings, ("writer", "of", "heard of"), nothing, json)


def _rows(answer: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    return (
        (
            writer["writer"],
            len(writer["stages"]),
            sum(stage["messages"] for stage in writer["stages"]),
            format_bytes(sum(stage["bytes"] for stage in writer["stages"])),
            writer["leaving"],
            "-" if writer["batch"] is None else writer["batch"],
            writer["series"] or "-",
            moment(writer["used_ms"]),
        )
        for writer in answer["writers"]
    )


@app.command()
@on_server
def drop(
    place: "Place",
    name: Entity,
    writer: Annotated[str, typer.Argument(metavar="WRITER", help="As shown by `stage list`.")],
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Also remove the writer and its record of what it has published."
        ),
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Drop what a writer has staged and not published.

    A batch that is being written fails and is written again by its job; what is published is not
    touched. A writer that is forgotten may publish a batch again.
    """
    change(
        place,
        f"{name}/stages/drop",
        {"writer": writer, "forget": forget},
        f"Drop what '{writer}' has staged in '{name}'?",
        lambda answer: f"{answer['dropped']} staged messages of '{writer}' dropped",
        yes,
        json,
    )
