"""Options that give fields to messages: for `send` and `schedule`, in the same words.

Owns the flags, their help and their reading into typed values. A verb uses them as the types
of its parameters and hands their values to `make_template`.
"""

from typing import Annotated, Final

import typer

from partibus.cli.options import PROPERTY_HELP
from partibus.cli.quantities import moment_ms, span_ms

_FIELDS: Final = "Fields of each message"

MessageId = Annotated[
    str | None, typer.Option(metavar="ID", help="Its id.", rich_help_panel=_FIELDS)
]
SessionId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Its session.", rich_help_panel=_FIELDS),
]
PartitionKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="Its partition key.", rich_help_panel=_FIELDS)
]
Subject = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Its subject, or label.", rich_help_panel=_FIELDS)
]
CorrelationId = Annotated[
    str | None, typer.Option(metavar="ID", help="Its correlation id.", rich_help_panel=_FIELDS)
]
ReplyTo = Annotated[
    str | None, typer.Option(metavar="ENTITY", help="Where answers go.", rich_help_panel=_FIELDS)
]
ToAddress = Annotated[
    str | None, typer.Option("--to", metavar="TEXT", help="Its field To.", rich_help_panel=_FIELDS)
]
ContentType = Annotated[
    str | None,
    typer.Option(metavar="TYPE", help="For example application/json.", rich_help_panel=_FIELDS),
]
Properties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-p",
        metavar="NAME[:TYPE]=VALUE",
        help=PROPERTY_HELP,
        rich_help_panel=_FIELDS,
    ),
]
TimeToLive = Annotated[
    int | None,
    typer.Option(
        "--ttl",
        metavar="DURATION",
        parser=span_ms,
        help="It expires after so long: 30s, 1h30m, 2d.",
        rich_help_panel=_FIELDS,
        show_default=False,
    ),
]
At = Annotated[
    int | None,
    typer.Option(
        "--at",
        metavar="TIME",
        parser=moment_ms,
        help="It becomes active at this time: 2026-01-31T12:00:00Z.",
        rich_help_panel=_FIELDS,
        show_default=False,
    ),
]
Delay = Annotated[
    int | None,
    typer.Option(
        metavar="DURATION",
        parser=span_ms,
        help="It becomes active after so long.",
        rich_help_panel=_FIELDS,
        show_default=False,
    ),
]
