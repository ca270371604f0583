"""Whether the values inside a message are well-formed.

Owns the check of a new message's nested values: how deep they are, and that lists, maps and arrays
have as many items as they declare; and of properties and annotations that are not plain ASCII or
have a rare type, which are decoded. The walk over a message skips such values, but its receiver
decodes them: a few bytes that declare a billion items, nest a thousand lists, or are not UTF-8,
would take down the reader. Must raise nothing but `DecodeError`. Called once for an arriving
message with such values, never for a stored one. Compiled.
"""

import struct
from typing import Final

from partibus.amqp.codec.decode import (
    NESTING_MAX,
    STEP_DESCRIBED,
    STEP_INVALID,
    STEPS,
    ZERO_WIDTH_COUNT_MAX,
    DecodeError,
)
from partibus.amqp.codec.section_walk import MessageSections, read_descriptor
from partibus.amqp.codec.sections import (
    annotation_items,
    decode_application_properties,
    decode_properties,
)

_UINT32: Final = struct.Struct(">I")


def require_sound_message(payload: bytes, start: int, end: int, sections: MessageSections) -> None:
    """Raise DecodeError if something that the walk over payload[start:end] has skipped is wrong."""
    if sections.has_nested:
        require_sound(payload[start:end])
    if sections.has_unread:
        decode_properties(payload, sections)
        decode_application_properties(payload, sections)
        annotation_items(sections)


def require_sound(payload: bytes) -> None:
    """Raise DecodeError unless every value in the sections of `payload` is well-formed."""
    at = 0
    end = len(payload)
    try:
        while at < end:
            _, value = read_descriptor(payload, at, end)
            at = _check(payload, value, end, 0)
    except (IndexError, struct.error):
        raise DecodeError("a value is truncated") from None


def _check(buf: bytes, at: int, end: int, depth: int) -> int:
    """The offset after the value at `at`, which must end by `end`."""
    if at >= end:
        raise DecodeError("a value is truncated")
    code = buf[at]
    step = STEPS[code]
    if step > 0:
        at += step
    elif step == STEP_DESCRIBED:
        _require_depth(depth)
        return _check(buf, _check(buf, at + 1, end, depth + 1), end, depth + 1)
    else:
        return _check_sized(code, buf, at + 1, end, depth)
    if at > end:
        raise DecodeError("a value is truncated")
    return at


def _check_sized(code: int, buf: bytes, at: int, end: int, depth: int) -> int:
    """What follows a constructor with a size; array elements have this form too."""
    if STEPS[code] == STEP_INVALID:
        raise DecodeError(f"0x{code:02x} is not the constructor of an AMQP type")
    is_wide = code & 0x10 != 0
    start = at + (4 if is_wide else 1)
    size: int = _UINT32.unpack_from(buf, at)[0] if is_wide else buf[at]
    stop = start + size
    if stop > end:
        raise DecodeError("a value is truncated")
    if code < 0xC0:
        return stop
    _require_depth(depth)
    count: int = _UINT32.unpack_from(buf, start)[0] if is_wide else buf[start]
    first = start + (4 if is_wide else 1)
    if first > stop:
        raise DecodeError("a list or map is too short for its item count")
    if code >= 0xE0:
        _check_array(buf, first, stop, count, depth + 1)
    else:
        _check_items(buf, first, stop, count, depth + 1)
    if code & 0xEF == 0xC1 and count & 1:
        raise DecodeError(f"a map holds an odd number of items: {count}")
    return stop


def _check_items(buf: bytes, at: int, stop: int, count: int, depth: int) -> None:
    if count > stop - at:  # an item takes at least a byte
        raise DecodeError(f"a list or map declares {count} items in {stop - at} bytes")
    for _ in range(count):
        at = _check(buf, at, stop, depth)
    if at != stop:
        raise DecodeError("the items of a list or map do not match its size")


def _check_array(buf: bytes, at: int, stop: int, count: int, depth: int) -> None:
    if count == 0 and at == stop:
        return  # the vendor's Python client leaves the constructor out
    descriptors = 0
    while buf[at] == 0x00:
        descriptors += 1
        _require_depth(depth + descriptors)
        at = _check(buf, at + 1, stop, depth)
    code = buf[at]
    at += 1
    step = STEPS[code]
    if step > 1:
        at += count * (step - 1)
    elif step == 1:
        if count > ZERO_WIDTH_COUNT_MAX:
            raise DecodeError(f"an array of empty values has too many items: {count}")
    else:
        if count > stop - at:
            raise DecodeError(f"an array declares {count} items in {stop - at} bytes")
        for _ in range(count):
            at = _check_sized(code, buf, at, stop, depth)
    if at != stop:
        raise DecodeError(f"an array of {count} items does not match its size")


def _require_depth(depth: int) -> None:
    if depth >= NESTING_MAX:
        raise DecodeError(f"values are nested deeper than {NESTING_MAX} levels")
