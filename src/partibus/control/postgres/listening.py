"""Hear at once when another node has changed the control plane.

Owns a connection that only listens and the wait between attempts to make it anew. What is heard may
be late, or nothing at all while the connection is gone: whoever uses it polls as well. Never reads
or writes a table. Started by the leases and by the feed of the catalog.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from psycopg import sql

from partibus.control.postgres.session import AsyncConnection, ControlSession
from partibus.domain.errors import BusError

RETRY_S: Final = 1.0
LISTEN_S: Final = 5.0
"""After so long a silence the database is asked whether it is still there."""

_log: Final = logging.getLogger(__name__)


class Listening:
    """Calls `heard` on the loop for each notification on a channel, and at times without one."""

    def __init__(self, dsn: str, channel: str, heard: Callable[[], None]) -> None:
        self._session = ControlSession(dsn, f"listen-{channel}", work_ms=int(LISTEN_S * 2000))
        self._channel = channel
        self._heard = heard
        self._task: asyncio.Task[None] | None = None
        self.is_up = False
        """Whether everything is heard, since the last call of `heard` and until it is False."""

    def start(self) -> None:
        """Listen from now on."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Hear no more."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
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
        """Until something is heard, or for a while; the statement finds a connection that is lost,
        and what came between two calls is looked for as if it had been heard."""
        await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self.is_up = True
        self._heard()
        async for _ in connection.notifies(timeout=LISTEN_S, stop_after=1):
            self._heard()
