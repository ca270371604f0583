"""Reading AMQP 1.0 values [1.2, 1.6] from bytes.

Owns the reading of any value and the skipping of one. Must raise nothing but `DecodeError`,
whatever the bytes: they come from peers. Called for every performative that has no specialised
reader, for message sections and for management bodies; message bodies are skipped, never read.
"""

import struct
from typing import Final
from uuid import UUID

from partibus.amqp.codec.types import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Pairs,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
)

# The vendor's clients read exactly this deep. Reading takes at most 3 Python calls per level, so
# a hostile value stops far from the interpreter's own limit.
NESTING_MAX: Final = 64

# Items of one list, map or array, again as in the vendor's clients. An empty list costs a peer 1
# byte and us 64, so the count is bounded as well as the size.
COMPOUND_COUNT_MAX: Final = 65_536

# Elements of an array that take no bytes at all (null, true, uint 0, empty list). Such a count is
# free for a peer: arrays of 10 bytes may make us build this many objects each.
ZERO_WIDTH_COUNT_MAX: Final = 128

# The length of a constructor byte and its value, by constructor: the whole length for fixed
# widths, else one of the marks below. The second digit of a code gives its width [1.2], but codes
# without a type are refused rather than skipped.
STEP_DESCRIBED: Final = 0
STEP_SIZE8: Final = -1
STEP_SIZE32: Final = -4
STEP_INVALID: Final = -9

_FIXED_WIDTHS: Final = {
    1: (0x40, 0x41, 0x42, 0x43, 0x44, 0x45),
    2: (0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56),
    3: (0x60, 0x61),
    5: (0x70, 0x71, 0x72, 0x73, 0x74),
    9: (0x80, 0x81, 0x82, 0x83, 0x84),
    17: (0x94, 0x98),
    STEP_DESCRIBED: (0x00,),
    STEP_SIZE8: (0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0),
    STEP_SIZE32: (0xB0, 0xB1, 0xB3, 0xD0, 0xD1, 0xF0),
}


def _step_table() -> tuple[int, ...]:
    table = [STEP_INVALID] * 256
    for step, codes in _FIXED_WIDTHS.items():
        for code in codes:
            table[code] = step
    return tuple(table)


STEPS: Final[tuple[int, ...]] = _step_table()

_SIGNED16: Final = struct.Struct(">h")
_SIGNED32: Final = struct.Struct(">i")
_SIGNED64: Final = struct.Struct(">q")
_BINARY32: Final = struct.Struct(">f")
_BINARY64: Final = struct.Struct(">d")


class DecodeError(ValueError):
    """The bytes are not a well-formed AMQP value."""


def decode_value(buf: bytes, offset: int, end: int) -> tuple[object, int]:
    """The value at `offset` and the offset after it; nothing from `end` on is read."""
    if end > len(buf):
        raise DecodeError("the value ends beyond the buffer")
    try:
        return _decode(buf, offset, end, 0)
    except IndexError:
        raise DecodeError("the value is truncated") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"a string is not UTF-8: {error.reason}") from None


def skip_value(buf: bytes, offset: int, end: int) -> int:
    """The offset after the value at `offset`, found without reading the value.

    A described value is a descriptor followed by a value, so skipping needs a count of remaining
    values and no recursion.
    """
    if end > len(buf):
        raise DecodeError("the value ends beyond the buffer")
    waiting = 1
    while waiting > 0:
        if offset >= end:
            raise DecodeError("the value is truncated")
        code = buf[offset]
        step = STEPS[code]
        if step > 0:
            offset += step
            waiting -= 1
        elif step == STEP_SIZE8:
            if offset + 1 >= end:
                raise DecodeError("the value is truncated")
            offset += 2 + buf[offset + 1]
            waiting -= 1
        elif step == STEP_SIZE32:
            offset += 5 + int.from_bytes(buf[offset + 1 : offset + 5], "big")
            waiting -= 1
        elif step == STEP_DESCRIBED:
            offset += 1
            waiting += 1
            if waiting > NESTING_MAX + 1:
                raise DecodeError("the value is nested too deeply")
        else:
            raise DecodeError(f"0x{code:02x} is not the constructor of an AMQP type")
    if offset > end:
        raise DecodeError("the value is truncated")
    return offset


def _decode(buf: bytes, offset: int, end: int, depth: int) -> tuple[object, int]:
    """A value with its constructor. May raise IndexError when bytes are missing."""
    if offset >= end:
        raise DecodeError("the value is truncated")
    code = buf[offset]
    if code == 0xA1:
        stop = offset + 2 + buf[offset + 1]
        if stop > end:
            raise DecodeError("a string is truncated")
        return str(buf[offset + 2 : stop], "utf-8"), stop
    if code == 0x40:
        return None, offset + 1
    if code == 0x00:
        if depth >= NESTING_MAX:
            raise DecodeError("the value is nested too deeply")
        descriptor, at = _decode(buf, offset + 1, end, depth + 1)
        value, at = _decode(buf, at, end, depth + 1)
        return Described(descriptor, value), at
    return _decode_body(code, buf, offset + 1, end, depth)


def _decode_body(code: int, buf: bytes, at: int, end: int, depth: int) -> tuple[object, int]:
    """What follows the constructor `code`; array elements have this form too."""
    if code < 0xA0:
        return _decode_fixed(code, buf, at, end)
    if code & 0x10:
        start = at + 4
        stop = start + int.from_bytes(buf[at:start], "big")
    else:
        start = at + 1
        stop = start + buf[at]
    if stop > end:
        raise DecodeError("the value is truncated")
    kind = code & 0xEF
    if kind == 0xA1:
        return str(buf[start:stop], "utf-8"), stop
    if kind == 0xA3:
        # Symbols are ASCII [1.6.21], but the vendor's Python client writes UTF-8 into
        # content-type; reading UTF-8 keeps such messages usable and is the same for ASCII.
        return Symbol(str(buf[start:stop], "utf-8")), stop
    if kind == 0xA0:
        return buf[start:stop], stop
    if depth >= NESTING_MAX:
        raise DecodeError("the value is nested too deeply")
    width = 4 if code & 0x10 else 1
    count = int.from_bytes(buf[start : start + width], "big")
    start += width
    if start > stop or count > COMPOUND_COUNT_MAX:
        raise DecodeError(f"a list, map or array has a bad item count: {count}")
    if kind == 0xC0:
        return _decode_items(buf, start, stop, count, depth + 1), stop
    if kind == 0xC1:
        return _decode_map(buf, start, stop, count, depth + 1), stop
    if kind == 0xE0:
        return _decode_array(buf, start, stop, count, depth + 1), stop
    raise DecodeError(f"0x{code:02x} is not the constructor of an AMQP type")


def _decode_fixed(code: int, buf: bytes, at: int, end: int) -> tuple[object, int]:
    step = STEPS[code]
    if step <= 0:
        raise DecodeError(f"0x{code:02x} is not the constructor of an AMQP type")
    stop = at + step - 1
    if stop > end:
        raise DecodeError("the value is truncated")
    if code < 0x50:
        return _decode_empty(code), stop
    if code < 0x60:
        return _decode_octet(code, buf[at]), stop
    if code < 0x80:
        return _decode_short(code, buf, at, stop), stop
    return _decode_wide(code, buf, at, stop), stop


def _decode_empty(code: int) -> object:
    if code == 0x43:
        return UInt(0)
    if code == 0x41:
        return True
    if code == 0x42:
        return False
    if code == 0x45:
        return []
    if code == 0x44:
        return ULong(0)
    return None


def _decode_octet(code: int, octet: int) -> object:
    if code == 0x53:
        return ULong(octet)
    if code == 0x52:
        return UInt(octet)
    if code == 0x50:
        return UByte(octet)
    if code == 0x56:
        if octet > 1:
            raise DecodeError(f"a boolean is neither 0 nor 1: {octet}")
        return octet == 1
    signed = octet - 256 if octet > 127 else octet
    if code == 0x54:
        return Int(signed)
    if code == 0x55:
        return signed
    return Byte(signed)


def _decode_short(code: int, buf: bytes, at: int, stop: int) -> object:
    if code == 0x70:
        return UInt(int.from_bytes(buf[at:stop], "big"))
    if code == 0x71:
        return Int(_SIGNED32.unpack_from(buf, at)[0])
    if code == 0x60:
        return UShort(int.from_bytes(buf[at:stop], "big"))
    if code == 0x61:
        return Short(_SIGNED16.unpack_from(buf, at)[0])
    if code == 0x72:
        return Float(_BINARY32.unpack_from(buf, at)[0])
    if code == 0x73:
        point = int.from_bytes(buf[at:stop], "big")
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise DecodeError(f"0x{point:x} is not a Unicode code point")
        return Char(chr(point))
    return Decimal32(buf[at:stop])


def _decode_wide(code: int, buf: bytes, at: int, stop: int) -> object:
    if code == 0x83:
        return Timestamp(_SIGNED64.unpack_from(buf, at)[0])
    if code == 0x81:
        signed: int = _SIGNED64.unpack_from(buf, at)[0]
        return signed
    if code == 0x98:
        return UUID(int=int.from_bytes(buf[at:stop], "big"))
    if code == 0x80:
        return ULong(int.from_bytes(buf[at:stop], "big"))
    if code == 0x82:
        number: float = _BINARY64.unpack_from(buf, at)[0]
        return number
    if code == 0x84:
        return Decimal64(buf[at:stop])
    return Decimal128(buf[at:stop])


def _decode_items(buf: bytes, at: int, stop: int, count: int, depth: int) -> list[object]:
    items: list[object] = []
    for _ in range(count):
        item, at = _decode(buf, at, stop, depth)
        items.append(item)
    if at != stop:
        raise DecodeError("the items of a list, map or array do not match its size")
    return items


def _decode_map(buf: bytes, at: int, stop: int, count: int, depth: int) -> object:
    if count & 1:
        raise DecodeError(f"a map holds an odd number of items: {count}")
    items = _decode_items(buf, at, stop, count, depth)
    keys = items[0::2]
    values = items[1::2]
    try:
        merged = dict(zip(keys, values, strict=True))
    except TypeError:  # a key that Python cannot hash, such as a list
        return Pairs(list(zip(keys, values, strict=True)))
    if len(merged) != len(keys):
        return Pairs(list(zip(keys, values, strict=True)))
    return merged


def _decode_array(buf: bytes, at: int, stop: int, count: int, depth: int) -> Array:
    if count == 0 and at == stop:
        return Array(0x40, [])  # the vendor's Python client leaves the constructor out
    descriptors: list[object] = []
    while buf[at] == 0x00:
        descriptor, at = _decode(buf, at + 1, stop, depth)
        descriptors.append(descriptor)
        if len(descriptors) > NESTING_MAX:
            raise DecodeError("the value is nested too deeply")
    code = buf[at]
    at += 1
    if STEPS[code] == STEP_INVALID:
        raise DecodeError(f"0x{code:02x} is not the constructor of an AMQP type")
    if code < 0x50 and count > ZERO_WIDTH_COUNT_MAX:
        raise DecodeError(f"an array of empty values has too many items: {count}")
    items: list[object] = []
    for _ in range(count):
        item, at = _decode_body(code, buf, at, stop, depth)
        items.append(item)
    if at != stop:
        raise DecodeError("the items of a list, map or array do not match its size")
    if len(descriptors) == 1 and descriptors[0] is not None:
        return Array(code, items, descriptors[0])
    return Array(code, items, tuple(descriptors) if descriptors else None)
