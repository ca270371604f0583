"""A peer with bad manners: hand-made frames on a plain socket, as many and as wrong as wanted.

It reads only when told to. Sending stops by itself when the server has had enough of it: by
closing, or by not reading any more.
"""

import socket
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Self

from partibus.amqp.codec.encode import encode_described_list, encode_value
from partibus.amqp.codec.types import Symbol, UByte, UInt
from partibus.amqp.framing import AMQP_HEADER, FRAME_HEAD, SASL_HEADER, encode_frame
from partibus.amqp.terminus import encode_source, encode_target
from support.amqp.engines import parse_frames
from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess

ANSWER_SECONDS_MAX: Final = 30.0
# A server that takes nothing for so long is not going to: it has stopped reading.
STALLED_SECONDS: Final = 3.0
WINDOW_MAX: Final = 0x7FFFFFFF

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)


class Intruder:
    """One raw connection."""

    def __init__(self, server: ServerProcess, *, receive_buffer_bytes: int = 0) -> None:
        self._buffer = b""
        self._read: deque[tuple[int, int, list[object]]] = deque()
        self.socket = socket.socket()
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(ANSWER_SECONDS_MAX)
        self.socket.connect(("127.0.0.1", server.ready.amqp_port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.socket.close()

    # --- sending ----------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self, code: int, *fields: object, channel: int = 0, payload: bytes = b"") -> None:
        self.send(frame(code, *fields, channel=channel, payload=payload))

    def flood(self, pieces: Iterable[bytes], bytes_max: int) -> int:
        """Send without reading until it is enough or no longer taken; how much was, about."""
        sent = 0
        self.socket.settimeout(STALLED_SECONDS)
        for piece in pieces:
            try:
                self.socket.sendall(piece)
            except (TimeoutError, ConnectionError):
                break
            sent += len(piece)
            if sent >= bytes_max:
                break
        self.socket.settimeout(ANSWER_SECONDS_MAX)
        return sent

    # --- a decent beginning -----------------------------------------------------------------

    def opened(self, *, anonymous: bool = False) -> Self:
        """Authenticate and open."""
        self.send(opening(anonymous=anonymous))
        self.await_any(OPEN)
        return self

    def begun(self, channel: int = 0) -> Self:
        self.frame(
            BEGIN, None, UInt(0), UInt(WINDOW_MAX), UInt(WINDOW_MAX), UInt(65535), channel=channel
        )
        self.await_any(BEGIN)
        return self

    def attached(self, address: str, *, sends: bool, handle: int = 0, channel: int = 0) -> Self:
        self.send(attach(address, f"link-{channel}-{handle}", sends, handle, channel))
        self.await_any(ATTACH)
        return self

    # --- reading ----------------------------------------------------------------------------

    def await_any(self, *codes: int) -> list[object]:
        """Read until a frame of one of these kinds comes; its fields."""
        for _, found, fields in self.frames():
            if found in codes:
                return fields
        raise AssertionError("the server ended the connection without a word")

    def frames(self) -> Iterator[tuple[int, int, list[object]]]:
        """Every frame that comes, until the connection ends."""
        while True:
            while self._read:
                yield self._read.popleft()
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                return
            if not data:
                return
            self._buffer += data
            whole = _whole_frames(self._buffer)
            self._read.extend(parse_frames(self._buffer[:whole]))
            self._buffer = self._buffer[whole:]

    def read_to_end(self) -> list[int]:
        """The codes of all frames until the server ends the connection."""
        return [code for _, code, _ in self.frames()]


def opening(*, anonymous: bool = False) -> bytes:
    """All that a client says until it is open, in one go."""
    plain = b"\0" + ROOT_POLICY.encode() + b"\0" + ROOT_KEY.encode()
    mechanism = Symbol("ANONYMOUS" if anonymous else "PLAIN")
    initial = None if anonymous else plain
    init = encode_described_list(0x41, [encode_value(v) for v in (mechanism, initial, None)])
    begun = SASL_HEADER + encode_frame(0, init, 1) + AMQP_HEADER
    return begun + frame(OPEN, "intruder", "127.0.0.1")


def frame(code: int, *fields: object, channel: int = 0, payload: bytes = b"") -> bytes:
    body = encode_described_list(code, [encode_value(field) for field in fields])
    return encode_frame(channel, body + payload)


def attach(address: str, name: str, sends: bool, handle: int = 0, channel: int = 0) -> bytes:
    """An attach frame of a link that sends to an address, or receives from it."""
    values = [name, UInt(handle), not sends, UByte(0), UByte(0)]
    fields = [encode_value(value) for value in values]
    fields += [encode_source(name if sends else address), encode_target(address if sends else name)]
    fields += [encode_value(value) for value in (None, None, UInt(0) if sends else None)]
    return encode_frame(channel, encode_described_list(ATTACH, fields))


def transfer(
    number: int, payload: bytes, *, more: bool = False, settled: bool = False, handle: int = 0
) -> bytes:
    tag = number.to_bytes(4, "big")
    fields = (UInt(handle), UInt(number), tag, UInt(0), settled, more)
    return frame(TRANSFER, *fields, payload=payload)


def flow(credit: int, *, handle: int = 0) -> bytes:
    window = (UInt(0), UInt(WINDOW_MAX), UInt(0), UInt(WINDOW_MAX))
    return frame(FLOW, *window, UInt(handle), UInt(0), UInt(credit))


def _whole_frames(buffer: bytes) -> int:
    """How many bytes of the buffer are whole frames and headers."""
    at = 0
    while len(buffer) - at >= 8:
        size = 8 if buffer.startswith(b"AMQP", at) else FRAME_HEAD.unpack_from(buffer, at)[0]
        if len(buffer) - at < size:
            break
        at += size
    return at
