"""`queue`, `topic` and `subscription`: the same five verbs for each kind of entity.

Owns create, show, list, update and delete over the management API, so they work against
Partibus and against the vendor's cloud. The flags come from `options`. A group of verbs
is made for each kind by `entity_app`; nothing is kept between calls.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from partibus.cli.asking import on_server, print_answer, print_json
from partibus.cli.confirming import confirm
from partibus.cli.entities.options import field_parameters, given_fields
from partibus.cli.options import AsJson, Yes
from partibus.cli.quantities import format_bytes
from partibus.cli.tables import print_list, print_table
from partibus.domain.address import subscription_path
from partibus.domain.entity_properties import PROPERTIES, Kind

if TYPE_CHECKING:
    from partibus.cli.place import Place

_KEYWORD: Final = inspect.Parameter.KEYWORD_ONLY
_PLURALS: Final = {"queue": "queues", "topic": "topics", "subscription": "subscriptions"}
_EXAMPLES: Final = {
    "queue": ("orders", "--max-delivery-count 5 --lock-duration 30s"),
    "topic": ("news", "--ttl 7d"),
    "subscription": ("news mine", "--max-delivery-count 5"),
}
_FEATURES: Final = (
    ("sessions", "requires_session"),
    ("duplicates", "requires_duplicate_detection"),
    ("partitioned", "enable_partitioning"),
    ("forwards", "forward_to"),
)
SqlFilter = Annotated[
    str | None,
    typer.Option(
        metavar="SQL", help="Select only messages that match this filter, instead of all."
    ),
]
IfMissing = Annotated[bool, typer.Option("--if-missing", help="Do nothing if it already exists.")]


def entity_app(kind: Kind) -> typer.Typer:
    """The group of verbs of one kind."""
    app = typer.Typer(help=f"Create, inspect and change {_PLURALS[kind]}.", no_args_is_help=True)
    app.command("create")(_create(kind))
    app.command("show")(_show(kind))
    app.command("list")(_list(kind))
    app.command("update")(_update(kind))
    app.command("delete")(_delete(kind))
    return app


def path_of(kind: Kind, given: dict[str, Any]) -> str:
    """The path of the entity that the arguments name."""
    if kind == "subscription":
        return subscription_path(given["topic"], given["name"])
    return str(given["name"])


def _create(kind: Kind) -> Callable[..., None]:
    def create(place: "Place", **given: Any) -> None:
        from partibus.cli.managing import atom_at
        from partibus.client.errors import AtomError

        path = path_of(kind, given)
        sql = given.get("sql_filter")
        rule = None if sql is None else {"name": "$Default", "sql_filter": sql}
        with atom_at(place) as atom:
            try:
                made = atom.create(kind, path, given_fields(kind, given), rule)
            except AtomError as error:
                if error.status != 409 or not given["if_missing"]:
                    raise
                print_answer(atom.get(kind, path), given["json"], f"{kind} {path} already exists")
                return
        print_answer(made, given["json"], f"{kind} {path} created")

    fields = field_parameters(kind, for_update=False)
    extra = [_parameter("if_missing", IfMissing, False)]
    if kind == "subscription":
        extra.insert(0, _parameter("sql_filter", SqlFilter, None))
    text = (
        f"Create a {kind}; properties that are not given get the vendor's defaults.\n\n"
        f"If it already exists, the exit code is 8, unless --if-missing is given."
    )
    return _verb(create, kind, text, [*extra, *fields], "create")


def _show(kind: Kind) -> Callable[..., None]:
    def show(place: "Place", **given: Any) -> None:
        from partibus.cli.managing import atom_at

        with atom_at(place) as atom:
            found = atom.get(kind, path_of(kind, given))
        if given["json"]:
            print_json(found)
        else:
            _print_properties(kind, found)

    text = f"Show a {kind}: its counts and all its properties."
    return _verb(show, kind, text, [], "show")


def _list(kind: Kind) -> Callable[..., None]:
    def list_(place: "Place", **given: Any) -> None:
        from partibus.cli.managing import atom_at

        with atom_at(place) as atom:
            if kind == "subscription":
                atom.get("topic", given["topic"])  # the list of a missing topic would be empty
            found = list(atom.list(kind, given.get("topic", "")))
        _print_list(kind, found, given["json"])

    text = f"List {_PLURALS[kind]} with their message counts."
    return _verb(list_, kind, text, [], "list")


def _update(kind: Kind) -> Callable[..., None]:
    def update(place: "Place", **given: Any) -> None:
        from partibus.cli.managing import atom_at

        fields = given_fields(kind, given)
        if not fields:
            raise typer.BadParameter("nothing to change; give at least one property.")
        path = path_of(kind, given)
        with atom_at(place) as atom:
            made = atom.update(kind, path, fields)
        print_answer(made, given["json"], f"{kind} {path} updated: {', '.join(fields)}")

    fields = field_parameters(kind, for_update=True)
    text = (
        f"Change properties of a {kind}; those that are not given stay as they are.\n\n"
        "Sessions, duplicate detection and partitioning are fixed at creation."
    )
    return _verb(update, kind, text, fields, "update")


def _delete(kind: Kind) -> Callable[..., None]:
    def delete(place: "Place", **given: Any) -> None:
        from partibus.cli.managing import atom_at

        path = path_of(kind, given)
        with atom_at(place) as atom:
            atom.get(kind, path)
            confirm(f"Delete {kind} '{path}' and all its messages permanently?", given["yes"])
            atom.delete(path)
        typer.echo(f"{kind} {path} deleted")

    text = f"Delete a {kind} with all its messages, permanently."
    return _verb(delete, kind, text, [_parameter("yes", Yes, False)], "delete")


# --- signatures -------------------------------------------------------------------------------


def _verb(
    verb: Callable[..., None], kind: Kind, text: str, parameters: list[inspect.Parameter], word: str
) -> Callable[..., None]:
    """The verb with its arguments, its options, its help and an example."""
    place = inspect.Parameter("place", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    as_json = [] if word == "delete" else [_parameter("json", AsJson, False)]
    names = _name_parameters(kind, word)
    verb.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [place, *names, *parameters, *as_json]
    )
    name, flags = _EXAMPLES[kind]
    shown = name.split()[:1] if word == "list" and kind == "subscription" else name.split()
    arguments = "" if word == "list" and kind != "subscription" else f" {' '.join(shown)}"
    if word in ("create", "update"):
        arguments += f" {flags}"
    verb.__doc__ = f"{text}\n\nExample:\n\n    partibus {kind} {word}{arguments}\n"
    verb.__name__ = word
    return on_server(verb)


def _name_parameters(kind: Kind, word: str) -> list[inspect.Parameter]:
    from partibus.cli.completion import complete_entity

    def argument(name: str, text: str) -> inspect.Parameter:
        info = typer.Argument(
            metavar=name.upper(), help=text, autocompletion=complete_entity, show_default=False
        )
        return inspect.Parameter(name, _KEYWORD, annotation=Annotated[str, info])

    if kind == "subscription":
        topic = argument("topic", "Its topic.")
        return [topic] if word == "list" else [topic, argument("name", "Its name.")]
    return [] if word == "list" else [argument("name", f"Name of the {kind}.")]


def _parameter(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)


# --- printing ---------------------------------------------------------------------------------


def _print_properties(kind: Kind, entity: dict[str, Any]) -> None:
    typer.echo(f"{entity['name']}: {kind}, {entity.get('status', 'Active')}")
    counts = entity.get("counts", {})
    rows: list[tuple[str, object]] = [
        (f"{name.replace('_', ' ')} messages", number) for name, number in counts.items()
    ]
    known = [field.key for field in PROPERTIES[kind]]
    facts = [key for key in entity if key not in (*known, "name", "counts")]
    rows += [(key, _spoken(entity[key])) for key in (*facts, *known) if key in entity]
    print_table(("property", "value"), rows, text_columns=("property", "value"))


def _print_list(kind: Kind, entities: list[dict[str, Any]], as_json: bool) -> None:
    columns = ["name", "status", "active", "dead letter", "scheduled", "size", "features"]
    if kind == "topic":
        columns[2:5] = ["subscriptions", "scheduled"]
    rows: list[list[object]] = []
    for entity in entities:
        counts = entity.get("counts", {})
        row: list[object] = [entity["name"], entity.get("status", "Active")]
        if kind == "topic":
            row += [entity.get("subscription_count"), counts.get("scheduled")]
        else:
            row += [counts.get(name) for name in ("active", "dead_letter", "scheduled")]
        features = ", ".join(word for word, key in _FEATURES if entity.get(key))
        rows.append([*row, format_bytes(entity.get("size_in_bytes")), features])
    print_list(
        {_PLURALS[kind]: entities},
        as_json,
        columns,
        rows,
        text_columns=("name", "status", "features"),
        nothing=f"There are no {_PLURALS[kind]}. Create one: partibus {kind} create --help",
    )


def _spoken(value: object) -> object:
    from partibus.domain.duration import DURATION_MAX_TEXT

    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unlimited" if value == DURATION_MAX_TEXT else value
