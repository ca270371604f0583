"""Options that several verbs share, in the same words everywhere.

Owns the flags that say which server is meant and how the answer is printed. A verb uses
them as the types of its parameters. Nothing is read or opened here.
"""

from typing import Annotated, Final

import typer

_SERVER: Final = "Which server"

ConnectionString = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        envvar="PARTIBUS_CONNECTION_STRING",
        help="The connection string that `partibus serve` printed. Without one, the server of this"
        " machine on port 5672 with the development key is meant.",
        rich_help_panel=_SERVER,
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="PARTIBUS_URL",
        help="Where the server answers HTTP, if not at the endpoint of the connection string;"
        " the key still comes from there.",
        rich_help_panel=_SERVER,
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
