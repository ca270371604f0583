"""`partibus context ...`: named connections, so that no key is in a command line.

Owns the texts of adding, selecting, listing and removing. `cli.contexts` owns the file and its
permissions; a key must never be printed.
"""

import sys
from typing import Annotated

import typer

from partibus.cli.completion import complete_context
from partibus.cli.options import AsJson
from partibus.cli.tables import print_list

app = typer.Typer(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the context.", autocompletion=complete_context)]


@app.callback()
def context() -> None:
    """Save connections under a name.

    A context is a connection string with a name, kept in a file that only you can read. One of
    them is the current one: commands use it unless an option or a variable selects another.

        partibus context add prod
        partibus context use prod
        partibus send orders 'hello' --context prod
    """


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the context.")],
    connection_string: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Better left out: it is then prompted for or read from standard input, and stays "
            "out of your shell history.",
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The HTTP address, if it differs.")
    ] = None,
    ca_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Also trust this certificate authority.")
    ] = None,
    use: Annotated[bool, typer.Option("--use", help="Make it the current context.")] = False,
) -> None:
    """Save a connection under a name; the first becomes the current one.

    Examples:

        partibus context add local --connection-string "$PARTIBUS_CONNECTION_STRING"
        pass show bus/prod | partibus context add prod --use
    """
    from pathlib import Path

    from partibus.cli.contexts import NAME, Context, load_contexts, save_contexts
    from partibus.cli.failures import reported
    from partibus.cli.place import checked_url
    from partibus.client.connection_string import parse_connection_string

    with reported():
        if not NAME.fullmatch(name):
            raise typer.BadParameter("a name may contain letters, digits, '.', '_' and '-'.")
        text = (connection_string or _asked()).strip()
        connection = parse_connection_string(text)
        contexts = load_contexts()
        trusted = None if ca_file is None else str(Path(ca_file).resolve(strict=True))
        contexts.named[name] = Context(
            connection_string=text, url=None if url is None else checked_url(url), ca_file=trusted
        )
        if use or len(contexts.named) == 1:
            contexts.current = name
        file = save_contexts(contexts)
        current = ", the current context" if contexts.current == name else ""
        typer.echo(f"{name}: {connection.host}{current} (kept in {file})")


def _asked() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Connection string", hide_input=True))
    return sys.stdin.readline()


@app.command()
def use(name: Name) -> None:
    """Make a context the current one."""
    from partibus.cli.contexts import load_contexts, save_contexts
    from partibus.cli.failures import reported

    with reported():
        contexts = load_contexts()
        contexts.get(name)
        contexts.current = name
        save_contexts(contexts)
        typer.echo(f"{name} is the current context")


@app.command()
def remove(name: Name) -> None:
    """Forget a context and its key."""
    from partibus.cli.contexts import load_contexts, save_contexts
    from partibus.cli.failures import reported

    with reported():
        contexts = load_contexts()
        contexts.get(name)
        del contexts.named[name]
        if contexts.current == name:
            contexts.current = None
        save_contexts(contexts)
        typer.echo(f"{name} is forgotten")


@app.command("list")
def list_contexts(json: AsJson = False) -> None:
    """List the contexts; keys are never shown."""
    from partibus.cli.contexts import contexts_file, is_private, load_contexts
    from partibus.cli.failures import reported, say

    with reported():
        contexts = load_contexts()
        found = [_shown(name, contexts.current) for name in sorted(contexts.named)]
        columns = ("", "name", "amqp", "http", "policy")
        print_list(
            {"contexts": found},
            json,
            columns,
            (("*" if one["current"] else "", *(one[c] for c in columns[1:])) for one in found),
            text_columns=columns,
            nothing="There are no contexts. Create one with: partibus context add NAME",
        )
        if not is_private(contexts_file()):
            say(f"other users can read {contexts_file()}; fix it with: chmod 600 {contexts_file()}")


def _shown(name: str, current: str | None) -> dict[str, object]:
    from partibus.cli.place import find_place

    place = find_place(None, None, name)
    return {
        "name": name,
        "current": name == current,
        "amqp": place.amqp,
        "http": place.url,
        "policy": place.connection.policy or "(a ready-made token)",
        "ca_file": place.ca_file,
    }
