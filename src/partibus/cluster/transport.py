"""How two processes of one bus are connected: what carries the bytes of a `PeerChannel`.

Owns the interface that `cluster.peers` uses and its form for the workers of one machine: Unix
sockets in a directory that only their user can enter. Nodes of a cluster use
`cluster.tls_transport`. Knows no row and no greeting.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from partibus.cluster.channel import PeerChannel


class PeerDoor(Protocol):
    """What lets the other processes in."""

    def close(self) -> None:
        """Let nobody in any more; those who are in stay."""
        ...


class PeerTransport(Protocol):
    """The way to the other processes, and theirs to this one."""

    async def listen(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], PeerChannel]
    ) -> PeerDoor:
        """Let the others in; each gets a channel of its own."""
        ...

    async def connect(
        self, loop: asyncio.AbstractEventLoop, number: int, channel: PeerChannel
    ) -> None:
        """Connect a channel to one of the others; OSError when it cannot be reached."""
        ...


class UnixTransport:
    """Unix sockets, one for each process, at the path of its number."""

    def __init__(self, number: int, path: Callable[[int], Path]) -> None:
        self._number = number
        self._path = path

    async def listen(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], PeerChannel]
    ) -> PeerDoor:
        path = self._path(self._number)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return await loop.create_unix_server(make, str(path))

    async def connect(
        self, loop: asyncio.AbstractEventLoop, number: int, channel: PeerChannel
    ) -> None:
        await loop.create_unix_connection(lambda: channel, str(self._path(number)))
