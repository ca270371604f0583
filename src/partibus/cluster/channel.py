"""One connection between two workers: rows out, rows in, many to a frame.

Owns the frames (a length of four bytes, then a msgpack list of rows), the gathering of all rows of
one loop turn into one frame, and the bounds on unsent data. The two ends, in `cluster.peers`,
decide who asks and who answers. Three policies: beyond UNSENT_BYTES_MAX, when a peer does not read,
the channel reports that it is full and should get no more messages; beyond UNSENT_BYTES_CUT it is
closed; and a frame that cannot be decoded closes it as well. A row that cannot be encoded is
reported separately; the other rows of its frame are sent.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec

from partibus.cluster.rows import Row

FRAME_BYTES: Final = 1024 * 1024
"""The approximate size at which a frame ends, so that the other end can begin with it."""
FRAME_BYTES_MAX: Final = 1 << 30
"""No row comes near this: a longer frame is not valid."""
WRITE_BUFFER_BYTES_HIGH: Final = 2 * FRAME_BYTES
WRITE_BUFFER_BYTES_LOW: Final = FRAME_BYTES // 2
UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""When a peer does not read: some seconds of traffic."""
UNSENT_BYTES_CUT: Final = 4 * UNSENT_BYTES_MAX
"""Answers and settlements cannot be refused; a peer with this many unread is disconnected."""

_LENGTH: Final = struct.Struct(">I")
_HEAD_BYTES: Final = _LENGTH.size

log = logging.getLogger(__name__)


class PeerChannel(asyncio.Protocol):
    """Both ends of a connection between workers are one of these."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        receive: Callable[[Sequence[Row]], None],
        lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self.receive = receive
        """Handles the rows of a frame; replaced when the ends have greeted each other."""
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._encode = msgspec.msgpack.Encoder().encode_into
        self._decode = msgspec.msgpack.Decoder(list[list[object]]).decode
        self._rows: list[Row] = []
        self._row_bytes: list[int] = []
        self._unsent_bytes = 0
        self._is_flush_due = False
        self._is_paused = False
        self._chunks: list[bytes] = []
        self._have_bytes = 0
        self._need_bytes = _HEAD_BYTES
        self.last_heard = loop.time()
        self.after_flush: Callable[[], None] | None = None
        self.on_blocked: Callable[[bool], None] | None = None
        self.on_unsendable: Callable[[Row], None] | None = None
        """Called for each row that cannot be encoded, so that its request is answered."""

    # --- out ------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """The peer has not read for a while: send it no more messages now."""
        return self._is_paused and self._unsent_bytes > UNSENT_BYTES_MAX

    def post(self, row: Row, byte_count: int) -> None:
        """Send a row, with others of this turn."""
        self._rows.append(row)
        self._row_bytes.append(byte_count)
        self._unsent_bytes += byte_count
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write the gathered rows, as far as the peer reads."""
        self._is_flush_due = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        while self._rows and not self._is_paused:
            transport.write(self._frame(self._take()))
        if self._unsent_bytes > UNSENT_BYTES_CUT:
            log.error("another worker does not read its messages: reconnecting")
            self.abort()
        elif self.after_flush is not None and not self._is_paused:
            self.after_flush()

    def _frame(self, rows: list[Row]) -> bytearray:
        """The encoded rows; those that cannot be encoded are left out and reported."""
        buffer = bytearray(_HEAD_BYTES)
        try:
            self._encode(rows, buffer, _HEAD_BYTES)
        except Exception:
            # The rows belong to many clients: one of them must not affect the others.
            buffer = bytearray(_HEAD_BYTES)
            self._encode([row for row in rows if self._is_sendable(row)], buffer, _HEAD_BYTES)
        _LENGTH.pack_into(buffer, 0, len(buffer) - _HEAD_BYTES)
        return buffer

    def _is_sendable(self, row: Row) -> bool:
        """Whether a row can be encoded; one that cannot is reported."""
        try:
            self._encode(row, bytearray())
        except Exception:
            log.exception("a row of code %s cannot be sent to another worker", row[0])
            if self.on_unsendable is not None:
                self.on_unsendable(row)
            return False
        return True

    def _take(self) -> list[Row]:
        """The rows of the next frame."""
        rows, sizes = self._rows, self._row_bytes
        if self._unsent_bytes <= FRAME_BYTES:
            self._rows, self._row_bytes, self._unsent_bytes = [], [], 0
            return rows
        count = byte_count = 0
        while count < len(sizes) and byte_count < FRAME_BYTES:
            byte_count += sizes[count]
            count += 1
        self._rows, self._row_bytes = rows[count:], sizes[count:]
        self._unsent_bytes -= byte_count
        return rows[:count]

    def unsent(self) -> list[Row]:
        """Rows that were never sent; to be read when the connection is gone."""
        return self._rows

    # --- the connection -------------------------------------------------------------------

    @property
    def certificate(self) -> dict[str, object] | None:
        """The verified certificate of the other end; None on a socket of this machine."""
        transport = self._transport
        return None if transport is None else transport.get_extra_info("peercert")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_BYTES_HIGH, WRITE_BUFFER_BYTES_LOW)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost()

    def pause_writing(self) -> None:
        self._is_paused = True
        if self.on_blocked is not None:
            self.on_blocked(True)

    def resume_writing(self) -> None:
        self._is_paused = False
        if self.on_blocked is not None:
            self.on_blocked(False)
        self.flush()

    def pause_reading(self) -> None:
        """Read nothing more from the peer for now; a second call does nothing."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again; a second call does nothing."""
        transport = self._transport
        if transport is not None and not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()

    def close(self) -> None:
        """Close after everything posted is sent."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- in -------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.last_heard = self._loop.time()
        self._chunks.append(data)
        self._have_bytes += len(data)
        if self._have_bytes >= self._need_bytes:
            try:
                self._take_frames()
            except Exception:
                # After a row that could not be handled nothing can be trusted.
                log.exception("a frame from another worker could not be processed")
                self.abort()

    def _take_frames(self) -> None:
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        view = memoryview(data)
        offset, end = 0, len(data)
        need = _HEAD_BYTES
        while end - offset >= _HEAD_BYTES:
            (length,) = _LENGTH.unpack_from(data, offset)
            if length > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {length} bytes exceeds {FRAME_BYTES_MAX}")
            begin = offset + _HEAD_BYTES
            if end - begin < length:
                need = _HEAD_BYTES + length
                break
            offset = begin + length
            self.receive(self._decode(view[begin:offset]))
        self._have_bytes = end - offset
        self._need_bytes = need
        if offset < end:
            self._chunks.append(data[offset:] if offset else data)
