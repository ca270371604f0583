"""Writing AMQP 1.0 values [1.2, 1.6] as bytes, each in its smallest form.

Owns the writing of any value: compounds, arrays and described values here, scalars through
`partibus.amqp.codec.scalars`. Must raise nothing but `EncodeError` for a value that has no AMQP
form, and never write what `decode_value` would refuse. Called for performatives, outcomes, message
sections and management bodies.
"""

import struct
from typing import Final
from uuid import UUID

from partibus.amqp.codec.decode import (
    COMPOUND_COUNT_MAX,
    NESTING_MAX,
    STEP_INVALID,
    STEPS,
    ZERO_WIDTH_COUNT_MAX,
)
from partibus.amqp.codec.scalars import (
    ENCODED_FALSE,
    ENCODED_NULL,
    ENCODED_TRUE,
    SCALAR_ENCODERS,
    EncodeError,
    encode_binary,
    encode_char,
    encode_float,
    encode_str,
    encode_symbol,
    encode_uint,
    encode_ulong,
    fixed_bytes,
    raw_bytes,
    utf8_bytes,
)
from partibus.amqp.codec.types import Array, Described, Pairs

__all__ = [
    "ENCODED_EMPTY_LIST",
    "ENCODED_FALSE",
    "ENCODED_NULL",
    "ENCODED_TRUE",
    "EncodeError",
    "encode_binary",
    "encode_compound",
    "encode_described_list",
    "encode_list",
    "encode_str",
    "encode_symbol",
    "encode_uint",
    "encode_ulong",
    "encode_value",
]

ENCODED_EMPTY_LIST: Final = b"\x45"

_SIZE_COUNT: Final = struct.Struct(">BII")
_BINARY64: Final = struct.Struct(">d")


def encode_value(value: object) -> bytes:
    """`value` with its constructor, in the smallest encoding of its type."""
    return _encode(value, 0)


def encode_described_list(code: int, fields: list[bytes]) -> bytes:
    """A performative, outcome or section: a list of encoded fields under a small descriptor.

    The descriptor is always `00 53 code`, the only form that every client reads.
    """
    return bytes((0x00, 0x53, code)) + encode_list(fields)


def encode_list(items: list[bytes]) -> bytes:
    """A list of items that are already encoded."""
    count = len(items)
    if count == 0:
        return ENCODED_EMPTY_LIST
    return encode_compound(0xC0, count, b"".join(items))


def encode_compound(code: int, count: int, body: bytes) -> bytes:
    """A list (0xC0), map (0xC1) or array (0xE0) of `count` items encoded in `body`."""
    size = len(body)
    if size < 255 and count < 256:
        return bytes((code, size + 1, count)) + body
    if count > COMPOUND_COUNT_MAX:
        raise EncodeError(f"too many items for a list or map: {count}")
    return _SIZE_COUNT.pack(code + 0x10, size + 4, count) + body


def _encode(value: object, depth: int) -> bytes:
    scalar = SCALAR_ENCODERS.get(type(value))
    if scalar is not None:
        return scalar(value)
    if isinstance(value, list) and not value:
        return ENCODED_EMPTY_LIST
    if depth >= NESTING_MAX:
        raise EncodeError("the value is nested too deeply")
    if isinstance(value, list):
        return encode_list([_encode(item, depth + 1) for item in value])
    if isinstance(value, dict):
        return encode_compound(0xC1, 2 * len(value), _pairs_body(list(value.items()), depth + 1))
    if isinstance(value, Described):
        descriptor = _encode(value.descriptor, depth + 1)
        return b"\x00" + descriptor + _encode(value.value, depth + 1)
    if isinstance(value, Array):
        return encode_compound(0xE0, len(value.items), _array_body(value, depth + 1))
    if isinstance(value, Pairs):
        return encode_compound(0xC1, 2 * len(value.items), _pairs_body(value.items, depth + 1))
    return _encode_subclass(value)


def _encode_subclass(value: object) -> bytes:
    """A value of a class derived from one that has an AMQP form, such as an IntEnum."""
    for base in type(value).__mro__:
        scalar = SCALAR_ENCODERS.get(base)
        if scalar is not None:
            return scalar(value)
    raise EncodeError(f"a {type(value).__name__} cannot be encoded as an AMQP value")


def _pairs_body(pairs: list[tuple[object, object]], depth: int) -> bytes:
    parts: list[bytes] = []
    for key, item in pairs:
        parts.append(_encode(key, depth))
        parts.append(_encode(item, depth))
    return b"".join(parts)


# --- array elements: the body alone, in the form that the array's one constructor names ------

_INTEGERS: Final[dict[int, tuple[int, bool]]] = {
    0x50: (1, False),
    0x51: (1, True),
    0x52: (1, False),
    0x53: (1, False),
    0x54: (1, True),
    0x55: (1, True),
    0x60: (2, False),
    0x61: (2, True),
    0x70: (4, False),
    0x71: (4, True),
    0x80: (8, False),
    0x81: (8, True),
    0x83: (8, True),
}

# The only valid element for constructors without a value.
_EMPTY_VALUES: Final[dict[int, object]] = {
    0x40: None,
    0x41: True,
    0x42: False,
    0x43: 0,
    0x44: 0,
    0x45: [],
}


def _array_body(array: Array, depth: int) -> bytes:
    code = array.code
    if not 0 < code < 256 or STEPS[code] == STEP_INVALID:
        raise EncodeError(f"0x{code:02x} is not a constructor for array elements")
    if code < 0x50 and len(array.items) > ZERO_WIDTH_COUNT_MAX:
        raise EncodeError(f"too many items for an array of empty values: {len(array.items)}")
    head = b""
    if isinstance(array.descriptor, tuple):
        head = b"".join([b"\x00" + _encode(outer, depth) for outer in array.descriptor])
    elif array.descriptor is not None:
        head = b"\x00" + _encode(array.descriptor, depth)
    items = b"".join([_element(code, item, depth) for item in array.items])
    return head + bytes((code,)) + items


def _element(code: int, item: object, depth: int) -> bytes:
    if code < 0x50:
        if item != _EMPTY_VALUES[code]:
            raise EncodeError(f"{item!r} does not fit the constructor 0x{code:02x}")
        return b""
    integer = _INTEGERS.get(code)
    if integer is not None and isinstance(item, int):
        return fixed_bytes(code, item, integer[0], integer[1])[1:]
    if code == 0x56 and isinstance(item, bool):
        return b"\x01" if item else b"\x00"
    if code >= 0xC0:
        return _compound_element(code, item, depth)
    if code >= 0xA0:
        return _sized_element(code, item)
    return _fixed_element(code, item)


def _fixed_element(code: int, item: object) -> bytes:
    if code == 0x98 and isinstance(item, UUID):
        return item.bytes
    if code == 0x82 and isinstance(item, float):
        return _BINARY64.pack(item)
    if code == 0x72 and isinstance(item, float):
        return encode_float(item)[1:]
    if code == 0x73 and isinstance(item, str):
        return encode_char(item)[1:]
    if code in (0x74, 0x84, 0x94) and isinstance(item, bytes):
        return raw_bytes(code, item, STEPS[code] - 1)[1:]
    raise EncodeError(f"{item!r} does not fit the constructor 0x{code:02x}")


def _sized_element(code: int, item: object) -> bytes:
    if isinstance(item, str) and code & 0x0F:
        data = utf8_bytes(item)
    elif isinstance(item, bytes) and not code & 0x0F:
        data = item
    else:
        raise EncodeError(f"{item!r} does not fit the constructor 0x{code:02x}")
    return _width(code, len(data)) + data


def _compound_element(code: int, item: object, depth: int) -> bytes:
    if depth >= NESTING_MAX:
        raise EncodeError("the value is nested too deeply")
    kind = code & 0xEF
    if kind == 0xC0 and isinstance(item, list):
        count = len(item)
        body = b"".join([_encode(inner, depth + 1) for inner in item])
    elif kind == 0xC1 and isinstance(item, dict | Pairs):
        pairs = list(item.items()) if isinstance(item, dict) else item.items
        count = 2 * len(pairs)
        body = _pairs_body(pairs, depth + 1)
    elif kind == 0xE0 and isinstance(item, Array):
        count = len(item.items)
        body = _array_body(item, depth + 1)
    else:
        raise EncodeError(f"{item!r} does not fit the constructor 0x{code:02x}")
    if count > COMPOUND_COUNT_MAX:
        raise EncodeError(f"too many items for a list or map: {count}")
    head = _width(code, count)
    return _width(code, len(head) + len(body)) + head + body


def _width(code: int, n: int) -> bytes:
    """A size or a count, in one byte or four depending on `code`."""
    width = 4 if code & 0x10 else 1
    try:
        return n.to_bytes(width, "big")
    except OverflowError:
        raise EncodeError(f"an array element is too large for 0x{code:02x}") from None
