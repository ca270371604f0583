"""Application properties as typed on a command line: name=value, or name:type=value.

Owns the reading of `--property` into AMQP values. Text is the default; a type is said, never
guessed, since filters tell 5 from "5". Called by the verbs that send.
"""

import uuid
from collections.abc import Callable, Iterable
from typing import Final

import typer

from partibus.amqp.types import Int, Timestamp
from partibus.cli.quantities import moment_ms

_TRUTH: Final = {"true": True, "false": False}


def _truth(text: str) -> bool:
    return _TRUTH[text.lower()]


TYPES: Final[dict[str, Callable[[str], object]]] = {
    "string": str,
    "int": lambda text: Int(int(text)),
    "long": int,
    "double": float,
    "bool": _truth,
    "time": lambda text: Timestamp(moment_ms(text)),
    "uuid": uuid.UUID,
    "guid": uuid.UUID,
}


def read_properties(given: Iterable[str]) -> dict[str, object]:
    """The properties of all `--property` options; the last of one name wins."""
    return dict(_read(text) for text in given)


def _read(text: str) -> tuple[str, object]:
    head, equals, value = text.partition("=")
    name, _, kind = head.partition(":")
    if not equals or not name:
        raise typer.BadParameter(f"'{text}' is no property; write name=value or name:int=5.")
    read = TYPES.get(kind or "string")
    if read is None:
        raise typer.BadParameter(f"'{kind}' is no type; there are {', '.join(TYPES)}.")
    try:
        return name, read(value)
    except (ValueError, KeyError) as error:
        raise typer.BadParameter(f"'{value}' is no {kind}, in --property {text}.") from error
