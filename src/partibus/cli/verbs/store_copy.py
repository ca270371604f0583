"""`partibus store copy`: a whole bus from a directory into a cluster, and back.

Owns the options and texts. `server.copying` copies and compares. Called by the table of verbs.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import print_json
from partibus.cli.options import AsJson
from partibus.cli.progress import progress_by_steps
from partibus.cli.quantities import format_bytes
from partibus.cli.tables import print_table

if TYPE_CHECKING:
    from partibus.server.copying.copy import CopyReport

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PLACE",
        help="A data directory, or the address of a cluster's database.",
        show_default=False,
    ),
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="PLACE",
        help="A new data directory, or an empty database.",
        show_default=False,
    ),
]
FromStores = Annotated[
    list[str] | None,
    typer.Option(
        "--from-store", metavar="PLACE", help="A --store of the source; repeat it in order."
    ),
]
ToStores = Annotated[
    list[str] | None,
    typer.Option(
        "--to-store", metavar="PLACE", help="A --store of the target; repeat it in order."
    ),
]


def copy(
    source: From,
    target: To,
    from_store: FromStores = None,
    to_store: ToStores = None,
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Copy nothing: compare what both places hold.")
    ] = False,
    decrypt: Annotated[
        bool, typer.Option("--decrypt", help="Copy an encrypted directory without encryption.")
    ] = False,
    encryption_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of an encrypted source.")
    ] = None,
    encryption_key_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="A command that prints this key.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Copy a whole bus into a cluster or out of one, and compare both message by message.

    Neither place may be served meanwhile, and the target must be empty. A copy that was interrupted
    is not served: run it again. The exit code is 3 when anything differs.

    Example:

        partibus store copy --from partibus-data --to postgresql://bus@db.example.org/bus
    """
    from partibus.cli.failures import reported_offline
    from partibus.server.copying.copy import compare_buses, copy_bus
    from partibus.server.copying.ends import GivenPlace

    origin = GivenPlace(
        place=source,
        stores=tuple(from_store or ()),
        key_file=encryption_key_file,
        key_command=encryption_key_command,
    )
    other = GivenPlace(place=target, stores=tuple(to_store or ()))
    watcher = _Bars()
    with reported_offline():
        if verify_only:
            found = compare_buses(origin, other, watcher)
        else:
            found = copy_bus(origin, other, decrypts=decrypt, watcher=watcher)
    _show(found, other.is_cluster, json=json, is_copy=not verify_only)


class _Bars:
    """Shows the progress."""

    def stage(self, what: str, total: int) -> "AbstractContextManager[Callable[[int], None]]":
        """A bar for a part of the work."""
        return progress_by_steps(what, total)


def _show(found: "CopyReport", is_cluster: bool, *, json: bool, is_copy: bool) -> None:
    from partibus.server.failure import EXIT_CLEAN, EXIT_CORRUPT

    comparison = found.comparison
    if json:
        print_json(asdict(found))
    else:
        _print(found)
        for text in comparison.shown:
            print(f"  {text}")
        if comparison.differences:
            end = "; the target is not served" if is_copy else ""
            print(f"{comparison.differences} difference(s){end}")
        else:
            print(f"{comparison.messages} messages compared: both places hold the same")
        if is_copy and not comparison.differences:
            lanes = f"--lanes {found.lanes}" if is_cluster else f"--stores {found.lanes}"
            print(f"start the target with {lanes}")
    raise typer.Exit(EXIT_CORRUPT if comparison.differences else EXIT_CLEAN)


def _print(found: "CopyReport") -> None:
    rows = []
    for name, count in sorted(found.entities.items()):
        by_state = count.messages
        dead = sum(number for where, number in by_state.items() if "dead" in where)
        rows.append(
            (
                name,
                by_state["active"],
                by_state["scheduled"],
                by_state["deferred"],
                dead,
                format_bytes(count.body_bytes),
            )
        )
    columns = ("entity", "active", "scheduled", "deferred", "dead letters", "size")
    print_table(columns, rows, text_columns=("entity",))
