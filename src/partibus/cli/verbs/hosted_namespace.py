"""`partibus namespace create` and related verbs: namespaces per test, on a test server.

Owns the texts and flags of these verbs. The server creates namespaces only if it was started with
`--testing`; the name of the key in a connection string selects one.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_answer, print_json, server_at
from partibus.cli.options import AsJson

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer()


@app.command("create")
@on_server
def create(
    place: "Place",
    name: Annotated[str | None, typer.Argument(help="(default: a new, unique name)")] = None,
    json: AsJson = False,
) -> None:
    """Create a namespace for a test, and print its connection string.

    Works with `partibus serve --testing`. It begins with what the server's --config declares, has
    its own clock and faults, and is isolated from other namespaces.
    """
    made = server_at(place).ask("POST", "/namespaces", {} if name is None else {"name": name})
    named = {"policy": made["key_name"], "key": made["key"], "token": None, "entity_path": None}
    text = replace(place.connection, **named).text()
    print_answer({**made, "connection_string": text}, json, text)


@app.command("delete")
@on_server
def delete(place: "Place", name: Annotated[str, typer.Argument(help="Its name.")]) -> None:
    """Delete a namespace that was created for a test, with all its contents."""
    server_at(place).ask("DELETE", f"/namespaces/{name}")
    typer.echo(f"namespace {name} deleted")


@app.command("list")
@on_server
def list_namespaces(place: "Place", json: AsJson = False) -> None:
    """List the namespaces that were created for tests."""
    answer = server_at(place).ask("GET", "/namespaces")
    if json:
        print_json(answer)
        return
    for namespace in answer["namespaces"]:
        typer.echo(namespace["name"])


@app.command("reset")
@on_server
def reset(place: "Place") -> None:
    """Reset the namespace of a server for tests: entities, messages and faults are removed.

    What the server's --config declares is created again, empty.
    """
    server_at(place).ask("POST", "/reset")
    typer.echo("reset")
