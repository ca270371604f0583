"""Writing AMQP 1.0 values without nested values, each in its smallest form [1.6].

Owns one encoder per scalar type and the table that finds it by Python class. Must raise
nothing but `EncodeError` for a value outside its type's range. Called by
`partibus.amqp.codec.encode`, which re-exports the encoders that hot paths use.
"""

import struct
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from partibus.amqp.codec import types

ENCODED_NULL: Final = b"\x40"
ENCODED_TRUE: Final = b"\x41"
ENCODED_FALSE: Final = b"\x42"

_UINT: Final = struct.Struct(">BI")
_ULONG: Final = struct.Struct(">BQ")
_BINARY32: Final = struct.Struct(">f")
_BINARY64: Final = struct.Struct(">d")

_SMALL_UINTS: Final = (b"\x43", *(bytes((0x52, n)) for n in range(1, 256)))
_SMALL_ULONGS: Final = (b"\x44", *(bytes((0x53, n)) for n in range(1, 256)))


class EncodeError(ValueError):
    """The value has no AMQP form."""


def encode_uint(n: int) -> bytes:
    if 0 <= n < 256:
        return _SMALL_UINTS[n]
    if not 0 <= n <= 0xFFFFFFFF:
        raise EncodeError(f"{n} is not a uint")
    return _UINT.pack(0x70, n)


def encode_ulong(n: int) -> bytes:
    if 0 <= n < 256:
        return _SMALL_ULONGS[n]
    if not 0 <= n <= 0xFFFFFFFFFFFFFFFF:
        raise EncodeError(f"{n} is not a ulong")
    return _ULONG.pack(0x80, n)


def encode_str(text: str) -> bytes:
    return _encode_sized(0xA1, utf8_bytes(text))


def encode_symbol(text: str) -> bytes:
    return _encode_sized(0xA3, utf8_bytes(text))


def encode_binary(data: bytes) -> bytes:
    return _encode_sized(0xA0, data)


def utf8_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EncodeError(f"the text is not valid Unicode: {error.reason}") from None


def fixed_bytes(code: int, n: int, width: int, signed: bool) -> bytes:
    try:
        return bytes((code,)) + n.to_bytes(width, "big", signed=signed)
    except OverflowError:
        raise EncodeError(f"{n} does not fit into {width} bytes (signed={signed})") from None


def _encode_sized(code: int, data: bytes) -> bytes:
    size = len(data)
    if size < 256:
        return bytes((code, size)) + data
    if size > 0xFFFFFFFF:
        raise EncodeError(f"too many bytes for one value: {size}")
    return _UINT.pack(code + 0x10, size) + data


def raw_bytes(code: int, data: bytes, width: int) -> bytes:
    if len(data) != width:
        raise EncodeError(f"the constructor 0x{code:02x} takes {width} bytes, not {len(data)}")
    return bytes((code,)) + data


def _encode_none(_value: object) -> bytes:
    return ENCODED_NULL


def _encode_bool(value: object) -> bytes:
    return ENCODED_TRUE if value else ENCODED_FALSE


def _encode_long(n: int) -> bytes:
    return fixed_bytes(0x55, n, 1, True) if -128 <= n <= 127 else fixed_bytes(0x81, n, 8, True)


def _encode_int(n: int) -> bytes:
    return fixed_bytes(0x54, n, 1, True) if -128 <= n <= 127 else fixed_bytes(0x71, n, 4, True)


def _encode_ubyte(n: int) -> bytes:
    return fixed_bytes(0x50, n, 1, False)


def _encode_ushort(n: int) -> bytes:
    return fixed_bytes(0x60, n, 2, False)


def _encode_byte(n: int) -> bytes:
    return fixed_bytes(0x51, n, 1, True)


def _encode_short(n: int) -> bytes:
    return fixed_bytes(0x61, n, 2, True)


def _encode_timestamp(n: int) -> bytes:
    return fixed_bytes(0x83, n, 8, True)


def _encode_double(value: object) -> bytes:
    return b"\x82" + _BINARY64.pack(value)


def encode_float(value: object) -> bytes:
    try:
        return b"\x72" + _BINARY32.pack(value)
    except OverflowError:
        raise EncodeError(f"{value} is not a binary32 number") from None


def encode_char(text: str) -> bytes:
    if len(text) != 1 or 0xD800 <= ord(text) <= 0xDFFF:
        raise EncodeError(f"{text!r} is not a single Unicode character")
    return fixed_bytes(0x73, ord(text), 4, False)


def _encode_uuid(value: UUID) -> bytes:
    return b"\x98" + value.bytes


def _encode_decimal32(data: bytes) -> bytes:
    return raw_bytes(0x74, data, 4)


def _encode_decimal64(data: bytes) -> bytes:
    return raw_bytes(0x84, data, 8)


def _encode_decimal128(data: bytes) -> bytes:
    return raw_bytes(0x94, data, 16)


SCALAR_ENCODERS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): _encode_none,
    bool: _encode_bool,
    int: _encode_long,
    types.Long: _encode_long,
    types.Int: _encode_int,
    types.UInt: encode_uint,
    types.ULong: encode_ulong,
    types.UByte: _encode_ubyte,
    types.UShort: _encode_ushort,
    types.Byte: _encode_byte,
    types.Short: _encode_short,
    types.Timestamp: _encode_timestamp,
    float: _encode_double,
    types.Float: encode_float,
    str: encode_str,
    types.Symbol: encode_symbol,
    types.Char: encode_char,
    bytes: encode_binary,
    UUID: _encode_uuid,
    types.Decimal32: _encode_decimal32,
    types.Decimal64: _encode_decimal64,
    types.Decimal128: _encode_decimal128,
}
