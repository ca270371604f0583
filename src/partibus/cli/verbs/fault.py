"""`partibus fault ...`: break the bus on purpose, to test how your program copes.

Owns the texts and flags of every fault. The server injects the fault, only if it was started with
`--faults`; here the flags become a request, and the answer is printed.
"""

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from partibus.cli.asking import on_server, server_at
from partibus.cli.options import AsJson, Entity
from partibus.cli.quantities import format_span, rate_per_s, span_ms
from partibus.cli.tables import print_list

if TYPE_CHECKING:
    from partibus.cli.place import Place

HELP: Final = """\
Inject faults into the bus, to test your own program.

Works only with a server that was started with `partibus serve --faults`. A fault
ends by itself after `--for`, by `partibus fault clear`, or with the server.

    partibus fault store 1 down --for 30s
    partibus fault latency --rtt 70ms --store 10ms
    partibus fault throttle orders --rate 100/s
    partibus fault locks orders drop
"""
app = typer.Typer(help=HELP, no_args_is_help=True)

_SLOW: Final = re.compile(r"slow=(.+)")
_MODES: Final = ("down", "up", "full")

For = Annotated[
    int | None,
    typer.Option(
        "--for",
        metavar="DURATION",
        parser=span_ms,
        help="End it automatically after this time, for example 30s. (default: until it is "
        "cleared)",
    ),
]


@app.command()
@on_server
def store(
    place: "Place",
    number: Annotated[int, typer.Argument(metavar="ID", help="Number of the store, from 0.")],
    mode: Annotated[
        str, typer.Argument(metavar="down|up|full|slow=MS", help="How it behaves from now on.")
    ],
    lasting: For = None,
) -> None:
    """Make a store fail, fill up or slow down; `up` ends that.

    down refuses every write with an input/output error, full with no space left, slow=50 takes
    50 ms longer for each commit. Sends without a key continue, to fragments in other stores; sends
    with a key fail when their fragment is in this one. After the fault the store recovers within
    about a second, without a restart.
    """
    word, delay_ms = _mode(mode)
    fault = {"kind": "store", "store": number, "mode": word, "delay_ms": delay_ms}
    _ask(fault, lasting, place)
    if word == "up":
        typer.echo(f"store {number}: fault cleared")
    else:
        typer.echo(f"store {number}: {mode}{_until(lasting)}")


@app.command()
@on_server
def worker(
    place: "Place",
    number: Annotated[int, typer.Argument(metavar="ID", help="Number of the worker, from 0.")],
    action: Annotated[Literal["kill"], typer.Argument(metavar="kill", help="What to do to it.")],
) -> None:
    """Kill a worker process, as a crash would.

    The server starts it again and recovers its fragments; the others continue. Clients that were
    connected to it reconnect, to any worker. A server with one worker refuses this.
    """
    _ask({"kind": "worker", "worker": number}, None, place)
    typer.echo(f"worker {number}: killed")


@app.command()
@on_server
def latency(
    place: "Place",
    rtt: Annotated[
        int | None,
        typer.Option(metavar="DURATION", parser=span_ms, help="Added to each round trip."),
    ] = None,
    store: Annotated[
        int | None, typer.Option(metavar="DURATION", parser=span_ms, help="Added to each commit.")
    ] = None,
    lasting: For = None,
) -> None:
    """Add latency between the clients and the bus, or between the bus and its disks.

    Everything the server writes to a client is delayed by --rtt, in order; every commit takes
    longer by --store. This shows, on your own machine, what sending one message at a time costs
    with a bus that is far away.
    """
    if rtt is None and store is None:
        raise typer.BadParameter("give --rtt, --store, or both, for example --rtt 70ms")
    fault = {"kind": "latency", "rtt_ms": rtt or 0, "store_ms": store or 0}
    _ask(fault, lasting, place)
    typer.echo(f"latency: {_described(fault)[1]}{_until(lasting)}")


@app.command()
@on_server
def throttle(
    place: "Place",
    entity: Annotated[str, typer.Argument(help="Name of a queue or topic.")],
    rate: Annotated[
        float,
        typer.Option(metavar="N/s", parser=rate_per_s, help="Sends that pass, for example 100/s."),
    ],
    lasting: For = None,
) -> None:
    """Refuse sends to an entity above a rate, as the cloud service does when it is busy.

    Sends above the rate are refused with com.microsoft:server-busy, which the SDKs raise as
    ServiceBusServerBusyError after their own retries. A batch counts as one send. Each worker
    counts for itself. `partibus fault list` shows how many were refused.
    """
    fault = {"kind": "throttle", "entity": entity, "rate_per_s": rate}
    _ask(fault, lasting, place)
    typer.echo(f"throttle {entity}: {rate:g} sends a second pass{_until(lasting)}")


@app.command()
@on_server
def locks(
    place: "Place",
    entity: Entity,
    action: Annotated[Literal["drop"], typer.Argument(metavar="drop", help="What to do to them.")],
) -> None:
    """Lose all locks of an entity at once.

    Its locked messages can be received again, with their delivery count raised by one; a receiver
    that settles one gets MessageLockLostError, as it does when processing takes too long.
    """
    answer = _ask({"kind": "locks", "entity": entity}, None, place)
    typer.echo(f"locks {entity}: {answer['count']} dropped")


@app.command()
@on_server
def connections(
    place: "Place",
    action: Annotated[Literal["close"], typer.Argument(metavar="close", help="What to do.")],
) -> None:
    """Close every client connection with amqp:connection:forced.

    Clients may reconnect immediately; the SDKs do so by themselves. Locks outlive the
    connection.
    """
    answer = _ask({"kind": "connections"}, None, place)
    typer.echo(f"connections: {answer['count']} closed")


@app.command("list")
@on_server
def list_faults(place: "Place", json: AsJson = False) -> None:
    """List the active faults, with the time left of each."""
    answer = server_at(place).ask("GET", "/faults")
    print_list(
        answer,
        json,
        ("fault", "does", "left", "refused"),
        ((*_described(f), _left(f), f["refused"]) for f in answer["faults"]),
        text_columns=("fault", "does"),
        nothing="No faults are active.",
    )


@app.command()
@on_server
def clear(place: "Place") -> None:
    """End every fault."""
    cleared = server_at(place).ask("DELETE", "/faults")["cleared"]
    typer.echo(f"cleared: {', '.join(cleared)}" if cleared else "No faults were active.")


# --- requests and words -----------------------------------------------------------------------


def _ask(fault: dict[str, Any], lasting: int | None, place: "Place") -> dict[str, Any]:
    body = fault if lasting is None else {**fault, "for_ms": lasting}
    return server_at(place).ask("POST", "/faults", body)


def _mode(text: str) -> tuple[str, int]:
    """The mode and, for slow=MS, its delay; a number without a unit is in milliseconds."""
    if text in _MODES:
        return text, 0
    match = _SLOW.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"'{text}' is not valid; expected down, up, full or slow=MS.")
    return "slow", span_ms(f"{match[1]}ms" if match[1].isdigit() else match[1])


def _until(lasting: int | None) -> str:
    return "" if lasting is None else f", for {format_span(lasting)}"


def _left(fault: dict[str, Any]) -> str:
    return "until cleared" if fault["left_ms"] is None else format_span(fault["left_ms"])


def _described(fault: dict[str, Any]) -> tuple[str, str]:
    if fault["kind"] == "store":
        slow = f" by {format_span(fault['delay_ms'])} a commit" if fault["delay_ms"] else ""
        return f"store {fault['store']}", f"{fault['mode']}{slow}"
    if fault["kind"] == "latency":
        rtt, commit = format_span(fault["rtt_ms"]), format_span(fault["store_ms"])
        return "latency", f"{rtt} a round trip, {commit} a commit"
    return f"throttle {fault['entity']}", f"{fault['rate_per_s']:g} sends a second pass"
