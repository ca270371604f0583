"""`partibus version`: which Partibus, on which Python, on which event loop.

Owns one line of output, meant for bug reports. Nothing is started or opened.
"""

import importlib.util
import platform

import typer

from partibus import __version__


def version() -> None:
    """Print the version of Partibus and of what it runs on."""
    has_uvloop = importlib.util.find_spec("uvloop") is not None
    loop = "uvloop" if has_uvloop else "asyncio"
    typer.echo(f"partibus {__version__} (Python {platform.python_version()}, {loop})")


def only(is_asked: bool) -> None:
    """Print the version alone, for `partibus --version`."""
    if is_asked:
        typer.echo(f"partibus {__version__}")
        raise typer.Exit
