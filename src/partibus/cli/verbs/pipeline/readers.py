"""`partibus claim ...` and `partibus cursor ...`: who reads an entity in bulk.

Owns the tables of claims and of cursors and the two ways to take one away. What a claim holds and
where a cursor stands is the server's own word at that moment.
"""

import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AsJson, Entity, Yes

if TYPE_CHECKING:
    from partibus.cli.place import Place

claims = typer.Typer(
    help="Claims: messages that pipelines hold until their batch is done.", no_args_is_help=True
)
cursors = typer.Typer(
    help="Cursors: how far pipelines have read along, and what is kept for them.",
    no_args_is_help=True,
)


@claims.command("list")
@on_server
def list_claims(place: "Place", name: Entity, json: AsJson = False) -> None:
    """List every owner of claims of an entity with what it holds now.

    An owner without messages has settled its last batch; it is remembered so that an older run of
    it cannot come back.
    """
    answer = server_at(place).ask("GET", f"/entities/{name}/claims")
    if json:
        print_json(answer)
        return
    if not answer["claims"]:
        typer.echo(f"Nobody claims messages of {answer['name']}.")
        return
    from partibus.cli.quantities import spoken_bytes
    from partibus.cli.tables import print_table

    print_table(
        ("owner", "batch", "messages", "bytes", "fragments", "until", "run"),
        [
            (
                claim["owner"],
                claim["start"] or "-",
                claim["messages"],
                spoken_bytes(claim["bytes"]),
                len(claim["fragments"]),
                _moment(claim["expires_ms"]),
                claim["epoch"],
            )
            for claim in answer["claims"]
        ],
        text_columns=("owner", "batch", "until"),
    )


@claims.command()
@on_server
def release(
    place: "Place",
    name: Entity,
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="As `claim list` shows it.")],
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget the owner too, for one that is no more.")
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Give the messages that an owner holds back to the queue, at once.

    A run of that owner that is still going ends with an error at its next batch; what it has
    written by then is written again by whoever receives the messages next.
    """
    from partibus.cli.confirming import confirm

    confirm(f"Take the messages that '{owner}' holds of '{name}' away from it?", yes)
    body = {"owner": owner, "forget": forget}
    answer = server_at(place).ask("POST", f"/entities/{name}/claims/release", body)
    if json:
        print_json(answer)
    else:
        typer.echo(f"{answer['name']}: {answer['released']} messages of '{owner}' given back")


@cursors.command("list")
@on_server
def list_cursors(place: "Place", name: Entity, json: AsJson = False) -> None:
    """List every cursor of an entity: how many messages it has not passed, and what it keeps.

    Messages that a cursor has not passed are kept for it after others have settled them, within its
    retention; --json shows its position in each fragment.
    """
    answer = server_at(place).ask("GET", f"/entities/{name}/cursors")
    if json:
        print_json(answer)
        return
    if not answer["cursors"]:
        typer.echo(f"{answer['name']} has no cursors.")
        return
    from partibus.cli.quantities import spoken_bytes
    from partibus.cli.tables import print_table

    print_table(
        ("cursor", "behind", "moved", "keeps for", "keeps at most"),
        [
            (
                cursor["name"],
                cursor["lag"],
                _moment(cursor["moved_ms"]),
                str(datetime.timedelta(milliseconds=cursor["retain_ms"])),
                spoken_bytes(cursor["retain_bytes"]),
            )
            for cursor in answer["cursors"]
        ],
        text_columns=("cursor", "moved", "keeps for"),
    )


@cursors.command()
@on_server
def drop(
    place: "Place",
    name: Entity,
    cursor: Annotated[str, typer.Argument(metavar="CURSOR", help="As `cursor list` shows it.")],
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Forget a cursor and what is kept for it alone; nobody can read that any more."""
    from partibus.cli.confirming import confirm

    confirm(f"Drop the cursor '{cursor}' of '{name}' and what is kept for it?", yes)
    answer = server_at(place).ask("POST", f"/entities/{name}/cursors/drop", {"name": cursor})
    if json:
        print_json(answer)
    else:
        typer.echo(f"{answer['name']}: cursor '{cursor}' dropped")


def _moment(time_ms: int | None) -> str:
    if time_ms is None:
        return "-"
    moment = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    return moment.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
