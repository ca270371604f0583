"""Options that several verbs share, with the same text everywhere.

Owns the flags that select a server and the output format, and the argument that names an entity. A
verb uses them as the types of its parameters. It must never read or open anything.
"""

from functools import partial
from typing import Annotated, Any, Final, Literal

import typer

from partibus.cli.completion import complete_context, complete_entity

_server_option: Final = partial(typer.Option, rich_help_panel="Which server")

ConnectionString = Annotated[
    str | None,
    _server_option(
        metavar="TEXT",
        help="The connection string of the bus, as `partibus serve` prints it or the Azure portal"
        " shows it. Variable: PARTIBUS_CONNECTION_STRING. The default is the server of this machine"
        " on port 5672, with the development key.",
    ),
]
Url = Annotated[
    str | None,
    _server_option(
        metavar="URL",
        help="Where the server answers HTTP, if not at the endpoint of the connection string;"
        " the key still comes from there. Variable: PARTIBUS_URL.",
    ),
]
ContextName = Annotated[
    str | None,
    _server_option(
        metavar="NAME",
        help="A connection saved with `partibus context add`. Variable: PARTIBUS_CONTEXT.",
        autocompletion=complete_context,
    ),
]
CaFile = Annotated[
    str | None,
    _server_option(
        metavar="FILE",
        help="Also trust this certificate authority (PEM), for TLS with your own certificate."
        " Variable: PARTIBUS_CA_FILE.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ShownMax = Annotated[int, typer.Option(metavar="N", min=1, help="Show at most this many.")]
ShowsAll = Annotated[bool, typer.Option("--all", help="Show all.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def _entity(help_text: str) -> Any:
    return typer.Argument(
        metavar="ENTITY", help=help_text, autocompletion=complete_entity, show_default=False
    )


Entity = Annotated[str, _entity("A queue, or a subscription: TOPIC/Subscriptions/NAME.")]
Destination = Annotated[str, _entity("A queue or a topic.")]
AnyEntity = Annotated[
    str, _entity("A queue, a topic, or a subscription: TOPIC/Subscriptions/NAME.")
]
DeadLetter = Annotated[
    bool, typer.Option("--dead-letter", help="Use the entity's dead-letter queue instead.")
]
Session = Annotated[
    str | None, typer.Option("--session-id", metavar="ID", help="Only this session.")
]
LookOption = Annotated[
    Literal["text", "json", "body"] | None,
    typer.Option(
        "--format",
        help="text: one line per message; json: one object per line; body: only the bodies."
        " (default text on a terminal, json in a pipe)",
    ),
]
PROPERTY_HELP: Final = (
    "An application property; repeat for each. Text, unless a type is given: int, long,"
    " double, bool, time, duration, uuid or null, as in -p amount:int=5."
)
"""The same text in every verb, since the meaning is the same (`cli.messages.typed_properties`)."""
