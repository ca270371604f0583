"""`partibus send`: messages from the command line, from lines, from JSON, from a file.

Owns the flags and how messages are made of them. `cli.messages.sending` sends them. Bodies are sent
as the given bytes: nothing is parsed or converted except with --jsonl.
"""

import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from partibus.cli.added_options import gathers
from partibus.cli.asking import on_server, print_answer
from partibus.cli.messages.options import message_template
from partibus.cli.options import AsJson, Destination
from partibus.cli.progress import progress_of
from partibus.cli.quantities import rate_per_s

if TYPE_CHECKING:
    from partibus.cli.place import Place
    from partibus.client.message import OutgoingMessage

_what_option: Final = partial(typer.Option, rich_help_panel="What is sent")
_how_option: Final = partial(typer.Option, rich_help_panel="Sending")
PLACEHOLDER: Final = "{n}"


@on_server
@gathers("template", message_template)
async def send(
    place: "Place",
    entity: Destination,
    body: Annotated[
        str | None,
        typer.Argument(
            metavar="BODY",
            help="The message body. Without it, each line of standard input is one message.",
        ),
    ] = None,
    file: Annotated[
        Path | None, _what_option(metavar="FILE", help="Read the body from this file, as bytes.")
    ] = None,
    input: Annotated[  # noqa: A002 - the word of the flag
        Path | None,
        _what_option(metavar="FILE", help="Read lines from this file instead of standard input."),
    ] = None,
    jsonl: Annotated[
        bool,
        _what_option(
            "--jsonl",
            help="Lines are JSON objects with body, properties and fields, as `receive` prints.",
        ),
    ] = False,
    count: Annotated[
        int,
        _what_option(
            metavar="N",
            min=1,
            help="Send the body this many times; {n} in body, id, session and key is the number.",
        ),
    ] = 1,
    *,
    template: "OutgoingMessage",
    rate: Annotated[
        float | None,
        _how_option(
            metavar="N/s", parser=rate_per_s, help="No faster than this, for example 100/s."
        ),
    ] = None,
    batch: Annotated[
        int,
        _how_option(
            metavar="N",
            min=1,
            help="Messages per batch; the bus accepts a whole batch or none of it.",
        ),
    ] = 1,
    json: AsJson = False,
) -> None:
    """Send messages to a queue or a topic.

    The command ends when the bus has confirmed every message. If it fails, what was confirmed by
    then stays sent, and the error says how many messages that is.

    Examples:

        partibus send orders 'hello'
        partibus send orders '{"id": 7}' --content-type application/json -p amount:int=5
        partibus send orders 'message {n}' --count 1000 --batch 100
        tail -f app.log | partibus send logs --rate 50/s
        partibus receive orders --max 10 | partibus send archive --jsonl
    """
    check_input(body, file, input, jsonl, count)
    if file is not None:
        content: bytes | None = file.read_bytes()
    else:
        content = None if body is None else body.encode()
    if content is not None:
        messages, total = numbered(template, content, count), count
    else:
        messages, total = from_lines(template, input, jsonl), None
    sent, seconds = await _send(place, entity, messages, total, batch, rate)
    answer = {"entity": entity, "sent": sent, "seconds": round(seconds, 3)}
    print_answer(answer, json, f"{entity}: {sent} {'message' if sent == 1 else 'messages'} sent")


def check_input(
    body: str | None, file: Path | None, lines: Path | None, jsonl: bool, count: int
) -> None:
    """Exactly one source, and a usable one."""
    import sys

    if body is not None and file is not None:
        raise typer.BadParameter("give a body or --file, not both.")
    if (body is not None or file is not None) and (lines is not None or jsonl):
        raise typer.BadParameter(
            "a body or --file is a single message; it cannot be combined with --input or --jsonl."
        )
    if body is None and file is None:
        if count != 1:
            raise typer.BadParameter("--count needs a body or --file.")
        if lines is None and sys.stdin.isatty():
            raise typer.BadParameter(
                "there is no body: give one (partibus send ENTITY 'hello'), or pipe lines in."
            )


async def numbered(
    template: "OutgoingMessage", body: bytes, count: int
) -> "AsyncIterator[OutgoingMessage]":
    """The same message this many times; {n} is then the number of each."""
    from dataclasses import replace

    for number in range(count):
        if count == 1:
            yield replace(template, body=body)
            continue
        word = str(number)
        names = ("message_id", "session_id", "partition_key")
        given = {name: getattr(template, name) for name in names}
        filled = {k: v.replace(PLACEHOLDER, word) for k, v in given.items() if v is not None}
        yield replace(template, body=body.replace(PLACEHOLDER.encode(), word.encode()), **filled)


async def from_lines(
    template: "OutgoingMessage", file: Path | None, jsonl: bool
) -> "AsyncIterator[OutgoingMessage]":
    """A message for each line; fields missing in a line of JSON come from the options."""
    from dataclasses import replace

    from partibus.cli.input_lines import lines_of
    from partibus.client.messages.json_form import message_from_line

    async for number, line in lines_of(file):
        if not jsonl:
            yield replace(template, body=line)
            continue
        where = f"{file or 'standard input'}, line {number}"
        yield completed(message_from_line(line.decode(errors="replace"), where), template)


def completed(message: "OutgoingMessage", template: "OutgoingMessage") -> "OutgoingMessage":
    """A message with missing fields taken from the template."""
    from dataclasses import fields

    for field in fields(template):
        if field.name in ("body", "body_type"):
            continue
        if field.name == "properties":
            message.properties = template.properties | message.properties
        elif getattr(message, field.name) is None:
            setattr(message, field.name, getattr(template, field.name))
    return message


async def _send(
    place: "Place",
    entity: str,
    messages: "AsyncIterator[OutgoingMessage]",
    total: int | None,
    batch: int,
    rate: float | None,
) -> tuple[int, float]:
    from partibus.cli.failures import CommandFailed, translated
    from partibus.cli.messages.sending import MessageStream, send_stream
    from partibus.client.messages.pacing import Pacer

    async with place.open() as bus:
        stream = MessageStream(await bus.sender(entity), batch, Pacer(rate))
        start = time.monotonic()
        with progress_of(f"sending to {entity}", total) as advance:
            try:
                await send_stream(stream, messages, advance)
            except Exception as error:
                failed = translated(error)
                if failed is None or not stream.confirmed:
                    raise
                text = f"{failed.text} (sent before: {stream.confirmed})"
                raise CommandFailed(text, failed.exit_code) from error
        return stream.confirmed, time.monotonic() - start
