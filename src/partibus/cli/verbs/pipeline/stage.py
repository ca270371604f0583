"""`partibus stage ...`: what pipelines have written to an entity and not published.

Owns the table of writers and the one way to take their stages away. What is staged, and what a
writer published last, is the server's own word at that moment.
"""

import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AsJson, Entity, Yes

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(
    help="Stages: what pipelines have written and nobody sees until they publish it.",
    no_args_is_help=True,
)


@app.command("list")
@on_server
def list_stages(place: "Place", name: Entity, json: AsJson = False) -> None:
    """List every writer that stages messages in an entity, and the batch that it published last.

    A writer without stages has published its last batch; it is remembered so that no batch is
    published twice. Stages that nobody has touched for a day are dropped.
    """
    answer = server_at(place).ask("GET", f"/entities/{name}/stages")
    if json:
        print_json(answer)
        return
    if not answer["writers"]:
        typer.echo(f"Nobody stages messages in {answer['name']}.")
        return
    from partibus.cli.quantities import spoken_bytes
    from partibus.cli.tables import print_table

    print_table(
        ("writer", "stages", "messages", "bytes", "leaving", "last batch", "of", "heard of"),
        [
            (
                writer["writer"],
                len(writer["stages"]),
                sum(stage["messages"] for stage in writer["stages"]),
                spoken_bytes(sum(stage["bytes"] for stage in writer["stages"])),
                writer["leaving"],
                "-" if writer["batch"] is None else writer["batch"],
                writer["series"] or "-",
                _moment(writer["used_ms"]),
            )
            for writer in answer["writers"]
        ],
        text_columns=("writer", "of", "heard of"),
    )


@app.command()
@on_server
def drop(
    place: "Place",
    name: Entity,
    writer: Annotated[str, typer.Argument(metavar="WRITER", help="As `stage list` shows it.")],
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Forget the writer and what it has published, too."),
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Drop what a writer has staged and not published.

    A batch that is being written fails and is written anew by its job; what is published is on its
    way and stays so. A writer that is forgotten may publish a batch again.
    """
    from partibus.cli.confirming import confirm

    confirm(f"Drop what '{writer}' has staged in '{name}'?", yes)
    body = {"writer": writer, "forget": forget}
    answer = server_at(place).ask("POST", f"/entities/{name}/stages/drop", body)
    if json:
        print_json(answer)
    else:
        typer.echo(f"{answer['name']}: {answer['dropped']} staged messages of '{writer}' dropped")


def _moment(time_ms: int) -> str:
    if not time_ms:
        return "-"
    moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return moment.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
