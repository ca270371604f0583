"""Options that give fields to messages: for `send` and `schedule`, in the same words.

Owns the flags, their help and their reading into typed values. A verb uses them as the types
of its parameters and hands their values to `make_template`.
"""

from functools import partial
from typing import Annotated, Final

import typer

from partibus.cli.options import PROPERTY_HELP
from partibus.cli.quantities import moment_ms, span_ms

_fields_option: Final = partial(typer.Option, rich_help_panel="Fields of each message")

MessageId = Annotated[str | None, _fields_option(metavar="ID", help="Its id.")]
SessionId = Annotated[str | None, _fields_option(metavar="ID", help="Its session.")]
PartitionKey = Annotated[str | None, _fields_option(metavar="KEY", help="Its partition key.")]
Subject = Annotated[str | None, _fields_option(metavar="TEXT", help="Subject (label).")]
CorrelationId = Annotated[str | None, _fields_option(metavar="ID", help="Its correlation id.")]
ReplyTo = Annotated[str | None, _fields_option(metavar="ENTITY", help="Where answers go.")]
ToAddress = Annotated[str | None, _fields_option("--to", metavar="TEXT", help="Its field To.")]
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
