"""`partibus version`: which Partibus, compiled or not, on which Python, on which event loop.

Owns one line of output, meant for bug reports, and its JSON form for programs. It must never start
or open anything.
"""

import importlib.util
import platform

import typer

from partibus import __version__
from partibus.cli.asking import print_json
from partibus.cli.options import AsJson
from partibus.ops.compiled import is_compiled


def version(json: AsJson = False) -> None:
    """Print the version of Partibus and of what it runs on.

    Compiled modules make the server faster and change nothing else.

    Examples:

        partibus version
        partibus version --json
    """
    has_uvloop = importlib.util.find_spec("uvloop") is not None
    loop = "uvloop" if has_uvloop else "asyncio"
    python = platform.python_version()
    if json:
        known = {"version": __version__, "compiled": is_compiled(), "python": python, "loop": loop}
        print_json(known)
        return
    typer.echo(f"partibus {__version__} (Python {python}, {loop}, {_form()})")


def only(is_asked: bool) -> None:
    """Print the version and the form of the hot modules, for `partibus --version`."""
    if is_asked:
        typer.echo(f"partibus {__version__} ({_form()})")
        raise typer.Exit


def _form() -> str:
    return "compiled" if is_compiled() else "interpreted"
