"""The table of verbs: what `partibus --help` lists, and which module has each.

Owns the command tree and the texts a newcomer reads first. A verb's module is imported when needed:
a single verb when its name is known, all of them for the help, for completion and for an unknown
name. A verb's module imports the server or the client when it runs.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer

from partibus.cli.help_pages import VerbGroup, make_readable
from partibus.cli.verbs import version

HELP = """\
A self-hosted, partitioned message bus for Azure Service Bus clients.

Start one with `partibus serve` and paste the connection string that it prints into
any Azure Service Bus program. The other commands work with Partibus and, where it has the same
operations, with Azure Service Bus, by its connection string.

    partibus serve
    partibus queue create orders
    partibus send orders 'hello'
    partibus receive orders

Results go to stdout, everything else to stderr; `--json` is for programs. If nothing connects, run
`partibus doctor`.
"""

SERVER: Final = "The server"
MESSAGES: Final = "Messages"
ENTITIES: Final = "Entities"
PIPELINES: Final = "Pipelines"
TOOLS: Final = "Tools"


class Entry(NamedTuple):
    """Where a verb or a group of verbs is, and where the help lists it."""

    panel: str
    module: str
    attribute: str = "app"


VERBS: Final = {
    "serve": Entry(SERVER, "serve", "serve"),
    "config": Entry(SERVER, "config"),
    "store": Entry(SERVER, "store"),
    "cluster": Entry(SERVER, "cluster"),
    "backup": Entry(SERVER, "backup"),
    "restore": Entry(SERVER, "backup", "restore"),
    "connection": Entry(SERVER, "connection"),
    "events": Entry(SERVER, "events", "events"),
    "top": Entry(SERVER, "top", "top"),
    "log": Entry(SERVER, "log"),
    "fault": Entry(SERVER, "fault"),
    "clock": Entry(SERVER, "clock"),
    "cert": Entry(SERVER, "cert"),
    "send": Entry(MESSAGES, "messages.send", "send"),
    "receive": Entry(MESSAGES, "messages.receive", "receive"),
    "peek": Entry(MESSAGES, "messages.peek", "peek"),
    "tail": Entry(MESSAGES, "messages.peek", "tail"),
    "purge": Entry(MESSAGES, "messages.purge", "purge"),
    "dlq": Entry(MESSAGES, "messages.dlq"),
    "schedule": Entry(MESSAGES, "messages.schedule"),
    "session": Entry(MESSAGES, "messages.session"),
    "entity": Entry(ENTITIES, "entities.entity"),
    "queue": Entry(ENTITIES, "entities.kinds", "queue"),
    "topic": Entry(ENTITIES, "entities.kinds", "topic"),
    "subscription": Entry(ENTITIES, "entities.kinds", "subscription"),
    "rule": Entry(ENTITIES, "entities.subscription_rule"),
    "policy": Entry(ENTITIES, "entities.policy"),
    "namespace": Entry(ENTITIES, "entities.namespace"),
    "pipeline": Entry(PIPELINES, "pipeline.group"),
    "claim": Entry(PIPELINES, "pipeline.claim"),
    "cursor": Entry(PIPELINES, "pipeline.cursor"),
    "stage": Entry(PIPELINES, "pipeline.stage"),
    "doctor": Entry(TOOLS, "doctor", "doctor"),
    "bench": Entry(TOOLS, "messages.bench", "bench"),
    "sim": Entry(TOOLS, "sim", "sim"),
    "context": Entry(TOOLS, "context"),
    "token": Entry(TOOLS, "token"),
    "version": Entry(TOOLS, "version", "version"),
}
"""In the order in which a newcomer meets them."""


class VerbsInOrder(VerbGroup):
    """Lists the verbs in the order of the table, whether they are groups or not."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=list(VERBS).index)


def command_tree(names: Iterable[str] = VERBS) -> typer.Typer:
    """The command with these verbs; without names, with all of them."""
    app = typer.Typer(
        name="partibus",
        cls=VerbsInOrder,
        help=HELP,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(partibus)
    for name in names:
        _add(app, name, VERBS[name])
    make_readable(app)
    return app


def partibus(
    is_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=version.only
        ),
    ] = False,
) -> None:
    pass


def _add(app: typer.Typer, name: str, entry: Entry) -> None:
    module = import_module(f"partibus.cli.verbs.{entry.module}")
    verb = getattr(module, entry.attribute)
    if isinstance(verb, typer.Typer):
        app.add_typer(verb, name=name, rich_help_panel=entry.panel)
    else:
        app.command(name, rich_help_panel=entry.panel)(verb)
