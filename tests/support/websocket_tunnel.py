"""A way to the server over WebSocket for clients that only speak TCP.

Owns a listening socket and, for each client, a WebSocket to the server: what the client writes
goes out as binary messages, and back. Used by the tests that drive Qpid Proton, which has no
WebSocket of its own, and where raw AMQP conditions are compared over every transport.
"""

import contextlib
import socket
import threading
from typing import Final, Self

import websocket

SUBPROTOCOL: Final = "AMQPWSB10"
_CHUNK: Final = 64 * 1024


class WebSocketTunnel:
    """Clients of `port` reach the server at `server_port` over WebSocket."""

    def __init__(self, server_port: int) -> None:
        self._url = f"ws://localhost:{server_port}/$servicebus/websocket"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket | websocket.WebSocket] = []
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(self, *exc_info: object) -> None:
        # Shut down first: a thread that waits in accept does not notice a close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            with contextlib.suppress(OSError, websocket.WebSocketException):
                end.shutdown(socket.SHUT_RDWR) if isinstance(end, socket.socket) else end.abort()
        for thread in self._threads:
            thread.join()
        for end in self._open:
            end.close() if isinstance(end, socket.socket) else end.shutdown()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = websocket.create_connection(self._url, subprotocols=[SUBPROTOCOL])
            self._open += [client, server]
            self._run(_up, client, server)
            self._run(_down, server, client)

    def _run(self, target: object, *arguments: object) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


def _up(client: socket.socket, server: websocket.WebSocket) -> None:
    with contextlib.suppress(OSError, websocket.WebSocketException):
        while data := client.recv(_CHUNK):
            server.send_binary(data)
    server.abort()


def _down(server: websocket.WebSocket, client: socket.socket) -> None:
    with contextlib.suppress(OSError, websocket.WebSocketException):
        while data := server.recv():
            client.sendall(data)
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
