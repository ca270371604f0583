"""Shell completion: names of entities and of contexts.

Owns short, silent requests: with a slow or unreachable server nothing is completed, and no error
ever reaches the command line that is being typed. Called by the shell through typer.
"""

from typing import Final

import typer

COMPLETION_SECONDS_MAX: Final = 1.0


def complete_entity(ctx: typer.Context, incomplete: str) -> list[str]:
    """The paths of entities that begin with the typed text."""
    try:
        from partibus.cli.place import find_place
        from partibus.cli.remote import RemoteServer

        given = ctx.params
        place = find_place(*map(given.get, ("connection_string", "url", "context", "ca_file")))
        answer = RemoteServer(place, COMPLETION_SECONDS_MAX).ask("GET", "/entities")
        names = [str(entity["name"]) for entity in answer["entities"]]
    except Exception:  # completion cannot report a failure
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_context(incomplete: str) -> list[str]:
    """The names of contexts that begin with the typed text."""
    try:
        from partibus.cli.contexts import load_contexts

        return [name for name in load_contexts().named if name.startswith(incomplete)]
    except Exception:  # completion cannot report a failure
        return []
