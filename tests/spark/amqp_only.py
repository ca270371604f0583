"""A way to the bus that passes AMQP and nothing else, as Azure's port 5671 does.

Owns a small proxy: a connection whose first bytes are not those of AMQP [2.2] is closed and
counted, so that a test can say that nothing else was ever tried.
"""

import contextlib
import socket
import threading
from typing import Final, Self

PREAMBLE: Final = b"AMQP"


class AmqpOnly:
    """Listens on a port of its own and passes to another."""

    def __init__(self, port: int) -> None:
        self._there = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.passed = 0
        self.refused: list[bytes] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        first = client.recv(4096)
        if first and not first.startswith(PREAMBLE):
            self.refused.append(first)
        if not first.startswith(PREAMBLE):
            client.close()
            return
        self.passed += 1
        server = socket.create_connection(("127.0.0.1", self._there))
        server.sendall(first)
        threading.Thread(target=_pump, args=(server, client), daemon=True).start()
        _pump(client, server)


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until either side is gone."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
