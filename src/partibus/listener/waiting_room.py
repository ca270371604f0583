"""A port that is bound while the server is not ready: clients are asked to retry.

Owns the answers until the listener takes the port over: 503 with a text for HTTP, a closed
connection for everything else. Tools that probe `/health` would otherwise wait for their own
timeout. It shares the listening socket and closes only its own copy of it.
"""

import asyncio
import json
import socket
from collections.abc import Sequence
from typing import Final

from partibus.listener.accept import AcceptLoop

MESSAGE: Final = "Service not available. Please try after some time."
"""The text of the vendor's emulator (EMU-6)."""
CLIENTS_MAX: Final = 64
"""Beyond this number connections are closed without an answer."""
_REQUEST_BYTES_MAX: Final = 8_192
_REQUEST_S_MAX: Final = 5.0
_METHODS: Final = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ")

_METHOD_BYTES_MAX: Final = max(map(len, _METHODS))


class WaitingRoom:
    """Answers on listening sockets from its creation until `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sockets: Sequence[socket.socket]) -> None:
        self._loop = loop
        self._visits: set[asyncio.Task[None]] = set()
        self._accept_loops = [AcceptLoop(loop, sock.dup(), self._admit) for sock in sockets]

    def close(self) -> None:
        """Release the port; connections without a request yet are closed."""
        for accept_loop in self._accept_loops:
            accept_loop.close()
        self._accept_loops.clear()
        for visit in self._visits:
            visit.cancel()

    def _admit(self, sock: socket.socket) -> None:
        if len(self._visits) >= CLIENTS_MAX:
            sock.close()
            return
        visit = self._loop.create_task(self._receive(sock))
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)
        visit.add_done_callback(lambda _: sock.close())  # also of one that never began

    async def _receive(self, sock: socket.socket) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S_MAX):
                request = await self._request(sock)
                if request.startswith(_METHODS):
                    await self._loop.sock_sendall(sock, answer_to(request))
        except (OSError, TimeoutError):
            pass  # it has left, or is too slow; either way it will try again

    async def _request(self, sock: socket.socket) -> bytes:
        """The complete head of a request, so that closing does not cut off our answer."""
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _REQUEST_BYTES_MAX:
            more = await self._loop.sock_recv(sock, _REQUEST_BYTES_MAX)
            if not more:
                break
            head += more
            if len(head) >= _METHOD_BYTES_MAX and not head.startswith(_METHODS):
                break
        return head


def answer_to(request: bytes) -> bytes:
    """503 for every path: a probe must wait, and gets the text it expects."""
    method, _, rest = request.partition(b" ")
    said: dict[str, object] = {"status": "unhealthy", "message": MESSAGE}
    if rest.startswith((b"/readyz", b"/livez")):
        said = {"status": "starting", "reasons": ["The server is starting."]}
    body = json.dumps(said).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
        "cache-control: no-store\r\nretry-after: 1\r\nconnection: close\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + (b"" if method == b"HEAD" else body)
