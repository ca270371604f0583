"""From a verb's options to the server's answer, or to an exit.

Owns how a failure is told: one line on stderr that begins with the name of the program, and
the exit code of `remote`. Called by every verb that talks to a server.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from partibus.cli.remote import Answer, RemoteServer


@contextmanager
def server_of(connection_string: str | None, url: str | None) -> Iterator["RemoteServer"]:
    """The server that the options mean; an error inside ends the program with its code."""
    from partibus.cli.remote import RemoteError, RemoteServer, find_target

    try:
        yield RemoteServer(find_target(connection_string, url))
    except RemoteError as error:
        typer.echo(f"partibus: {' '.join(error.text.split())}", err=True)
        raise typer.Exit(error.exit_code) from error


def print_json(answer: "Answer") -> None:
    """An answer for programs; people like it indented too."""
    typer.echo(json.dumps(answer, indent=2))
