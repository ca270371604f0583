"""Asking before something that cannot be undone.

Owns the question and what happens without a terminal: then the command fails unless --yes was
given. Called by the verbs that delete or send again.
"""

import sys

import typer


def confirm(question: str, yes: bool) -> None:
    """Ask; continue, or end the program."""
    if yes:
        return
    from partibus.cli.failures import CommandFailed
    from partibus.server.failure import EXIT_USAGE

    if not sys.stdin.isatty():
        raise CommandFailed(
            "there is no terminal to confirm on; give --yes to continue.", EXIT_USAGE
        )
    typer.confirm(question, abort=True)
