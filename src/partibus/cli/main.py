"""The `partibus` command: the table of verbs and the words a newcomer reads first.

Owns the command tree only. A verb's module is small and imports the server or the client
when it runs, not when the table is read, so that `--help` and shell completion stay quick.
"""

from typing import Annotated, Any, Final

import typer

from partibus.cli.help_pages import VerbGroup, make_readable
from partibus.cli.verbs import (
    backup,
    cert,
    clock,
    cluster,
    config,
    connection,
    context,
    doctor,
    events,
    fault,
    hosted_namespace,
    log,
    serve,
    sim,
    store,
    token,
    top,
    version,
)
from partibus.cli.verbs.entities import entity, kinds, namespace, policy, rule, subscription_rule
from partibus.cli.verbs.messages import bench, dlq, peek, purge, receive, schedule, send, session
from partibus.cli.verbs.pipeline import claim, cursor, stage
from partibus.cli.verbs.pipeline import group as pipeline

HELP = """\
A self-hosted, partitioned message bus for Azure Service Bus clients.

Start one with `partibus serve` and paste the connection string that it prints into
any Azure Service Bus program. The other commands work against Partibus and, as far as it offers
the same, against Azure Service Bus with the same connection string.

    partibus serve
    partibus queue create orders
    partibus send orders 'hello'
    partibus receive orders

Results go to stdout, all else to stderr; `--json` is for programs. If nothing connects, ask
`partibus doctor`.
"""

SERVER: Final = "The server"
MESSAGES: Final = "Messages"
ENTITIES: Final = "Entities"
PIPELINES: Final = "Pipelines"
TOOLS: Final = "Tools"

ORDER: Final = (
    *("serve", "config", "store", "cluster", "backup", "restore", "connection"),
    *("events", "top", "log"),
    *("fault", "clock"),
    *("send", "receive", "peek", "tail", "purge", "dlq", "schedule", "session"),
    *("entity", "queue", "topic", "subscription", "rule", "policy", "namespace"),
)


class VerbsInOrder(VerbGroup):
    """Lists the verbs as a newcomer meets them, whether they are groups or not."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return [*(name for name in ORDER if name in names), *(n for n in names if n not in ORDER)]


app = typer.Typer(
    name="partibus",
    cls=VerbsInOrder,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def partibus(
    is_version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=version.only
        ),
    ] = False,
) -> None:
    pass


app.command("serve", rich_help_panel=SERVER)(serve.serve)
app.add_typer(config.app, name="config", rich_help_panel=SERVER)
app.add_typer(cert.app, name="cert", rich_help_panel=SERVER)
app.add_typer(store.app, name="store", rich_help_panel=SERVER)
app.add_typer(cluster.app, name="cluster", rich_help_panel=SERVER)
app.add_typer(backup.app, name="backup", rich_help_panel=SERVER)
app.command("restore", rich_help_panel=SERVER)(backup.restore)
app.add_typer(connection.app, name="connection", rich_help_panel=SERVER)
app.command("events", rich_help_panel=SERVER)(events.events)
app.command("top", rich_help_panel=SERVER)(top.top)
app.add_typer(log.app, name="log", rich_help_panel=SERVER)
app.add_typer(fault.app, name="fault", rich_help_panel=SERVER)
app.add_typer(clock.app, name="clock", rich_help_panel=SERVER)

app.command("send", rich_help_panel=MESSAGES)(send.send)
app.command("receive", rich_help_panel=MESSAGES)(receive.receive)
app.command("peek", rich_help_panel=MESSAGES)(peek.peek)
app.command("tail", rich_help_panel=MESSAGES)(peek.tail)
app.command("purge", rich_help_panel=MESSAGES)(purge.purge)
app.add_typer(dlq.app, name="dlq", rich_help_panel=MESSAGES)
app.add_typer(schedule.app, name="schedule", rich_help_panel=MESSAGES)
app.add_typer(session.app, name="session", rich_help_panel=MESSAGES)

app.add_typer(entity.app, name="entity", rich_help_panel=ENTITIES)
app.add_typer(kinds.queue, name="queue", rich_help_panel=ENTITIES)
app.add_typer(kinds.topic, name="topic", rich_help_panel=ENTITIES)
app.add_typer(kinds.subscription, name="subscription", rich_help_panel=ENTITIES)
subscription_rule.app.add_typer(rule.app)
app.add_typer(subscription_rule.app, name="rule", rich_help_panel=ENTITIES)
app.add_typer(policy.app, name="policy", rich_help_panel=ENTITIES)
namespace.app.add_typer(hosted_namespace.app)
app.add_typer(namespace.app, name="namespace", rich_help_panel=ENTITIES)

app.add_typer(pipeline.app, name="pipeline", rich_help_panel=PIPELINES)
app.add_typer(claim.app, name="claim", rich_help_panel=PIPELINES)
app.add_typer(cursor.app, name="cursor", rich_help_panel=PIPELINES)
app.add_typer(stage.app, name="stage", rich_help_panel=PIPELINES)

app.command("doctor", rich_help_panel=TOOLS)(doctor.doctor)
app.command("bench", rich_help_panel=TOOLS)(bench.bench)
app.command("sim", rich_help_panel=TOOLS)(sim.sim)
app.add_typer(context.app, name="context", rich_help_panel=TOOLS)
app.add_typer(token.app, name="token", rich_help_panel=TOOLS)
app.command("version", rich_help_panel=TOOLS)(version.version)
make_readable(app)


def main() -> None:
    """The entry point of `partibus` and of `python -m partibus`; leaves by SystemExit."""
    try:
        result = app(prog_name="partibus", standalone_mode=False)
    except typer.Abort:
        typer.echo("partibus: nothing was done.", err=True)
        raise SystemExit(1) from None
    except Exception as error:
        raise SystemExit(_wrong_usage(error)) from None
    raise SystemExit(result if isinstance(result, int) else 0)


def _wrong_usage(error: Exception) -> int:
    """One line that says what was wrong and where to read on; no arguments at all show the help."""
    context = getattr(error, "ctx", None)
    reported = getattr(error, "format_message", None)
    if reported is None:
        raise error
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(reported(), err=True)
    else:
        path = context.command_path if context is not None else "partibus"
        text = " ".join(reported().removeprefix("Invalid value: ").split())
        typer.echo(f"partibus: {text} (see {path} --help)", err=True)
    return int(getattr(error, "exit_code", 1))
