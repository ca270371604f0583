"""`partibus bench`: how fast is this bus, from here?

Owns the flags and the report. `cli.messages.benchmark` makes the load. It is a quick measurement,
not a full benchmark: one process sends and receives.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from partibus.cli.asking import on_server, print_json
from partibus.cli.confirming import confirm
from partibus.cli.options import AsJson, Destination, Yes
from partibus.cli.progress import progress_of
from partibus.cli.quantities import rate_per_s, size_bytes

if TYPE_CHECKING:
    from partibus.cli.place import Place


@on_server
async def bench(
    place: "Place",
    entity: Destination,
    messages: Annotated[
        int, typer.Option("--messages", "-n", metavar="N", min=1, help="How many messages.")
    ] = 10_000,
    size: Annotated[
        int, typer.Option(metavar="BYTES", parser=size_bytes, help="Bytes of a body: 1k, 64k, 1m.")
    ] = "1k",  # type: ignore[assignment]  # read by the parser
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Messages per batch.")] = 1,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="N/s",
            parser=rate_per_s,
            help="Send no faster than this; measures latency without queueing.",
        ),
    ] = None,
    receive_from: Annotated[
        str | None, typer.Option(metavar="ENTITY", help="Receive here, if the entity is a topic.")
    ] = None,
    send_only: Annotated[
        bool, typer.Option("--send-only", help="Leave the messages in the queue.")
    ] = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Send messages through an entity, receive them back, and report rates and latencies.

    Every message is confirmed when it is durable, and completed when it is received. The entity
    should be empty and have no other receivers; messages that are not part of the run are
    abandoned.

    Examples:

        partibus bench orders
        partibus bench orders -n 100000 --size 4k --batch 100
        partibus bench orders --rate 500/s --json
    """
    from partibus.cli.messages.benchmark import Load

    source = receive_from or entity
    if not send_only and await _is_used(place, source):
        confirm(f"{source} contains other messages, which would be counted. Continue?", yes)
    load = Load(
        entity=entity,
        receive_from=source,
        count=messages,
        size=size,
        batch=batch,
        rate_per_s=rate,
        with_receiver=not send_only,
    )
    with progress_of(f"bench {entity}", messages) as advance:
        try:
            await load.run(place, advance)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
    if json:
        print_json(load.report())
    else:
        _print(load.report())
    if not send_only and load.received < load.count:
        from partibus.cli.failures import CommandFailed

        raise CommandFailed(f"{load.count - load.received} messages were not received.")


async def _is_used(place: "Place", path: str) -> bool:
    async with place.open() as bus:
        return bool(await (await bus.management(path)).peek(0, 1))


def _print(found: dict[str, Any]) -> None:
    each = f"{found['bytes_each']} bytes each, batches of {found['batch']}"
    typer.echo(f"{found['entity']}: {found['messages']} messages, {each}")
    typer.echo(
        f"sent      {found['send_per_s']:>12,.0f} messages/s  ({found['send_seconds']:.2f} s)"
    )
    if "received" in found:
        typer.echo(f"received  {found['receive_per_s']:>12,.0f} messages/s")
        spoken = "  ".join(f"{name} {value:,.1f} ms" for name, value in found["latency_ms"].items())
        typer.echo(f"latency   {spoken}")
