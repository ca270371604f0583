"""`partibus rule ...`: the rules of a subscription, over the management API.

Owns the flags for a filter and an action. The bus validates expressions and refuses a wrong one
with the position of the mistake.
"""

import datetime
import json as jsonlib
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from partibus.cli.added_options import gathers
from partibus.cli.asking import on_server, print_answer, print_json
from partibus.cli.completion import complete_entity
from partibus.cli.confirming import confirm
from partibus.cli.options import AsJson, Yes
from partibus.cli.tables import print_list
from partibus.cli.verbs.entities import rule as rule_trial
from partibus.domain.address import subscription_path

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(no_args_is_help=True)
app.add_typer(rule_trial.app)

Topic = Annotated[str, typer.Argument(help="The topic.", autocompletion=complete_entity)]
Subscription = Annotated[str, typer.Argument(help="The subscription.")]
Name = Annotated[str, typer.Argument(help="Name of the rule.")]
SqlFilter = Annotated[
    str | None, typer.Option(metavar="SQL", help="Select messages that match this: amount > 5.")
]
Correlation = Annotated[
    list[str] | None,
    typer.Option(
        "--correlation",
        metavar="NAME=VALUE",
        help="Select messages with this value in a field (message_id, correlation_id, label, to,"
        " reply_to, session_id, reply_to_session_id, content_type); repeat for each.",
    ),
]
Property = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-p",
        metavar="NAME[:TYPE]=VALUE",
        help="Select messages with this application property; repeat for each.",
    ),
]
Action = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Change the selected messages: SET priority = 'high'."),
]


@app.callback()
def rule() -> None:
    """Create, inspect and change rules of subscriptions.

    A subscription receives a message when one of its rules selects it. A new one has the rule
    $Default, which selects every message; delete it once you have your own rules.
    """


class Owner(NamedTuple):
    """The subscription that has the rules."""

    topic: Topic
    subscription: Subscription

    @property
    def path(self) -> str:
        return subscription_path(*self)


def _rule_fields(
    name: Name,
    sql_filter: SqlFilter = None,
    correlation: Correlation = None,
    properties: Property = None,
    action: Action = None,
) -> dict[str, Any]:
    if sql_filter is not None and (correlation or properties):
        raise typer.BadParameter("give --sql-filter, or --correlation and --property, not both.")
    fields: dict[str, Any] = {"name": name}
    if sql_filter is not None:
        fields["sql_filter"] = sql_filter
    if correlation or properties:
        fields["correlation_filter"] = _conditions(correlation or [], properties or [])
    if action is not None:
        fields["action"] = action
    return fields


@app.command()
@on_server
@gathers("owner", Owner)
@gathers("fields", _rule_fields)
def create(place: "Place", owner: Owner, fields: dict[str, Any], json: AsJson = False) -> None:
    """Create a rule; without a filter it selects every message.

    Examples:

        partibus rule create news mine big --sql-filter 'amount > 100'
        partibus rule create news mine red --correlation label=red -p size:int=5
    """
    from partibus.cli.managing import atom_at

    with atom_at(place) as atom:
        made = atom.put_rule(*owner, fields)
    print_answer(made, json, f"rule {fields['name']} of {owner.path} created")


@app.command()
@on_server
@gathers("owner", Owner)
def show(place: "Place", owner: Owner, name: Name, json: AsJson = False) -> None:
    """Show a rule: its filter and its action.

    Example:

        partibus rule show news mine big
    """
    from partibus.cli.managing import atom_at

    with atom_at(place) as atom:
        found = atom.get_rule(*owner, name)
    if json:
        print_json(found)
    else:
        typer.echo(f"{found['name']}: {_format_filter(found)}")
        if "action" in found:
            typer.echo(f"then {found['action']}")


@app.command("list")
@on_server
@gathers("owner", Owner)
def list_rules(place: "Place", owner: Owner, json: AsJson = False) -> None:
    """List the rules of a subscription.

    Example:

        partibus rule list news mine
    """
    from partibus.cli.managing import atom_at

    with atom_at(place) as atom:
        atom.get("subscription", owner.path)
        found = list(atom.rules(*owner))
    columns = ("rule", "selects", "action")
    rows = ((r["name"], _format_filter(r), r.get("action", "")) for r in found)
    nothing = f"{owner.path} has no rules; it receives no messages."
    print_list({"rules": found}, json, columns, rows, text_columns=columns, nothing=nothing)


@app.command()
@on_server
@gathers("owner", Owner)
@gathers("fields", _rule_fields)
def update(place: "Place", owner: Owner, fields: dict[str, Any], json: AsJson = False) -> None:
    """Replace the filter and the action of a rule.

    Example:

        partibus rule update news mine big --sql-filter 'amount > 200'
    """
    from partibus.cli.managing import atom_at

    with atom_at(place) as atom:
        made = atom.change_rule(*owner, fields)
    print_answer(made, json, f"rule {fields['name']} of {owner.path} updated")


@app.command()
@on_server
@gathers("owner", Owner)
def delete(place: "Place", owner: Owner, name: Name, yes: Yes = False) -> None:
    """Delete a rule; messages that were already selected stay.

    Example:

        partibus rule delete news mine '$Default' --yes
    """
    from partibus.cli.managing import atom_at

    with atom_at(place) as atom:
        atom.get_rule(*owner, name)
        confirm(f"Delete rule '{name}' of {owner.path}?", yes)
        atom.delete_rule(*owner, name)
    typer.echo(f"rule {name} of {owner.path} deleted")


def _conditions(correlation: list[str], properties: list[str]) -> dict[str, Any]:
    from partibus.cli.messages.typed_properties import read_values
    from partibus.control.declared.fields import CORRELATION_FIELDS

    known = [name for name in CORRELATION_FIELDS if name != "properties"]
    conditions: dict[str, Any] = {}
    for text in correlation:
        field, equals, value = text.partition("=")
        if not equals or field not in known:
            raise typer.BadParameter(f"'{text}': write NAME=VALUE with one of {', '.join(known)}.")
        conditions[field] = value
    values = {n: _plain(v) for n, v in read_values(properties).items()}
    return {**conditions, "properties": values} if values else conditions


def _plain(value: object) -> object:
    from partibus.rules.time_values import moment_text, span_text

    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, datetime.datetime):
        return {"time": moment_text(value)}
    if isinstance(value, datetime.timedelta):
        return {"duration": span_text(value)}
    raise typer.BadParameter("a rule compares string, int, long, double, bool, time and duration.")


def _format_filter(rule: dict[str, Any]) -> str:
    if "sql_filter" in rule:
        return str(rule["sql_filter"])
    if "correlation_filter" not in rule:
        return "every message"
    conditions = dict(rule["correlation_filter"])
    conditions |= conditions.pop("properties", {})
    return " and ".join(f"{k} = {_format_value(v)}" for k, v in conditions.items())


def _format_value(value: object) -> str:
    if isinstance(value, dict):  # a time or a duration
        return " ".join(f"{kind} {jsonlib.dumps(text)}" for kind, text in value.items())
    return jsonlib.dumps(value)
