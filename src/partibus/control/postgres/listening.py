"""Immediate notification when another node has changed the control plane.

Owns a connection that only listens and the pause between attempts to reconnect. Notifications may
be late, or missing while the connection is lost: its users poll as well. Must never read or write a
table. Started by the leases and by the feed of the catalog.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from psycopg import sql

from partibus.control.postgres.session import AsyncConnection, ControlSession, stop_task
from partibus.domain.errors import BusError

RETRY_S: Final = 1.0
LISTEN_S: Final = 5.0
"""After this long without a notification the connection is checked."""

_log: Final = logging.getLogger(__name__)


class Listening:
    """Calls `heard` on the loop for each notification on a channel, and at times without one."""

    def __init__(self, dsn: str, channel: str, heard: Callable[[], None]) -> None:
        self._session = ControlSession(dsn, f"listen-{channel}", work_ms=int(LISTEN_S * 2000))
        self._channel = channel
        self._heard = heard
        self._task: asyncio.Task[None] | None = None
        self.is_up = False
        """Whether no notification was missed since the last call of `heard`."""

    def start(self) -> None:
        """Listen from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop listening."""
        await stop_task(self._task)
        await self._session.close()

    async def _run(self) -> None:
        while True:
            try:
                await self._session.run(self._listen)
            except BusError as error:
                self.is_up = False
                _log.info("%s; it is polled meanwhile", error)
                await asyncio.sleep(RETRY_S)

    async def _listen(self, connection: AsyncConnection) -> None:
        """Wait for a notification, or for a while; the statement detects a lost connection, and
        notifications between two calls are found too."""
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self.is_up = True
        self._heard()
        async for _ in connection.notifies(timeout=LISTEN_S, stop_after=1):
            self._heard()
