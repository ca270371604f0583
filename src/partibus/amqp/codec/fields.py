"""Reading the fields of a performative's list, typed and by position [1.4].

Owns the decoding of a composite's bytes to its fields: any of list0, list8 and list32, trimmed or
full. Must raise nothing but `DecodeError`. Used where a frame comes once per connection, session or
link; transfers and dispositions have readers of their own.
"""

from partibus.amqp.codec.decode import DecodeError, decode_value, skip_value
from partibus.amqp.codec.types import Array
from partibus.amqp.errors import string_keyed


def list_header(buf: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Count of items, offset of the first, offset after the last."""
    if end - at < 1:
        raise DecodeError("a list is missing")
    code = buf[at]
    if code == 0x45:
        return 0, at + 1, at + 1
    if code == 0xC0 and end - at >= 3:
        stop = at + 2 + buf[at + 1]
        count = buf[at + 2]
        at += 3
    elif code == 0xD0 and end - at >= 9:
        stop = at + 5 + int.from_bytes(buf[at + 1 : at + 5], "big")
        count = int.from_bytes(buf[at + 5 : at + 9], "big")
        at += 9
    else:
        raise DecodeError("a list was expected")
    if at > stop or stop > end:
        raise DecodeError("a list is truncated")
    return count, at, stop


class FieldReader:
    """The fields of one list; those trimmed from its end read as null."""

    __slots__ = ("buf", "offsets", "stop")

    def __init__(self, buf: bytes, at: int, end: int) -> None:
        count, at, stop = list_header(buf, at, end)
        # Every item takes at least a byte, which limits a hostile count.
        if count > stop - at:
            raise DecodeError("a list is too short for its items")
        offsets = [at]
        for _ in range(count):
            at = skip_value(buf, at, stop)
            offsets.append(at)
        if at != stop:
            raise DecodeError("a list is longer than its items")
        self.buf = buf
        self.offsets = offsets
        self.stop = stop

    def raw(self, index: int) -> bytes:
        """The field as it is encoded; null when trimmed."""
        if index + 1 >= len(self.offsets):
            return b"\x40"
        return self.buf[self.offsets[index] : self.offsets[index + 1]]

    def value(self, index: int) -> object:
        if index + 1 >= len(self.offsets):
            return None
        return decode_value(self.buf, self.offsets[index], self.offsets[index + 1])[0]

    def uint(self, index: int, default: int, maximum: int = 0xFFFFFFFF) -> int:
        value = self.value(index)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= maximum:
            raise DecodeError(f"field {index} is not an unsigned number up to {maximum}")
        return int(value)

    def uint_required(self, index: int, maximum: int = 0xFFFFFFFF) -> int:
        number = self.uint(index, -1, maximum)
        if number < 0:
            raise DecodeError(f"field {index} is mandatory")
        return number

    def optional_uint(self, index: int, maximum: int = 0xFFFFFFFF) -> int | None:
        number = self.uint(index, -1, maximum)
        return None if number < 0 else number

    def boolean(self, index: int, default: bool = False) -> bool:
        value = self.value(index)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise DecodeError(f"field {index} is not a boolean")
        return value

    def text(self, index: int) -> str | None:
        """A string or a symbol."""
        value = self.value(index)
        if value is None:
            return None
        if not isinstance(value, str):
            raise DecodeError(f"field {index} is not text")
        return str(value)

    def text_required(self, index: int) -> str:
        text = self.text(index)
        if text is None:
            raise DecodeError(f"field {index} is mandatory")
        return text

    def mapping(self, index: int) -> dict[str, object]:
        return string_keyed(self.value(index))

    def symbols(self, index: int) -> list[str]:
        """A field that is `multiple`: null, one symbol, or an array of them [1.4]."""
        return symbols_from_value(self.value(index))


def symbols_from_value(value: object) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return [str(value)]
    if isinstance(value, Array):
        return [str(item) for item in value.items if isinstance(item, str)]
    raise DecodeError("a symbol or an array of symbols was expected")
