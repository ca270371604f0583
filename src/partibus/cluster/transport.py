"""How two processes of one bus are connected: what carries the bytes of a `PeerChannel`.

Owns the interface that `cluster.peers` uses and its form for the workers of one machine: Unix
sockets in a directory that only their user can enter. Nodes of a cluster use
`cluster.tls_transport`. Knows no rows and no greetings.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from partibus.cluster.channel import PeerChannel


class PeerListener(Protocol):
    """What admits the other processes."""

    def close(self) -> None:
        """Admit no more; existing connections stay."""
        ...


class PeerTransport(Protocol):
    """Connections to the other processes, and from them to this one."""

    async def listen(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], PeerChannel]
    ) -> PeerListener:
        """Admit the others; each gets a separate channel."""
        ...

    async def connect(
        self, loop: asyncio.AbstractEventLoop, number: int, channel: PeerChannel
    ) -> None:
        """Connect a channel to one of the others; OSError when it is unreachable."""
        ...


class UnixTransport:
    """Unix sockets, one for each process, at the path of its number."""

    def __init__(self, number: int, path: Callable[[int], Path]) -> None:
        self._number = number
        self._path = path

    async def listen(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], PeerChannel]
    ) -> PeerListener:
        path = self._path(self._number)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return await loop.create_unix_server(make, str(path))

    async def connect(
        self, loop: asyncio.AbstractEventLoop, number: int, channel: PeerChannel
    ) -> None:
        await loop.create_unix_connection(lambda: channel, str(self._path(number)))
