"""`partibus entity ...`: the entities of the namespace, down to the single fragment.

Owns the tables of entities and of fragments. The server provides the numbers; only their display is
decided here.
"""

from typing import TYPE_CHECKING, Any, Final

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AnyEntity, AsJson
from partibus.cli.quantities import format_bytes
from partibus.cli.tables import print_list, print_table

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(help="Inspect queues, topics and subscriptions.", no_args_is_help=True)

COUNTS: Final = ("active", "dead_letter", "scheduled", "deferred", "locked")
_HEADS: Final = ("active", "dead-\nletter", "scheduled", "deferred", "locked", "bytes")
_DROPPED: Final = "duplicates_dropped"
_FURTHER: Final = {
    "transfer": "on their way to another entity",
    "claimed": "claimed by pipelines",
    "retained": "kept for cursors after they were settled",
    "staged": "staged by pipelines, not yet visible",
    "transfer_dead_letter": "transfer dead letters",
    _DROPPED: "duplicates dropped since the start",
    "filter_errors": "filters and actions that failed since the start",
}
"""Counts that are shown if there are any; those of duplicates wherever they are detected."""


@app.command("list")
@on_server
def list_entities(place: "Place", json: AsJson = False) -> None:
    """List every entity with its totals and how much of it is available.

    Counts are sums over the fragments: active messages wait or are locked, dead letters are in the
    dead-letter queue. Limited means that some fragments are down, Unavailable that all are.
    """
    answer = server_at(place).ask("GET", "/entities")
    print_list(
        answer,
        json,
        ("name", "kind", "fragments", "availability", *_HEADS),
        (
            (e["name"], e["kind"], e["fragment_count"], e["availability"], *_numbers(e["totals"]))
            for e in answer["entities"]
        ),
        text_columns=("name", "kind", "availability"),
        nothing="There are no entities. Create one: partibus queue create NAME",
    )


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
    detects = answer["properties"].get("requires_duplicate_detection")
    for name, words in _FURTHER.items():
        total = answer["totals"][name]
        is_shown = detects if name == _DROPPED else total
        if is_shown:
            typer.echo(f"{words}: {total}")


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
