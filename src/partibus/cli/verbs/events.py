"""`partibus events`: the events of the server, line by line.

Owns the text of each event, and the reading of the stream.
"""

import json as json_form
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from partibus.cli.asking import on_server
from partibus.cli.options import AsJson
from partibus.cli.quantities import clock_time

if TYPE_CHECKING:
    from partibus.cli.place import Place

_SILENCE_S_MAX: Final = 60.0
"""The server sends a sign of life every ten seconds."""
_OWN: Final = ("kind", "time_ms", "number")


@on_server
def events(
    place: "Place",
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Only events of this kind; repeat it for several."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after this many events.")
    ] = None,
    last: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=500, help="Begin with the last N events of each worker."
        ),
    ] = 0,
    json: AsJson = False,
) -> None:
    """Follow the events of all workers, until Ctrl-C: one line per event.

    Kinds are entity-changed, store, worker-lost, worker-restarted, worker-answers, dead-lettered,
    lock-expired, lock-lost, connection-opened, connection-closed, refused, and gap, which means
    that more happened than could be reported. Dead letters and locks come as a count for each
    entity. A cluster has node-joined, node-left, node-lost, node-answers, lane-opened,
    lane-handed-over and lane-lost.

    Example:

        partibus events --kind refused --kind store
        partibus events --last 100
    """
    for number, event in enumerate(_stream(place, kind or [], last), 1):
        typer.echo(json_form.dumps(event, ensure_ascii=False) if json else _line(event))
        if number == count:
            return


def _stream(place: "Place", kinds: list[str], last: int) -> Iterator[dict[str, Any]]:
    from partibus.cli.remote import RemoteServer

    asked = {"kind": ",".join(kinds), "last": str(last)} if kinds else {"last": str(last)}
    otherwise = "The server does not stream events; is this the right port?"
    with RemoteServer(place, _SILENCE_S_MAX).stream("/events", otherwise, asked) as response:
        while line := response.readline():
            if line.startswith(b"data: "):
                yield json_form.loads(line[6:])


def _line(event: dict[str, Any]) -> str:
    facts = " ".join(f"{name}={value}" for name, value in event.items() if name not in _OWN)
    return f"{clock_time(event['time_ms'])} {event['kind']:<18} {facts}"
