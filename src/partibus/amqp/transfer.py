"""Transfers: the frame that carries messages, in one piece or several [2.7.5, 2.6.14].

Owns the reading and writing of transfer frames; `unfinished` puts messages together from
several. Must never touch windows or credit: session and link count. This is the hottest
module of the engine; what follows the delivery-tag of a transfer is the same for nearly
all of a peer's transfers, so it is decoded once and found again by its bytes.
"""

import struct
from typing import Final

from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.encode import encode_uint
from partibus.amqp.delivery import DeliveryState, state_from_value
from partibus.amqp.settings import TAIL_CACHE_BYTES_MAX, TAIL_CACHE_ENTRIES_MAX

_U32: Final = struct.Struct(">I")

_TRANSFER_FIELDS: Final = 11
_TAIL_FIELDS_MAX: Final = 8
_LIST8_BYTES_MAX: Final = 255

# settled, more, rcv-settle-mode, state, resume, aborted, batchable: as the service writes them.
_REST: Final = b"\x40\x40\x42\x42\x41"
_SETTLED_LAST: Final = b"\x41\x42" + _REST
_UNSETTLED_LAST: Final = b"\x42\x42" + _REST
_SETTLED_MORE: Final = b"\x41\x41" + _REST
_UNSETTLED_MORE: Final = b"\x42\x41" + _REST


class TransferTail:
    """The fields after the delivery-tag. `message_format` is -1 when absent."""

    __slots__ = ("aborted", "count", "message_format", "more", "settled", "state", "whole")

    def __init__(
        self,
        count: int,
        message_format: int,
        settled: bool,
        more: bool,
        state: DeliveryState | None,
        aborted: bool,
    ) -> None:
        self.count = count
        self.message_format = message_format
        self.settled = settled
        self.more = more
        self.state = state
        self.aborted = aborted
        # A message that begins and ends in this frame, unless another is being put together.
        self.whole = not more and not aborted


def decode_transfer(
    buf: bytes, at: int, end: int, tails: dict[bytes, TransferTail]
) -> tuple[int, int, bytes | None, TransferTail, int]:
    """Handle, delivery-id (-1 when absent), tag, tail, and the offset of the payload.

    Offsets are checked once, at the end: anything read beyond the list is discarded.
    """
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
            raise DecodeError("a transfer is not a list with a handle")
        read = 1
        code = buf[at]
        if code == 0x52:
            handle = buf[at + 1]
            at += 2
        elif code == 0x43:
            handle = 0
            at += 1
        elif code == 0x70:
            handle = _U32.unpack_from(buf, at + 1)[0]
            at += 5
        else:
            raise DecodeError("the handle of a transfer is not a uint")
        delivery_id = -1
        tag: bytes | None = None
        if at < stop:
            read = 2
            code = buf[at]
            if code == 0x70:
                delivery_id = _U32.unpack_from(buf, at + 1)[0]
                at += 5
            elif code == 0x52:
                delivery_id = buf[at + 1]
                at += 2
            elif code == 0x43:
                delivery_id = 0
                at += 1
            elif code == 0x40:
                at += 1
            else:
                raise DecodeError("a delivery-id is not a uint")
        if at < stop:
            read = 3
            code = buf[at]
            if code == 0xA0:
                size = buf[at + 1]
                at += 2
                tag = buf[at : at + size]
                at += size
            elif code == 0x40:
                at += 1
            elif code == 0xB0:
                size = _U32.unpack_from(buf, at + 1)[0]
                at += 5
                tag = buf[at : at + size]
                at += size
            else:
                raise DecodeError("a delivery-tag is not binary")
    except (IndexError, struct.error):
        raise DecodeError("a transfer is truncated") from None
    if at > stop or stop > end:
        raise DecodeError("a transfer is truncated")
    raw = buf[at:stop]
    tail = tails.get(raw)
    if tail is None:
        tail = _decode_tail(raw, tails)
    if tail.count + read != count:
        raise DecodeError("a transfer's field count does not match its fields")
    return handle, delivery_id, tag, tail, stop


def _decode_tail(raw: bytes, tails: dict[bytes, TransferTail]) -> TransferTail:
    values: list[object] = []
    at = 0
    end = len(raw)
    while at < end:
        value, at = decode_value(raw, at, end)
        values.append(value)
    count = len(values)
    if count > _TAIL_FIELDS_MAX:
        raise DecodeError("a transfer has too many fields")
    values.extend([None] * (_TAIL_FIELDS_MAX - count))
    message_format = values[0]
    if message_format is None:
        message_format = -1
    elif not isinstance(message_format, int) or not 0 <= message_format <= 0xFFFFFFFF:
        raise DecodeError("a message-format is not a uint")
    for flag in (values[1], values[2], values[6]):
        if flag is not None and not isinstance(flag, bool):
            raise DecodeError("a flag of a transfer is not a boolean")
    tail = TransferTail(
        count,
        int(message_format),
        values[1] is True,
        values[2] is True,
        state_from_value(values[4]),
        values[6] is True,
    )
    if end <= TAIL_CACHE_BYTES_MAX:
        if len(tails) >= TAIL_CACHE_ENTRIES_MAX:
            tails.clear()
        tails[raw] = tail
    return tail


# --- writing ----------------------------------------------------------------------------------


def transfer_prefix(
    channel: int, handle: int, tag_bytes: int, message_format: int, state_bytes: int = 1
) -> bytes:
    """Everything between a frame's size and the delivery-id's number; ends with its code.

    A delivery-id is always written in four bytes, so that one prefix serves all transfers
    of a link whose tags are equally long. A state of one byte is null.
    """
    handle_field = encode_uint(handle)
    format_field = encode_uint(message_format)
    rest_size = len(_REST) - 1 + state_bytes
    list_size = 1 + len(handle_field) + 5 + 2 + tag_bytes + len(format_field) + 2 + rest_size
    assert list_size <= _LIST8_BYTES_MAX, "a state is too long for a transfer"
    head = bytes((2, 0, channel >> 8, channel & 0xFF, 0x00, 0x53, 0x14, 0xC0, list_size))
    return head + bytes((_TRANSFER_FIELDS,)) + handle_field + b"\x70"


def transfer_suffix(message_format: int, settled: bool, more: bool) -> bytes:
    """Everything after the delivery-tag."""
    if more:
        flags = _SETTLED_MORE if settled else _UNSETTLED_MORE
    else:
        flags = _SETTLED_LAST if settled else _UNSETTLED_LAST
    return encode_uint(message_format) + flags


def stateful_suffix(message_format: int, more: bool, state: bytes) -> bytes:
    """The same for an unsettled transfer with a state, as transactions need it [4.4.1]."""
    flags = b"\x42\x41\x40" if more else b"\x42\x42\x40"
    return encode_uint(message_format) + flags + state + _REST[2:]


PLAIN_SETTLED: Final = transfer_suffix(0, True, False)
PLAIN_UNSETTLED: Final = transfer_suffix(0, False, False)
