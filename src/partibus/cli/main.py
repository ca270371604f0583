"""The `partibus` command: the table of verbs and the words a newcomer reads first.

Owns the command tree only. A verb's module is small and imports the server or the client
when it runs, not when the table is read, so that `--help` and shell completion stay quick.
"""

import typer

from partibus.cli.verbs import cert, config, entity, fault, purge, rule, serve, store, version

HELP = """\
A self-hosted, partitioned message bus for Azure Service Bus clients.

Start one with `partibus serve` and paste the connection string that it prints into
any Azure Service Bus program. Everything a command prints for you goes to stdout; the log goes
to stderr.
"""

app = typer.Typer(
    name="partibus",
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.add_typer(entity.app, name="entity")
app.add_typer(store.app, name="store")
app.command("purge")(purge.purge)
app.add_typer(fault.app, name="fault")
app.add_typer(rule.app, name="rule")
app.add_typer(config.app, name="config")
app.add_typer(cert.app, name="cert")
app.command("version")(version.version)


def main() -> None:
    """The entry point of `partibus` and of `python -m partibus`; leaves by SystemExit."""
    app(prog_name="partibus")
