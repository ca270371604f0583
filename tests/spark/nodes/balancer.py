"""The load balancer in front of a cluster: one address, and whichever node is healthy behind it.

Owns a listening socket, the health check of each node and the connections that it carries. A node
whose health check fails is given nothing more and its connections are cut, as load balancers do
it; so neither a node that is killed nor one that stands still keeps a client waiting.
"""

import contextlib
import http.client
import itertools
import re
import socket
import threading
from collections.abc import Sequence
from typing import Final, Self

from adversity.waiting import wait_until
from support.server import ServerProcess

_CHECK_PAUSE_S: Final = 0.3
_CHECK_S_MAX: Final = 3.0
_CHUNK: Final = 1 << 16


class Balancer:
    """Forwards connections to the nodes that answer, in turn."""

    def __init__(self, nodes: Sequence[ServerProcess]) -> None:
        self._nodes = list(nodes)
        self._turns = itertools.count()
        self._healthy: set[int] = set()
        self._carried: dict[int, set[socket.socket]] = {n: set() for n in range(len(nodes))}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads += [
            threading.Thread(target=self._check, args=(number,), daemon=True)
            for number in range(len(nodes))
        ]

    @property
    def connection_string(self) -> str:
        """That of the nodes, with this address."""
        return re.sub(r"(Endpoint=sb://[^:;]+:)\d+", rf"\g<1>{self.port}", self._any_string())

    def _any_string(self) -> str:
        return self._nodes[0].connection_string

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        wait_until(lambda: len(self._healthy) == len(self._nodes), "all nodes are healthy")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ends.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for number in self._carried:
            self._cut(number)
        for thread in self._threads:
            thread.join()

    # --- health -----------------------------------------------------------------------------

    def _check(self, number: int) -> None:
        while not self._ends.wait(_CHECK_PAUSE_S):
            if self._answers(self._nodes[number].ready.amqp_port):
                self._healthy.add(number)
            else:
                self._healthy.discard(number)
                self._cut(number)

    def _answers(self, port: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_CHECK_S_MAX)
        try:
            connection.request("GET", "/livez")
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _cut(self, number: int) -> None:
        with self._lock:
            carried, self._carried[number] = self._carried[number], set()
        for end in carried:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    # --- connections ------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client:
            found = self._connected()
            if found is None:
                return
            number, server = found
            with self._lock:
                self._carried[number] |= {client, server}
            with server:
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join()
            with self._lock:
                self._carried[number] -= {client, server}

    def _connected(self) -> tuple[int, socket.socket] | None:
        turn = next(self._turns)
        order = sorted(self._healthy, key=lambda number: (number - turn) % len(self._nodes))
        for number in order:
            with contextlib.suppress(OSError):
                port = self._nodes[number].ready.amqp_port
                return number, socket.create_connection(("127.0.0.1", port), timeout=None)
        return None


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
