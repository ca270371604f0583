"""`partibus rule ...`: testing the rules of subscriptions on a message.

Owns the flags that describe a message and select the rules. The rules are those of a configuration
file or of a live server (`rule_sources`) and are evaluated here, as the server evaluates them;
nothing is sent. `rule_report` prints the answer.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from partibus.cli.added_options import gathers
from partibus.cli.asking import perhaps_on_server, print_json
from partibus.cli.options import PROPERTY_HELP, AsJson

if TYPE_CHECKING:
    from partibus.cli.entities.rule_sources import RuleSource
    from partibus.cli.place import Place
    from partibus.rules.reach import Reach
    from partibus.rules.view import MappingView

app = typer.Typer(help="Try out the rules of subscriptions.", no_args_is_help=True)

_message_option: Final = partial(typer.Option, rich_help_panel="The message")


def _flag(help_text: str) -> Any:
    return _message_option(metavar="TEXT", help=help_text)


Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Use the rules in this file instead of those of a server: TOML, or the vendor"
        " emulator's Config.json.",
    ),
]
Properties = Annotated[
    list[str] | None,
    _message_option("--property", "-p", metavar="NAME[:TYPE]=VALUE", help=PROPERTY_HELP),
]
Message = Annotated[
    Path | None,
    _message_option(
        metavar="FILE",
        help="The message as JSON ('-' reads stdin): application_properties, subject, ... ; flags "
        "override it.",
    ),
]


def _described(
    prop: Properties = None,
    message: Message = None,
    subject: Annotated[str | None, _flag("Subject (label).")] = None,
    message_id: Annotated[str | None, _flag("MessageId.")] = None,
    correlation_id: Annotated[str | None, _flag("CorrelationId.")] = None,
    session_id: Annotated[str | None, _flag("SessionId.")] = None,
    to: Annotated[str | None, _flag("To.")] = None,
    reply_to: Annotated[str | None, _flag("ReplyTo.")] = None,
    reply_to_session_id: Annotated[str | None, _flag("ReplyToSessionId.")] = None,
    content_type: Annotated[str | None, _flag("ContentType.")] = None,
    partition_key: Annotated[str | None, _flag("PartitionKey.")] = None,
    ttl: Annotated[str | None, _flag("TimeToLive, for example PT5M.")] = None,
    at: Annotated[str | None, _flag("ScheduledEnqueueTimeUtc, in ISO 8601.")] = None,
) -> "MappingView":
    """The message of the flags, as rules see it."""
    from partibus.cli.messages.flags import message_view

    system = {
        "label": subject,
        "messageid": message_id,
        "correlationid": correlation_id,
        "sessionid": session_id,
        "to": to,
        "replyto": reply_to,
        "replytosessionid": reply_to_session_id,
        "contenttype": content_type,
        "partitionkey": partition_key,
        "timetolive": ttl,
        "scheduledenqueuetimeutc": at,
    }
    return message_view(message, prop or [], system)


@app.command()
@perhaps_on_server
@gathers("view", _described)
def test(
    find: "Callable[[], Place]",
    config: Config = None,
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the subscriptions of this topic.")
    ] = None,
    *,
    view: "MappingView",
    json: AsJson = False,
) -> None:
    """Show which subscriptions a message would reach, and why.

    The rules are those of the running server or, with --config, of a file; nothing is sent. Exit
    code 1 means that no subscription gets the message, 2 that the file or a rule in it is wrong.

    Examples:

        partibus rule test --topic orders -p region=EU -p amount:int=120
        partibus rule test --config namespace.toml -p region=EU
    """
    from partibus.cli.entities.rule_report import print_reaches

    source = _source(find, config, topic)
    if topic is not None and not source.has_topic(topic):
        _not_found(topic, source)
    reaches = [_reach_of(source, path, view) for path in source.of_topic(topic)]
    if json:
        _print_json(reaches)
    elif reaches:
        print_reaches(reaches)
    else:
        typer.echo("There are no subscriptions.")
    if not any(match.error is None for reach in reaches for match in reach.matches):
        raise typer.Exit(1)


@app.command()
@perhaps_on_server
@gathers("view", _described)
def explain(
    find: "Callable[[], Place]",
    subscription: Annotated[
        str | None, typer.Argument(help="TOPIC/Subscriptions/NAME, or TOPIC/NAME.")
    ] = None,
    config: Config = None,
    sql: Annotated[
        str | None,
        typer.Option("--sql-filter", metavar="SQL", help="A filter to try, with no other rules."),
    ] = None,
    action: Annotated[
        str | None, typer.Option(metavar="SQL", help="With --sql-filter: an action to try with it.")
    ] = None,
    *,
    view: "MappingView",
    json: AsJson = False,
) -> None:
    """Show why a subscription's rules select a message, or why not, term by term.

    Give a subscription of the running server or, with --config, of a file; or a filter with
    --sql-filter, for which no server is needed. Each term has a mark: '+' true, '-' false, '?'
    unknown (a property is not set), '!' cannot be evaluated; '<--' marks the one that decides. Exit
    code 1 means that the message is not selected, 2 that a file or a rule is wrong.

    Examples:

        partibus rule explain orders/large -p amount:int=120
        partibus rule explain --sql-filter 'amount > 100' -p amount:int=120
    """
    from partibus.cli.entities.rule_report import print_explanations

    if sql is not None:
        reach = _tried(sql, action or "", view)
    elif subscription is not None:
        reach = _reach_of(_source(find, config, _topic_of(subscription)), subscription, view)
    else:
        raise typer.BadParameter("name a SUBSCRIPTION, or give a filter: --sql-filter.")
    if json:
        _print_json([reach])
    else:
        print_explanations(reach)
    if not any(match.error is None for match in reach.matches):
        raise typer.Exit(1)


def _source(find: "Callable[[], Place]", config: Path | None, topic: str | None) -> "RuleSource":
    """The selected rules: those of a file if one is given, else those of the server."""
    from partibus.cli.entities.rule_sources import rules_of_file, rules_of_server
    from partibus.cli.failures import reported_offline

    if config is None:
        place = find()
        with _rules_reported():
            return rules_of_server(place, topic)
    with reported_offline():
        return rules_of_file(config)


@contextmanager
def _rules_reported() -> Iterator[None]:
    """A rule that is wrong is reported like a file that is wrong."""
    from partibus.domain.errors import ConfigError
    from partibus.rules.errors import RuleRefused
    from partibus.server.failure import report

    try:
        yield
    except RuleRefused as error:
        raise typer.Exit(report(ConfigError(error.reason))) from error


def _topic_of(subscription: str) -> str:
    from partibus.domain.address import parse_address

    address = parse_address(subscription)
    return subscription.rpartition("/")[0] if address.subscription is None else address.entity


def _reach_of(source: "RuleSource", path: str, view: "MappingView") -> "Reach":
    from partibus.rules.reach import reach_of

    found = source.find(path)
    if found is None:
        _not_found(path, source)
    return reach_of(found, source.subscriptions[found], view)


def _tried(sql: str, action: str, view: "MappingView") -> "Reach":
    from partibus.domain.entity import FilterType, RuleSpec
    from partibus.rules.check import check_rule
    from partibus.rules.explain import explain_rule
    from partibus.rules.reach import Reach, copies_of
    from partibus.rules.ruleset import SubscriptionRules

    rule = RuleSpec(name="tried", filter_type=FilterType.SQL, sql_expression=sql, action=action)
    with _rules_reported():
        check_rule(rule)
    copies = copies_of(SubscriptionRules(0, (rule,)), view)
    return Reach("the message", copies, [explain_rule(rule, view)])


def _not_found(path: str, source: "RuleSource") -> NoReturn:
    from partibus.server.failure import EXIT_NOT_FOUND

    typer.echo(f"partibus: there is no topic or subscription '{path}' {source.origin}.", err=True)
    raise typer.Exit(EXIT_NOT_FOUND)


def _print_json(reaches: "list[Reach]") -> None:
    from partibus.rules.reach import reach_json

    print_json({"subscriptions": [reach_json(reach) for reach in reaches]})
