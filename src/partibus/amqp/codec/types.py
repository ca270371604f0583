"""The AMQP 1.0 types without a Python equivalent [1.6].

Owns the value classes that carry an AMQP type through a decode and an encode. Plain
`None bool int float str bytes UUID list dict` stand for null, boolean, long, double,
string, binary, uuid, list and map. Ranges are checked where a value is encoded, so that
decoding pays for no check twice. Must never import anything of the codec, which is
compiled while this module is not: native classes cannot extend `int` or `str`.
"""

from dataclasses import dataclass
from typing import Final

# --- element codes of an `Array` that are spoken of by name [1.6] -----------------------------

LONG: Final = 0x81
TIMESTAMP: Final = 0x83
UUID16: Final = 0x98
SYMBOL8: Final = 0xA3
STRING32: Final = 0xB1


class Symbol(str):
    """A word from a constrained domain [1.6.21]."""

    __slots__ = ()


class UByte(int):
    """An integer of 8 bits, unsigned [1.6.3]."""

    __slots__ = ()


class UShort(int):
    """An integer of 16 bits, unsigned [1.6.4]."""

    __slots__ = ()


class UInt(int):
    """An integer of 32 bits, unsigned [1.6.5]."""

    __slots__ = ()


class ULong(int):
    """An integer of 64 bits, unsigned [1.6.6]."""

    __slots__ = ()


class Byte(int):
    """An integer of 8 bits, signed [1.6.7]."""

    __slots__ = ()


class Short(int):
    """An integer of 16 bits, signed [1.6.8]."""

    __slots__ = ()


class Int(int):
    """An integer of 32 bits, signed [1.6.9]."""

    __slots__ = ()


class Long(int):
    """An integer of 64 bits, signed [1.6.10]; a decoded long is a plain `int`."""

    __slots__ = ()


class Float(float):
    """A number of binary32 precision [1.6.11]; a decoded double is a plain `float`."""

    __slots__ = ()


class Char(str):
    """One Unicode character [1.6.16]."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970-01-01 UTC, signed, 64 bits [1.6.17]."""

    __slots__ = ()


class Decimal32(bytes):
    """The 4 bytes of a decimal number, carried but not interpreted [1.6.13]."""

    __slots__ = ()


class Decimal64(bytes):
    """The 8 bytes of a decimal number, carried but not interpreted [1.6.14]."""

    __slots__ = ()


class Decimal128(bytes):
    """The 16 bytes of a decimal number, carried but not interpreted [1.6.15]."""

    __slots__ = ()


@dataclass(slots=True, repr=False, unsafe_hash=True)
class Described:
    """A value under a descriptor [1.2]; either may itself be described."""

    descriptor: object
    value: object

    def __repr__(self) -> str:
        return f"Described({self.descriptor!r}, {self.value!r})"


@dataclass(slots=True, repr=False)
class Array:
    """Values of one type, sharing one constructor byte [1.6.24].

    `code` is that constructor and is kept, so that an array encodes as it was received.
    `descriptor` is None for plain elements, and the descriptor that all of them share
    otherwise. Elements under several descriptors, or under a null one, keep a tuple
    there, outermost first: no AMQP value decodes to a tuple, so it cannot be mistaken.
    """

    code: int
    items: list[object]
    descriptor: object = None

    def __repr__(self) -> str:
        return f"Array(0x{self.code:02x}, {self.items!r}, {self.descriptor!r})"


@dataclass(slots=True, repr=False)
class Pairs:
    """A map whose keys a dict would merge or refuse [1.6.23].

    Long 1, boolean true and uint 1 are three keys in AMQP and one in Python; a list can be a key in
    AMQP but not in Python. Such maps decode to this, all others to a dict.
    """

    items: list[tuple[object, object]]

    def __repr__(self) -> str:
        return f"Pairs({self.items!r})"
