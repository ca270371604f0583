"""Listening sockets: binding a port on every address of a host, and the accept loop.

Owns listening sockets only; an accepted one is passed on at once. The loop uses `add_reader`
because the first bytes must be peeked at before a transport takes the socket (TLS or plain), which
`create_server` does not allow. It must never spin: when the process runs out of descriptors it
pauses for a moment.
"""

import asyncio
import contextlib
import enum
import errno
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from partibus.domain.errors import ConfigError
from partibus.listener.own_address import EVERY_INTERFACE

# A burst of clients waits here while the loop is busy; the kernel caps it at somaxconn.
BACKLOG: Final = 4096
# Accepting is bounded per wake-up so that a flood of connections cannot starve existing clients:
# about a millisecond.
ACCEPTS_PER_WAKE: Final = 16
# Long enough for descriptors to come free, short enough that clients do not time out.
ACCEPT_PAUSE_S: Final = 0.1
# Port 0 on several addresses: the port picked on the first must be free on the others.
SAME_PORT_ATTEMPTS: Final = 16

_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FAMILY_ABSENT: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

log = logging.getLogger(__name__)


class PortUse(enum.Enum):
    """What a port is used for."""

    OWN = "one process listens"
    SHARED = "several processes of one server listen"
    RESERVED = "held for them, without listening"


def bind(host: str, port: int, flag: str, *, shared: bool = False) -> list[socket.socket]:
    """Listen on `port` of every address of `host`; ConfigError names port and flag.

    A `shared` port was reserved before: other processes of this server listen on it too, and the
    kernel distributes the connections over the running ones.
    """
    return _bind_everywhere(host, port, flag, PortUse.SHARED if shared else PortUse.OWN)


def reserve(host: str, port: int, flag: str) -> list[socket.socket]:
    """Hold `port` for processes that will share it, without listening on it.

    A port that another program listens on is refused, even if that would share it.
    """
    return _bind_everywhere(host, port, flag, PortUse.RESERVED)


def _bind_everywhere(host: str, port: int, flag: str, use: PortUse) -> list[socket.socket]:
    for attempt in range(SAME_PORT_ATTEMPTS):
        try:
            return _bind_all(_addresses(host, flag), port, use)
        except OSError as error:
            is_unlucky = port == 0 and error.errno == errno.EADDRINUSE
            if not is_unlucky or attempt == SAME_PORT_ATTEMPTS - 1:
                raise _refusal(error, host, port, flag) from error
    raise AssertionError("the last attempt either returned or raised")


def _addresses(host: str, flag: str) -> list[tuple[socket.AddressFamily, str]]:
    try:
        named = None if host == EVERY_INTERFACE else host
        found = socket.getaddrinfo(named, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"--host {host} cannot be resolved for {flag}: {reason}") from error
    return list(dict.fromkeys((entry[0], str(entry[4][0])) for entry in found))


def _bind_all(
    addresses: list[tuple[socket.AddressFamily, str]], port: int, use: PortUse
) -> list[socket.socket]:
    bound: list[socket.socket] = []
    absent: OSError | None = None
    with contextlib.ExitStack() as undo:
        for family, address in addresses:
            try:
                sock = _bind_one(family, address, port, use)
            except OSError as error:
                # "localhost" names ::1 even where IPv6 is switched off.
                if error.errno not in _FAMILY_ABSENT:
                    raise
                absent = error
                continue
            undo.callback(sock.close)
            bound.append(sock)
            port = sock.getsockname()[1]
        if not bound:
            assert absent is not None
            raise absent
        undo.pop_all()
    return bound


def _bind_one(family: socket.AddressFamily, address: str, port: int, use: PortUse) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # A restarted server must not wait for the last one's TIME_WAIT to pass.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if use is PortUse.SHARED:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, port))
        if use is PortUse.RESERVED:
            # Only now, so that a port shared by another server is seen to be in use.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        else:
            sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _refusal(error: OSError, host: str, port: int, flag: str) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} on {host} is in use: stop the other program, or give {flag} another"
            f" port (0 picks a free one, none disables it)"
        )
    if error.errno == errno.EACCES:
        return ConfigError(
            f"port {port} on {host} needs more privileges: give {flag} a port above 1023"
        )
    return ConfigError(f"port {port} on {host} ({flag}) cannot be opened: {error.strerror}")


@dataclass(eq=False, slots=True)
class AcceptLoop:
    """Accepts connections from one listening socket and passes them to `admit`."""

    loop: asyncio.AbstractEventLoop
    sock: socket.socket
    admit: Callable[[socket.socket], None]
    _pause: asyncio.TimerHandle | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._resume()

    def close(self) -> None:
        """Stop listening; accepted connections are not touched."""
        if self._pause is not None:
            self._pause.cancel()
        self.loop.remove_reader(self.sock.fileno())
        self.sock.close()

    def _resume(self) -> None:
        self._pause = None
        self.loop.add_reader(self.sock.fileno(), self._on_acceptable)

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_WAKE):
            try:
                accepted, _address = self.sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue
            except OSError as error:
                self._stop_for_a_moment(error)
                return
            accepted.setblocking(False)
            self.admit(accepted)

    def _stop_for_a_moment(self, error: OSError) -> None:
        """The waiting connection stays readable, so trying again at once would spin."""
        if error.errno not in _OUT_OF_RESOURCES:
            log.error("accept failed: %s", error)
        else:
            log.warning("out of resources, not accepting for a moment: %s", error.strerror)
        self.loop.remove_reader(self.sock.fileno())
        self._pause = self.loop.call_later(ACCEPT_PAUSE_S, self._resume)
