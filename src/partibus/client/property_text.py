"""Application properties as text with a type beside it, and back, without loss.

Owns the names of the AMQP types and the text of each: Spark's maps have one type of value, so a
property is its text in one map and its type in another. Values without a text form are in base64.
"""

import base64
import datetime
import uuid
from collections.abc import Callable
from typing import Any, Final

from partibus.amqp.codec import types as amqp
from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.domain.moments import EPOCH, timestamp_ms

_MILLISECOND: Final = datetime.timedelta(milliseconds=1)

# The most specific class first: a symbol is a string too, and every number is an int.
_NAMES: Final[dict[type, str]] = {
    amqp.Symbol: "symbol",
    amqp.Char: "char",
    amqp.Timestamp: "timestamp",
    amqp.UByte: "ubyte",
    amqp.UShort: "ushort",
    amqp.UInt: "uint",
    amqp.ULong: "ulong",
    amqp.Byte: "byte",
    amqp.Short: "short",
    amqp.Int: "int",
    amqp.Long: "long",
    amqp.Float: "float",
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "binary",
    uuid.UUID: "uuid",
}


def to_text(value: object) -> tuple[str | None, str]:
    """A property's value as text, and the name of its type."""
    if value is None:
        return None, "null"
    name = _NAMES.get(type(value))
    if name is None:
        return base64.b64encode(encode_value(value)).decode(), "encoded"
    if name == "timestamp":
        assert isinstance(value, int)
        return _moment_text(value), name
    if name == "boolean":
        return ("true" if value else "false"), name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode(), name
    return (repr(float(value)) if isinstance(value, float) else str(value)), name


def from_text(text: str | None, name: str | None) -> object:
    """The value from its text; ValueError when the text does not fit the type."""
    if text is None or name == "null":
        return None
    reader = _READERS.get(name or "string")
    if reader is None:
        raise ValueError(f"there is no property type '{name}'")
    return reader(text)


def typed(value: object, name: str) -> object:
    """A plain value in a given type, where Python's own is not specific enough."""
    maker = _MAKERS.get(name)
    return value if maker is None else maker(value)


def _moment_text(time_ms: int) -> str:
    try:
        moment = EPOCH + time_ms * _MILLISECOND
    except OverflowError:
        return f"{time_ms}ms"  # beyond the range of dates
    return moment.isoformat(timespec="milliseconds")


def _moment(text: str) -> object:
    if text.endswith("ms"):
        return amqp.Timestamp(int(text[:-2]))
    return amqp.Timestamp(timestamp_ms(datetime.datetime.fromisoformat(text)))


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{text}' is neither true nor false")
    return text.lower() == "true"


def _encoded(text: str) -> object:
    raw = base64.b64decode(text, validate=True)
    return decode_value(raw, 0, len(raw))[0]


_MAKERS: Final[dict[str, Callable[[Any], object]]] = {
    "byte": amqp.Byte,
    "short": amqp.Short,
    "int": amqp.Int,
    "float": amqp.Float,
    "timestamp": amqp.Timestamp,
}
_READERS: Final[dict[str, Callable[[str], object]]] = {
    "symbol": amqp.Symbol,
    "char": amqp.Char,
    "timestamp": _moment,
    "ubyte": lambda text: amqp.UByte(int(text)),
    "ushort": lambda text: amqp.UShort(int(text)),
    "uint": lambda text: amqp.UInt(int(text)),
    "ulong": lambda text: amqp.ULong(int(text)),
    "byte": lambda text: amqp.Byte(int(text)),
    "short": lambda text: amqp.Short(int(text)),
    "int": lambda text: amqp.Int(int(text)),
    "long": int,
    "float": lambda text: amqp.Float(float(text)),
    "double": float,
    "boolean": _boolean,
    "string": str,
    "binary": lambda text: base64.b64decode(text, validate=True),
    "uuid": uuid.UUID,
    "encoded": _encoded,
}
