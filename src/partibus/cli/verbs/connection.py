"""`partibus connection ...`: who is connected, and how to close a connection.

Owns the table of connections and of their links. The server provides the counts.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from partibus.cli.asking import on_server, print_json, server_at
from partibus.cli.options import AsJson
from partibus.cli.quantities import clock_time
from partibus.cli.tables import print_list, print_table

if TYPE_CHECKING:
    from partibus.cli.place import Place
    from partibus.cli.remote import RemoteServer

PAGE: Final = 500
app = typer.Typer(help="List the clients that are connected, and close one.", no_args_is_help=True)

Id = Annotated[
    str, typer.Argument(metavar="ID", help="As shown by `partibus connection list`: 0-17.")
]


@app.command("list")
@on_server
def list_connections(
    place: "Place",
    entity: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those with a link at this entity.")
    ] = None,
    json: AsJson = False,
) -> None:
    """List every client connection: where it comes from, who it is, and what it does.

    Received and delivered count messages since the connection was opened; the rates are since the
    last request for them, at least a second. Unsettled are sends that are not yet confirmed, and
    deliveries that are not yet settled.

    Example:

        partibus connection list --entity orders
    """
    connections = _all(server_at(place), entity)
    answer = {"connections": connections, "total": len(connections)}
    text = ("id", "peer", "transport", "client", "identity", "opened")
    numbers = ("links", "received", "per s", "delivered", "per s ", "unsettled")
    print_list(answer, json, (*text, *numbers), map(_row, connections), text_columns=text)


@app.command()
@on_server
def show(place: "Place", name: Id, json: AsJson = False) -> None:
    """Show one connection with all its links.

    A receiver without credit is busy or stopped; one with credit and nothing delivered waits for
    messages.

    Example:

        partibus connection show 0-17
    """
    answer = server_at(place).ask("GET", f"/connections/{name}")
    if json:
        print_json(answer)
        return
    typer.echo(f"{answer['id']} {answer['peer']} {_client(answer)} {_identity(answer)}")
    print_table(
        ("role", "entity", "session", "credit", "unsettled", "messages", "per s"),
        [
            (
                link["role"],
                link["entity"],
                link["session_id"],
                link["credit"],
                link["unsettled"],
                link["messages"],
                link["per_s"],
            )
            for link in answer["links"]
        ],
        text_columns=("role", "entity", "session"),
    )


@app.command()
@on_server
def close(
    place: "Place",
    name: Id,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The reason that the client sees.")
    ] = None,
) -> None:
    """Close one connection with the error amqp:connection:forced.

    Stock clients reconnect by themselves; their locked messages stay locked until the locks expire.

    Example:

        partibus connection close 0-17 --reason 'moving to another host'
    """
    query = {"reason": reason} if reason else None
    server_at(place).ask("DELETE", f"/connections/{name}", query=query)
    typer.echo(f"connection {name}: closed")


def _all(server: "RemoteServer", entity: str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query = {"limit": str(PAGE)} | ({"entity": entity} if entity else {})
    while True:
        answer = server.ask("GET", "/connections", query=query)
        found += answer["connections"]
        if answer["next"] is None:
            return found
        query["after"] = answer["next"]


def _row(shown: dict[str, Any]) -> tuple[object, ...]:
    return (
        shown["id"],
        shown["peer"],
        shown["transport"],
        _client(shown),
        _identity(shown),
        clock_time(shown["opened_ms"]),
        shown["link_count"],
        shown["received"],
        shown["received_per_s"],
        shown["delivered"],
        shown["delivered_per_s"],
        shown["unsettled"],
    )


def _client(shown: dict[str, Any]) -> str:
    client = shown["client"]
    return f"{client['product']} {client['version']}".strip() or "-"


def _identity(shown: dict[str, Any]) -> str:
    names = {identity["policy"] or identity["subject"] for identity in shown["identities"]}
    return ", ".join(sorted(filter(None, names))) or "-"
