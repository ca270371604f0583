"""A wire between a client and the server that a test can cut, and listen to.

Owns a listening socket and two threads for each connection that copy bytes. Cutting resets
both sides without a word of AMQP, as a broken network does. What the server said is kept, so
that a test can look at its frames.
"""

import contextlib
import socket
import struct
import threading
from types import SimpleNamespace
from typing import Final, Self

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.types import Described

_NO_LINGER: Final = struct.pack("ii", 1, 0)
_CHUNK_BYTES: Final = 65536
_PROTOCOL_HEADER_BYTES: Final = 8


class Relay:
    """Listens on a port of its own and passes every connection on to the server's."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._said = bytearray()
        # What clients of this folder ask a server for: its port.
        self.ready = SimpleNamespace(amqp_port=self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.cut()
        self._listening.close()

    def cut(self) -> None:
        """Reset every connection on both sides."""
        for end in self._sockets:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            # A thread that still reads holds the socket open; shutting down wakes it.
            _shut(end)
            end.close()
        self._sockets.clear()

    def performatives(self, code: int) -> list[list[object]]:
        """The fields of every performative of this kind that the server has sent."""
        found = []
        for frame in self._frames():
            performative, _ = decode_value(frame, 0, len(frame))
            assert isinstance(performative, Described)
            if performative.descriptor == code:
                assert isinstance(performative.value, list)
                found.append(performative.value)
        return found

    def _frames(self) -> list[bytes]:
        """The bodies of AMQP frames; SASL frames and empty ones are left out."""
        said, frames, at = bytes(self._said), [], 0
        while at + _PROTOCOL_HEADER_BYTES <= len(said):
            if said[at : at + 4] == b"AMQP":
                at += _PROTOCOL_HEADER_BYTES
                continue
            size = int.from_bytes(said[at : at + 4], "big")
            start = at + 4 * said[at + 4]
            if said[at + 5] == 0 and start < at + size <= len(said):
                frames.append(said[start : at + size])
            at += size
        return frames

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server_port))
            self._sockets += (client, server)
            threading.Thread(target=self._copy, args=(client, server), daemon=True).start()
            threading.Thread(target=self._listen, args=(server, client), daemon=True).start()

    def _listen(self, server: socket.socket, client: socket.socket) -> None:
        self._copy(server, client, self._said)

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket, heard: bytearray | None = None) -> None:
        try:
            while data := source.recv(_CHUNK_BYTES):
                if heard is not None:
                    heard += data
                target.sendall(data)
        except OSError:
            pass
        finally:
            _shut(target)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
