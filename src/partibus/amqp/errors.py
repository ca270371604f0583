"""Errors as sent in AMQP [2.8.14], and how the engine signals a violated rule.

Owns `AmqpError`, the value that close, end, detach and rejected carry, and the exceptions
that say how much of a connection a peer's mistake costs: a link, a session, or all of it.
The exceptions never leave the engine; its owner sees events.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec import encode
from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.text import is_text, text_of
from partibus.amqp.codec.types import Described, Pairs, Symbol

if TYPE_CHECKING:
    from partibus.amqp.link import Link

_ERROR: Final = 0x1D


@dataclass(repr=False, unsafe_hash=True)
class AmqpError:
    """A condition, a text for people and, rarely, a map of details."""

    condition: str
    description: str = ""
    info: dict[str, object] | None = field(default=None, hash=False)

    def __repr__(self) -> str:
        return f"AmqpError({self.condition!r}, {self.description!r}, {self.info!r})"

    def encode(self) -> bytes:
        """All three fields, always: the Python client indexes them (amqp-contract 4.2)."""
        info = encode.ENCODED_NULL if self.info is None else encode_symbol_map(self.info)
        fields = [encode.encode_symbol(self.condition), encode.encode_str(self.description), info]
        return encode.encode_described_list(_ERROR, fields)


def encode_symbol_map(items: dict[str, object]) -> bytes:
    """The `fields` type [2.8.20]: a map whose keys are symbols."""
    return encode.encode_value({Symbol(key): value for key, value in items.items()})


def error_from_value(value: object) -> AmqpError | None:
    """The error in a decoded field; None for null, DecodeError for anything else."""
    if value is None:
        return None
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError("an error is not a described list")
    fields = value.value
    condition = fields[0] if fields else None
    if not isinstance(condition, str):
        raise DecodeError("an error has no condition")
    description = fields[1] if len(fields) > 1 else None
    info = fields[2] if len(fields) > 2 else None
    return AmqpError(
        str(condition),
        description if isinstance(description, str) else "",
        None if info is None else string_keyed(info),
    )


def string_keyed(value: object) -> dict[str, object]:
    """A decoded map with its keys as plain `str`; those that are not text are dropped."""
    if value is None:
        return {}
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, Pairs):
        pairs = value.items
    else:
        raise DecodeError("a map was expected")
    return {text_of(key) or "": item for key, item in pairs if is_text(key)}


class ProtocolError(Exception):
    """The peer violated a rule; the connection ends."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.error = AmqpError(condition, description)


class SessionError(ProtocolError):
    """The peer violated a rule; the session ends."""


class LinkError(ProtocolError):
    """The peer violated a rule; one link ends."""

    def __init__(self, link: "Link", condition: str, description: str) -> None:
        super().__init__(condition, description)
        self.link = link
