"""The `partibus` command: finds the verb, and reports wrong usage in one line.

Owns only the entry point. The verbs are in `verb_table`.
"""

import sys
from collections.abc import Iterable, Sequence

import typer

from partibus.cli.verb_table import VERBS, command_tree


def main() -> None:
    """The entry point of `partibus` and of `python -m partibus`; leaves by SystemExit."""
    try:
        result = command_tree(wanted(sys.argv[1:]))(prog_name="partibus", standalone_mode=False)
    except typer.Abort:
        typer.echo("partibus: nothing was done.", err=True)
        raise SystemExit(1) from None
    except Exception as error:
        raise SystemExit(_wrong_usage(error)) from None
    raise SystemExit(result if isinstance(result, int) else 0)


def wanted(arguments: Sequence[str]) -> Iterable[str]:
    """The verb that is named first; all verbs for anything else."""
    return arguments[:1] if arguments and arguments[0] in VERBS else VERBS


def _wrong_usage(error: Exception) -> int:
    """One line with the mistake and where to find help; without arguments the help is shown."""
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
