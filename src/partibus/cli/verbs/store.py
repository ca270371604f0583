"""`partibus store ...`: the places where messages are kept, and how they are.

Owns the table of stores. What a state means is the store's own word: up, degraded (it
commits, but slowly) or down (it refuses, and is probed until it answers). Full is one that hands
messages out, but takes none, since its disk is almost full.
"""

from typing import TYPE_CHECKING

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AsJson

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(help="Look at the stores.", no_args_is_help=True)


@app.callback()
def store() -> None:
    """Look at the stores."""


@app.command("list")
@on_server
def list_stores(place: "Place", json: AsJson = False) -> None:
    """List every store: its state, the fragments placed there, and what it takes.

    Live bytes are those of messages that are still needed; the files on disk are larger, since
    space goes back some time after the messages are gone. A store is full when less than
    `--disk-free-min` is free on its disk: messages are received and settled, but none are taken.
    Damaged messages that were met since the start are reported.
    """
    server = server_at(place)
    answer = server.ask("GET", "/stores")
    if json:
        print_json(answer)
        return
    from partibus.cli.quantities import spoken_bytes
    from partibus.cli.tables import print_table

    print_table(
        ("store", "state", "worker", "fragments", "live", "on disk", "free", "place"),
        [
            (
                s["store"],
                "full" if s["shortage"] else s["state"],
                s["worker"],
                s["fragments"],
                spoken_bytes(s["live_bytes"]),
                spoken_bytes(s["disk_bytes"]),
                spoken_bytes(s["free_bytes"]),
                s["place"],
            )
            for s in answer["stores"]
        ],
        text_columns=("state", "place"),
    )
    for s in answer["stores"]:
        if s.get("damaged"):
            typer.echo(f"store {s['store']}: {s['damaged']} messages failed their checksum")
