"""Options for the fields of messages, the same in `send` and `schedule`.

Owns the flags, their help and their reading into typed values. A verb has all of them by gathering
a `message_template`.
"""

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from partibus.cli.options import PROPERTY_HELP
from partibus.cli.quantities import moment_ms, span_ms

if TYPE_CHECKING:
    from partibus.client.message import OutgoingMessage

_fields_option: Final = partial(typer.Option, rich_help_panel="Fields of each message")

MessageId = Annotated[str | None, _fields_option(metavar="ID", help="Its id.")]
SessionId = Annotated[str | None, _fields_option(metavar="ID", help="Its session.")]
PartitionKey = Annotated[str | None, _fields_option(metavar="KEY", help="Its partition key.")]
Subject = Annotated[str | None, _fields_option(metavar="TEXT", help="Subject (label).")]
CorrelationId = Annotated[str | None, _fields_option(metavar="ID", help="Its correlation id.")]
ReplyTo = Annotated[str | None, _fields_option(metavar="ENTITY", help="Where replies go.")]
ToAddress = Annotated[str | None, _fields_option("--to", metavar="TEXT", help="Its To field.")]
ContentType = Annotated[
    str | None, _fields_option(metavar="TYPE", help="For example application/json.")
]
Properties = Annotated[
    list[str] | None,
    _fields_option("--property", "-p", metavar="NAME[:TYPE]=VALUE", help=PROPERTY_HELP),
]
TimeToLive = Annotated[
    int | None,
    _fields_option(
        "--ttl",
        metavar="DURATION",
        parser=span_ms,
        help="It expires after this time: 30s, 1h30m, 2d.",
    ),
]
At = Annotated[
    int | None,
    _fields_option(
        "--at",
        metavar="TIME",
        parser=moment_ms,
        help="It becomes active at this time: 2026-01-31T12:00:00Z.",
    ),
]
Delay = Annotated[
    int | None,
    _fields_option(metavar="DURATION", parser=span_ms, help="It becomes active after this delay."),
]


def message_template(
    message_id: MessageId = None,
    session_id: SessionId = None,
    partition_key: PartitionKey = None,
    subject: Subject = None,
    content_type: ContentType = None,
    correlation_id: CorrelationId = None,
    reply_to: ReplyTo = None,
    to: ToAddress = None,
    properties: Properties = None,
    ttl: TimeToLive = None,
    at: At = None,
    delay: Delay = None,
) -> "OutgoingMessage":
    """A message without a body, with the fields of the options."""
    from partibus.cli.messages.typed_properties import read_properties
    from partibus.client.message import OutgoingMessage

    if at is not None and delay is not None:
        raise typer.BadParameter("give --at or --delay, not both.")
    return OutgoingMessage(
        message_id=message_id,
        session_id=session_id,
        partition_key=partition_key,
        subject=subject,
        content_type=content_type,
        correlation_id=correlation_id,
        reply_to=reply_to,
        to=to,
        properties=read_properties(properties or ()),
        time_to_live_ms=ttl,
        scheduled_ms=at if delay is None else round(time.time() * 1000) + delay,
    )
