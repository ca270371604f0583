"""`partibus store ...`: the stores of messages, and their states.

Owns the table of stores, and the texts of the verbs that work on the data directory of a stopped
server. A state is reported by the store itself: up, degraded (it commits, but slowly) or down (it
refuses, and is probed until it works). A full store delivers messages but accepts none, since its
disk is almost full.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from partibus.cli.added_options import gathers
from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AsJson
from partibus.cli.quantities import format_bytes
from partibus.cli.tables import print_table
from partibus.cli.verbs.store_copy import copy

if TYPE_CHECKING:
    from partibus.cli.place import Place
    from partibus.server.config import ServeSettings

app = typer.Typer(help="Inspect and repair the stores.", no_args_is_help=True)

Result = TypeVar("Result")
Data = Annotated[
    Path, typer.Option(metavar="DIR", help="The data directory of a server that is not running.")
]
Stores = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many stores. (default: those in the data directory)"),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--encryption-key-file", metavar="FILE", help="The key of an encrypted directory."
    ),
]
KeyCommand = Annotated[
    str | None,
    typer.Option(
        "--encryption-key-command", metavar="COMMAND", help="A command that prints this key."
    ),
]
Places = Annotated[
    list[str] | None,
    typer.Option("--store", metavar="DIR", help="The directory of a store, as given to `serve`."),
]


class Keys(NamedTuple):
    """Where the key of an encrypted directory is: in a file, or what a command prints."""

    encryption_key_file: KeyFile = None
    encryption_key_command: KeyCommand = None


@app.command("list")
@on_server
def list_stores(place: "Place", json: AsJson = False) -> None:
    """List every store: its state, the fragments placed there, and the space it uses.

    Live bytes are those of messages that are still needed; the files on disk are larger, since
    space is freed some time after the messages are gone. A store is full when less than
    `--disk-free-min` is free on its disk: messages can be received and settled, but not sent.
    Damaged messages that were found since the start are reported.
    """
    answer = server_at(place).ask("GET", "/stores")
    if json:
        print_json(answer)
        return
    print_table(
        ("store", "state", "worker", "fragments", "live", "on disk", "free", "place"),
        [
            (
                s["store"],
                "full" if s["shortage"] else s["state"],
                s["worker"],
                s["fragments"],
                format_bytes(s["live_bytes"]),
                format_bytes(s["disk_bytes"]),
                format_bytes(s["free_bytes"]),
                s["place"],
            )
            for s in answer["stores"]
        ],
        text_columns=("state", "place"),
    )
    for s in answer["stores"]:
        if s.get("damaged"):
            typer.echo(f"store {s['store']}: {s['damaged']} messages failed their checksum")


@app.command()
@gathers("keys", Keys)
def check(
    data: Data = Path("partibus-data"),
    stores: Stores = None,
    place: Places = None,
    *,
    keys: Keys,
    json: AsJson = False,
) -> None:
    """Check everything in a data directory and report what is wrong; nothing is changed.

    Covers the catalog and its checksums, every log and checkpoint, the checksum of every message
    that is kept, and whether all of it belongs together. The exit code is 3 when anything is wrong.

    Example:

        partibus store check --data partibus-data
    """
    from dataclasses import asdict

    from partibus.server.data_directory.check import check_data
    from partibus.server.failure import EXIT_CLEAN, EXIT_CORRUPT

    reports = _offline(data, place, stores, check_data, keys)
    if json:
        print_json({"parts": [asdict(report) for report in reports]})
    else:
        for report in reports:
            facts = ", ".join(f"{value} {name}" for name, value in report.facts.items())
            state = "sound" if not report.problems else f"{len(report.problems)} problem(s)"
            print(f"{report.name}: {state} ({facts})" if facts else f"{report.name}: {state}")
            for problem in report.problems:
                print(f"  {problem}")
    is_sound = not any(report.problems for report in reports)
    raise typer.Exit(EXIT_CLEAN if is_sound else EXIT_CORRUPT)


@app.command()
def adopt(
    data: Data = Path("partibus-data"),
    stores: Stores = None,
    place: Places = None,
    lost: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="This store is lost for good: start it again, empty."),
    ] = None,
    drop_unknown: Annotated[
        bool,
        typer.Option(
            "--drop-unknown", help="Drop messages of entities that the catalog does not know."
        ),
    ] = False,
) -> None:
    """Join a catalog and stores that a server refuses because they do not belong together.

    Use it when the catalog is lost or outdated, or when it or a store is from another namespace. A
    fragment that the catalog does not know becomes a queue: recovered-fragment-17. Copy the data
    directory first.

    Example:

        partibus store adopt --data partibus-data
    """
    from partibus.server.data_directory.adopt import adopt_data

    given = frozenset(lost or ())
    steps = _offline(
        data,
        place,
        stores,
        lambda settings: adopt_data(settings, given, drops_unknown=drop_unknown),
    )
    print("\n".join([*steps, "the catalog and the stores belong together"]))


@app.command()
def repair(data: Data = Path("partibus-data"), stores: Stores = None, place: Places = None) -> None:
    """Repair a damaged catalog from the copy that the server keeps of it.

    The damaged file stays beside it, as catalog.db.damaged.

    Example:

        partibus store repair --data partibus-data
    """
    from partibus.server.data_directory.repair import repair_data

    steps = _offline(data, place, stores, repair_data)
    print("\n".join(steps or ["the catalog is intact: nothing to repair"]))


@app.command()
@gathers("keys", Keys)
def rekey(
    new_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file with the new key.")
    ] = None,
    new_key_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="A command that prints the new key.")
    ] = None,
    data: Data = Path("partibus-data"),
    *,
    keys: Keys,
) -> None:
    """Change the key that opens an encrypted data directory.

    Only the file encryption.key is replaced; the data stays as it is. Backups that were made
    before are opened with the key they were made with.

    Example:

        partibus store rekey --encryption-key-file old.key --new-key-file new.key
    """
    from partibus.server.data_directory.encryption import rekey as change

    _offline(data, None, None, lambda s: change(s, new_key_file, new_key_command), keys)
    print(f"{data} is opened with the new key from now on")


app.command("copy")(copy)


def _offline(
    data: Path,
    places: list[str] | None,
    stores: int | None,
    work: "Callable[[ServeSettings], Result]",
    keys: Keys = Keys(),  # noqa: B008 - it is immutable
) -> Result:
    """Work on the directory of a stopped server; a refusal is one line and an exit code."""
    from partibus.cli.failures import reported_offline
    from partibus.server.data_directory.offline import offline_settings

    with reported_offline():
        return work(offline_settings(data, tuple(places or ()), stores, *keys))
