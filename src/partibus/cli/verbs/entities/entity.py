"""`partibus entity ...`: the entities of the namespace, down to the single fragment.

Owns the tables of entities and of fragments. The server provides the numbers; only their display is
decided here.
"""

from typing import TYPE_CHECKING, Any, Final

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AnyEntity, AsJson
from partibus.cli.quantities import format_bytes
from partibus.cli.tables import print_table

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(help="Inspect queues, topics and subscriptions.", no_args_is_help=True)

COUNTS: Final = ("active", "dead_letter", "scheduled", "deferred", "locked")
_HEADS: Final = ("active", "dead-\nletter", "scheduled", "deferred", "locked", "bytes")
_ON_THEIR_WAY: Final = "transfer"
_PIPELINES: Final = {
    "claimed": "claimed by pipelines",
    "retained": "kept for cursors after they were settled",
    "staged": "staged by pipelines, not yet visible",
}
_TRANSFER: Final = "transfer_dead_letter"
_DROPPED: Final = "duplicates_dropped"
_FILTER_ERRORS: Final = "filter_errors"


@app.command("list")
@on_server
def list_entities(place: "Place", json: AsJson = False) -> None:
    """List every entity with its totals and how much of it is available.

    Counts are sums over the fragments: active messages wait or are locked, dead letters are in the
    dead-letter queue. Limited means that some fragments are down, Unavailable that all are.
    """
    answer = server_at(place).ask("GET", "/entities")
    if json:
        print_json(answer)
        return
    if not answer["entities"]:
        typer.echo("There are no entities. Create one: partibus queue create NAME")
        return
    _print_entities(answer["entities"])


@app.command()
@on_server
def show(place: "Place", name: AnyEntity, json: AsJson = False) -> None:
    """Show an entity: its fragments, where each lives, what it holds, and the totals.

    A fragment is one part of a partitioned entity, with its own order, locks and dead letters; an
    entity without partitioning has one. With --json the entity's properties are shown too. If the
    entity does not exist, the exit code is 4.
    """
    answer = server_at(place).ask("GET", f"/entities/{name}")
    if json:
        print_json(answer)
        return
    count = answer["fragment_count"]
    parts = f"{count} fragments" if count > 1 else "1 fragment"
    typer.echo(f"{answer['name']}: {answer['kind']}, {parts}, {answer['availability']}")
    _print_fragments(answer)
    if answer["totals"][_ON_THEIR_WAY]:
        typer.echo(f"on their way to another entity: {answer['totals'][_ON_THEIR_WAY]}")
    for name, words in _PIPELINES.items():
        if answer["totals"][name]:
            typer.echo(f"{words}: {answer['totals'][name]}")
    if answer["totals"][_TRANSFER]:
        typer.echo(f"transfer dead letters: {answer['totals'][_TRANSFER]}")
    if answer["properties"].get("requires_duplicate_detection"):
        typer.echo(f"duplicates dropped since the start: {answer['totals'][_DROPPED]}")
    if answer["totals"][_FILTER_ERRORS]:
        errors = answer["totals"][_FILTER_ERRORS]
        typer.echo(f"filters and actions that failed since the start: {errors}")


def _print_entities(entities: list[dict[str, Any]]) -> None:
    print_table(
        ("name", "kind", "fragments", "availability", *_HEADS),
        [
            (e["name"], e["kind"], e["fragment_count"], e["availability"], *_numbers(e["totals"]))
            for e in entities
        ],
        text_columns=("name", "kind", "availability"),
    )


def _print_fragments(entity: dict[str, Any]) -> None:
    print_table(
        ("index", "store", "worker", "state", *_HEADS),
        [
            (f["index"], f["store"], f["worker"], f["state"], *_numbers(f))
            for f in entity["fragments"]
        ],
        total=("total", "", "", "", *_numbers(entity["totals"])),
        text_columns=("state",),
    )


def _numbers(counts: dict[str, Any]) -> list[object]:
    return [*(counts[name] for name in COUNTS), format_bytes(counts["bytes"])]
