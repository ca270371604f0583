"""Dispositions: the outcomes of deliveries, in ranges [2.7.6].

Owns the reading and writing of disposition frames, and the gathering of settlements into as few of
them as possible. Must never know the deliveries themselves: sessions do. Hot: as with transfers,
the repeated part (settled, state) is decoded once per connection.
"""

import struct
from typing import Final

from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.delivery import DeliveryState, state_from_value
from partibus.amqp.settings import TAIL_CACHE_BYTES_MAX, TAIL_CACHE_ENTRIES_MAX

ROLE_RECEIVER: Final = True
ROLE_SENDER: Final = False

_U32: Final = struct.Struct(">I")
_TAIL_FIELDS_MAX: Final = 3

# frame head, descriptor, list8, role, first and last as 4-byte uints, settled; the state
# and a null `batchable` follow.
_HEAD8: Final = struct.Struct(">IBBH3sBBBBBIBIB")
_HEAD32: Final = struct.Struct(">IBBH3sBIIBBIBIB")
_HEAD8_BYTES: Final = _HEAD8.size
_HEAD32_BYTES: Final = _HEAD32.size
# Of the head, what the list's size field counts: the count, role, first, last, settled.
_LIST8_FIXED: Final = 1 + 1 + 5 + 5 + 1
_LIST32_FIXED: Final = 4 + 1 + 5 + 5 + 1
_DESCRIPTOR: Final = b"\x00\x53\x15"

_HALF: Final = 0x80000000
_MASK: Final = 0xFFFFFFFF


class DispositionTail:
    """The fields after `last`."""

    __slots__ = ("count", "settled", "state")

    def __init__(self, count: int, settled: bool, state: DeliveryState | None) -> None:
        self.count = count
        self.settled = settled
        self.state = state


def decode_disposition(
    buf: bytes, at: int, end: int, tails: dict[bytes, DispositionTail]
) -> tuple[bool, int, int, DispositionTail]:
    """Role (true: receiver), first, last, tail. Offsets are checked once, at the end."""
    try:
        code = buf[at]
        if code == 0xC0:
            stop = at + 2 + buf[at + 1]
            count = buf[at + 2]
            at += 3
        elif code == 0xD0:
            stop = at + 5 + _U32.unpack_from(buf, at + 1)[0]
            count = _U32.unpack_from(buf, at + 5)[0]
            at += 9
        else:
            raise DecodeError("a disposition is not a list with fields")
        code = buf[at]
        if code == 0x41 or code == 0x42:
            role = code == 0x41
            at += 1
        elif code == 0x56:
            role = buf[at + 1] == 1
            at += 2
        else:
            raise DecodeError("the role of a disposition is not a boolean")
        code = buf[at]
        if code == 0x70:
            first = _U32.unpack_from(buf, at + 1)[0]
            at += 5
        elif code == 0x52:
            first = buf[at + 1]
            at += 2
        elif code == 0x43:
            first = 0
            at += 1
        else:
            raise DecodeError("the field first of a disposition is not a uint")
        read = 2
        last = first
        if at < stop:
            read = 3
            code = buf[at]
            if code == 0x40:
                at += 1
            elif code == 0x70:
                last = _U32.unpack_from(buf, at + 1)[0]
                at += 5
            elif code == 0x52:
                last = buf[at + 1]
                at += 2
            elif code == 0x43:
                last = 0
                at += 1
            else:
                raise DecodeError("the field last of a disposition is not a uint")
    except (IndexError, struct.error):
        raise DecodeError("a disposition is truncated") from None
    if at > stop or stop > end:
        raise DecodeError("a disposition is truncated")
    raw = buf[at:stop]
    tail = tails.get(raw)
    if tail is None:
        tail = _decode_tail(raw, tails)
    if tail.count + read != count:
        raise DecodeError("a disposition's field count does not match its fields")
    return role, first, last, tail


def _decode_tail(raw: bytes, tails: dict[bytes, DispositionTail]) -> DispositionTail:
    values: list[object] = []
    at = 0
    end = len(raw)
    while at < end:
        value, at = decode_value(raw, at, end)
        values.append(value)
    count = len(values)
    if count > _TAIL_FIELDS_MAX:
        raise DecodeError("a disposition has too many fields")
    values.extend([None] * (_TAIL_FIELDS_MAX - count))
    if values[0] is not None and not isinstance(values[0], bool):
        raise DecodeError("the settled flag of a disposition is not a boolean")
    tail = DispositionTail(count, values[0] is True, state_from_value(values[1]))
    if end <= TAIL_CACHE_BYTES_MAX:
        if len(tails) >= TAIL_CACHE_ENTRIES_MAX:
            tails.clear()
        tails[raw] = tail
    return tail


def encode_disposition(
    channel: int, role: bool, first: int, last: int, settled: bool, state: bytes
) -> bytes:
    """A whole frame. `last` is always there: the Python client reads it."""
    size = len(state) + 1
    role_code = 0x41 if role else 0x42
    settled_code = 0x41 if settled else 0x42
    if _LIST8_FIXED + size < 256:
        head = _HEAD8.pack(
            _HEAD8_BYTES + size, 2, 0, channel, _DESCRIPTOR, 0xC0, _LIST8_FIXED + size,
            6, role_code, 0x70, first, 0x70, last, settled_code,
        )  # fmt: skip
    else:
        head = _HEAD32.pack(
            _HEAD32_BYTES + size, 2, 0, channel, _DESCRIPTOR, 0xD0, _LIST32_FIXED + size,
            6, role_code, 0x70, first, 0x70, last, settled_code,
        )  # fmt: skip
    return head + state + b"\x42"


class PendingDispositions:
    """Dispositions of one role and one `settled`, gathered until the next write."""

    __slots__ = ("_by_state", "role", "settled")

    def __init__(self, role: bool, settled: bool) -> None:
        self.role = role
        self.settled = settled
        self._by_state: dict[bytes, list[int]] = {}

    def add(self, delivery_id: int, state: bytes) -> None:
        ids = self._by_state.get(state)
        if ids is None:
            self._by_state[state] = [delivery_id]
        else:
            ids.append(delivery_id)

    def clear(self) -> None:
        self._by_state.clear()

    def flush(self, channel: int, out: list[bytes]) -> None:
        """Write one frame for each run of ids with the same state."""
        for state, ids in self._by_state.items():
            self._write_runs(channel, ids, state, out)
        self._by_state.clear()

    def _write_runs(self, channel: int, ids: list[int], state: bytes, out: list[bytes]) -> None:
        if len(ids) > 1:
            ids = _in_order(ids)
        first = last = ids[0]
        for delivery_id in ids:
            if delivery_id - last > 1:
                out.append(self._frame(channel, first, last, state))
                first = delivery_id
            last = delivery_id
        out.append(self._frame(channel, first, last, state))

    def _frame(self, channel: int, first: int, last: int, state: bytes) -> bytes:
        return encode_disposition(
            channel, self.role, first & _MASK, last & _MASK, self.settled, state
        )


def _in_order(ids: list[int]) -> list[int]:
    """Ascending; ids on both sides of the wrap from 4294967295 to 0 stay together."""
    ids.sort()
    if ids[-1] - ids[0] >= _HALF:
        ids = sorted([n if n >= _HALF else n + _MASK + 1 for n in ids])
    return ids
