"""`partibus token ...`: shared access signatures for programs that cannot make their own.

Owns the texts about a token. No server is needed: a token is made from the key of the connection
string (SAS-5), and the bus decides whether it is valid.
"""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from partibus.cli.asking import on_server, print_answer
from partibus.cli.completion import complete_entity
from partibus.cli.options import AsJson
from partibus.cli.quantities import span_ms
from partibus.domain.quantities import format_moment

if TYPE_CHECKING:
    from partibus.cli.place import Place

app = typer.Typer(help="Create shared access signatures.", no_args_is_help=True)


@app.command()
@on_server
def create(
    place: "Place",
    entity: Annotated[
        str,
        typer.Argument(
            help="The entity it is for; by default it is valid for the whole namespace.",
            autocompletion=complete_entity,
            show_default=False,
        ),
    ] = "",
    lasting: Annotated[
        int, typer.Option("--for", metavar="DURATION", parser=span_ms, help="How long it is valid.")
    ] = "1h",  # type: ignore[assignment]  # read by the parser
    http: Annotated[
        bool, typer.Option("--http", help="For a request over HTTP: the resource is its URL.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Create a SAS token with the policy and key of the connection string.

    It has the rights of that policy, for this entity and everything below it. It cannot be
    revoked before it expires, except by changing the key.

    Examples:

        partibus token create orders --for 15m
        curl -H "Authorization: $(partibus token create --http)" -d hello \\
            http://localhost:5672/orders/messages
    """
    from partibus.cli.failures import CommandFailed
    from partibus.client.cbs import sas_token
    from partibus.server.failure import EXIT_USAGE

    connection = place.connection
    if connection.token is not None:
        text = "the connection string has a ready-made token and no key to sign a new one with."
        raise CommandFailed(text, EXIT_USAGE)
    resource = f"{place.url}/{entity}" if http else connection.audience(entity)
    expires_s = int(time.time()) + max(1, lasting // 1000)
    made = sas_token(resource, connection.policy, connection.key, expires_s)
    answer = {
        "token": made,
        "resource": resource,
        "policy": connection.policy,
        "expires_at": format_moment(expires_s * 1000),
    }
    print_answer(answer, json, made)
