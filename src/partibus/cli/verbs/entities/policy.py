"""`partibus policy ...`: who may do what, on the namespace or on one entity.

Owns the texts about policies and the connection string for a policy's key. The server decides what
is valid, over its JSON interface. Keys are shown only on request. Called by the table of verbs.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from partibus.cli.added_options import gathers
from partibus.cli.asking import on_server, perhaps_on_server, print_json, server_at
from partibus.cli.completion import complete_entity
from partibus.cli.confirming import confirm
from partibus.cli.options import AsJson, Yes
from partibus.cli.tables import print_list
from partibus.cli.verbs.store import Keys

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(no_args_is_help=True)

Policy = dict[str, Any]

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the policy.")]
Rights = Annotated[
    list[str],
    typer.Argument(
        metavar="RIGHT", help="What it allows: send, listen, or manage, which includes both."
    ),
]
OnEntity = Annotated[
    str,
    typer.Option(
        "--entity",
        "-e",
        metavar="ENTITY",
        help="The queue or topic of the policy. (default: the namespace)",
        autocompletion=complete_entity,
        show_default=False,
    ),
]
WithKeys = Annotated[
    bool,
    typer.Option("--keys", help="Show the keys, and the connection string with the primary key."),
]
InDirectory = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Read it from the data directory of a server instead of asking a server.",
    ),
]
PrimaryKey = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Your own primary key. (default: generated)")
]
SecondaryKey = Annotated[str | None, typer.Option(metavar="TEXT", help="The same.")]


@app.callback()
def policy() -> None:
    """Control who may send, listen and manage.

    A policy is a name with two keys and some rights, on the whole namespace or on one queue or
    topic. Programs use it through a connection string. When a policy or key is removed, links that
    depend on it are closed within a second.
    """


@app.command("list")
@on_server
def list_policies(place: "Place", entity: OnEntity = "", json: AsJson = False) -> None:
    """List the policies of the namespace, or of one entity.

    Examples:

        partibus policy list
        partibus policy list --entity orders
    """
    found = [_shown(one, False) for one in _policies(place, entity)]
    columns, nothing = ("policy", "rights"), f"{_scope(entity)} has no policies of its own."
    rows = ((one["name"], ", ".join(one["rights"])) for one in found)
    print_list({"policies": found}, json, columns, rows, text_columns=columns, nothing=nothing)


@app.command()
@perhaps_on_server
@gathers("encryption", Keys)
def show(
    find: "Callable[[], Place]",
    name: Name,
    entity: OnEntity = "",
    keys: WithKeys = False,
    data: InDirectory = None,
    *,
    encryption: Keys,
    json: AsJson = False,
) -> None:
    """Show a policy: its rights and, with --keys, its keys.

    With access to a server's data directory no key is needed: with --data the policy is read from
    there, whether the server runs or not.

    Examples:

        partibus policy show worker --entity orders
        partibus policy show worker --entity orders --keys
        partibus policy show RootManageSharedAccessKey --keys --data partibus-data
    """
    if data is not None:
        policy = _chosen(_policies_in(data, entity, encryption), entity, name)
        _show(None, entity, policy, keys, json)
    else:
        place = find()
        _show(place, entity, _found(place, entity, name), keys, json)


@app.command()
@on_server
def create(
    place: "Place",
    name: Name,
    rights: Rights,
    entity: OnEntity = "",
    primary_key: PrimaryKey = None,
    secondary_key: SecondaryKey = None,
    keys: WithKeys = False,
    json: AsJson = False,
) -> None:
    """Create a policy; if it already exists, the exit code is 8.

    Examples:

        partibus policy create worker send listen --entity orders --keys
        partibus policy create admin manage
    """
    from partibus.cli.failures import EXIT_EXISTS, CommandFailed

    if any(one["name"] == name for one in _policies(place, entity)):
        text = f"{_scope(entity)} has a policy '{name}' already; change it with policy update."
        raise CommandFailed(text, EXIT_EXISTS)
    given = {"primary_key": primary_key, "secondary_key": secondary_key}
    body = {"rights": _rights(rights), **{k: v for k, v in given.items() if v is not None}}
    _show(place, entity, _put(place, entity, name, body), keys, json)


@app.command()
@on_server
def update(
    place: "Place", name: Name, rights: Rights, entity: OnEntity = "", json: AsJson = False
) -> None:
    """Change the rights of a policy; its keys stay.

    Example:

        partibus policy update worker listen --entity orders
    """
    _found(place, entity, name)
    changed = _put(place, entity, name, {"rights": _rights(rights)})
    _show(place, entity, changed, False, json)


@app.command()
@on_server
def delete(place: "Place", name: Name, entity: OnEntity = "", yes: Yes = False) -> None:
    """Delete a policy; connections that use it are closed.

    Example:

        partibus policy delete worker --entity orders
    """
    _found(place, entity, name)
    confirm(f"Delete policy '{name}' of {_scope(entity)}?", yes)
    server_at(place).ask("DELETE", _path(name), query=_query(entity))
    typer.echo(f"policy {name} of {_scope(entity)} deleted")


@app.command()
@on_server
def regenerate(
    place: "Place",
    name: Name,
    key: Annotated[
        Literal["primary", "secondary"], typer.Option(help="Which of the two keys.")
    ] = "primary",
    entity: OnEntity = "",
    yes: Yes = False,
    keys: WithKeys = False,
    json: AsJson = False,
) -> None:
    """Replace a key with a new one; connections that use the old one are closed.

    To change keys without interruption, switch your programs to the other key first.

    Example:

        partibus policy regenerate worker --key secondary --entity orders --keys
    """
    _found(place, entity, name)
    confirm(f"Replace the {key} key of policy '{name}' of {_scope(entity)}?", yes)
    path = f"{_path(name)}/regenerate"
    changed = server_at(place).ask("POST", path, {"key": key}, query=_query(entity))
    _show(place, entity, changed, keys, json)


# --- the server -------------------------------------------------------------------------------


def _policies(place: "Place", entity: str) -> list[Policy]:
    found: list[Policy] = server_at(place).ask("GET", "/policies", query=_query(entity))["policies"]
    return found


def _policies_in(data: Path, entity: str, keys: Keys) -> list[Policy]:
    """The same from a data directory: for a server whose key nobody knows any more."""
    from partibus.control.catalog.database import read_policies
    from partibus.control.catalog.sealed import SealedCatalog
    from partibus.domain.address import path_key
    from partibus.domain.rights import names_of_rights
    from partibus.server.config import ServeSettings
    from partibus.server.data_directory.encryption import data_key_of

    data_key = data_key_of(ServeSettings(data=data, **keys._asdict()))
    file = data / "catalog.db"
    # No working copy: the image is opened in memory.
    encrypted = None if data_key is None else SealedCatalog(file, data, data_key.catalog_sealer())
    return [
        {
            "name": one.name,
            "rights": list(names_of_rights(one.rights)),
            "primary_key": one.primary_key,
            "secondary_key": one.secondary_key,
        }
        for one in read_policies(file, path_key(entity), encrypted)
    ]


def _found(place: "Place", entity: str, name: str) -> Policy:
    return _chosen(_policies(place, entity), entity, name)


def _chosen(policies: list[Policy], entity: str, name: str) -> Policy:
    from partibus.cli.failures import CommandFailed
    from partibus.server.failure import EXIT_NOT_FOUND

    for one in policies:
        if one["name"] == name:
            return one
    text = f"{_scope(entity)} has no policy '{name}'; list them with partibus policy list."
    raise CommandFailed(text, EXIT_NOT_FOUND)


def _put(place: "Place", entity: str, name: str, body: Policy) -> Policy:
    return server_at(place).ask("PUT", _path(name), body, query=_query(entity))


def _path(name: str) -> str:
    if "/" in name:
        raise typer.BadParameter(f"'{name}' is not a valid policy name: it contains a slash.")
    return f"/policies/{name}"


def _query(entity: str) -> dict[str, str]:
    return {"entity": entity} if entity else {}


# --- words ------------------------------------------------------------------------------------


def _rights(given: list[str]) -> list[str]:
    """The rights including the implied ones (SAS-2)."""
    words = [word for text in given for word in text.lower().split(",") if word]
    return ["manage", "send", "listen"] if "manage" in words else words


def _scope(entity: str) -> str:
    return f"'{entity}'" if entity else "the namespace"


def _shown(policy: Policy, with_keys: bool) -> Policy:
    return {k: v for k, v in policy.items() if with_keys or not k.endswith("_key")}


def _show(
    place: "Place | None", entity: str, policy: Policy, with_keys: bool, as_json: bool
) -> None:
    """A data directory does not know the server's address: then there is no connection string."""
    shown = _shown(policy, with_keys)
    if with_keys and place is not None:
        # For programs: the same endpoint, with the primary key of this policy.
        named = {"policy": policy["name"], "key": policy["primary_key"], "token": None}
        shown["connection_string"] = replace(
            place.connection, **named, entity_path=entity or None
        ).text()
    if as_json:
        print_json(shown)
        return
    typer.echo(f"{policy['name']} of {_scope(entity)}: {', '.join(policy['rights'])}")
    if with_keys:
        typer.echo(f"primary key        {policy['primary_key']}")
        typer.echo(f"secondary key      {policy['secondary_key']}")
    if "connection_string" in shown:
        typer.echo(f"connection string  {shown['connection_string']}")
