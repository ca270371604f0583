"""A node follows what others write into the cluster's catalog, without blocking its loop.

Owns when the generation of the catalog is read: at once after a notification, and once a second in
any case. The catalog itself reads what is new, when it is notified here. Must never write. Started
and stopped by the node.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from partibus.control.postgres.listening import Listening
from partibus.control.postgres.session import AsyncConnection, ControlSession, stop_task
from partibus.domain.errors import BusError

CATALOG_CHANNEL: Final = "partibus_catalog"
POLL_S: Final = 1.0

_log: Final = logging.getLogger(__name__)


class CatalogFeed:
    """Knows the generation of the catalog; `on_news` is called on the loop after a change."""

    def __init__(self, dsn: str, on_news: Callable[[], None]) -> None:
        self._session = ControlSession(dsn, "feed")
        self._wake = asyncio.Event()
        self._listening = Listening(dsn, CATALOG_CHANNEL, self._wake.set)
        self._on_news = on_news
        self._task: asyncio.Task[None] | None = None
        self._reported = 0
        self.generation = 0

    async def start(self) -> None:
        """Read the generation, then follow it; StoreUnavailable when the database is
        unreachable."""
        self.generation = self._reported = await self._session.run(_read_generation)
        self._listening.start()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop following."""
        await stop_task(self._task)
        await self._listening.stop()
        await self._session.close()

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()
            self._wake.clear()
            try:
                self._look(await self._session.run(_read_generation))
            except BusError as error:
                _log.warning("the catalog cannot be followed: %s", error)
                await asyncio.sleep(POLL_S)
            except Exception:
                _log.exception("a change of the catalog could not be applied; it is tried again")

    def _look(self, generation: int) -> None:
        """Report new changes; if that fails, they stay new."""
        self.generation = generation
        if generation != self._reported:
            self._on_news()
            self._reported = generation


async def _read_generation(connection: AsyncConnection) -> int:
    cursor = await connection.execute(
        "SELECT value FROM partibus_cluster.setting WHERE name = 'generation'"
    )
    row = await cursor.fetchone()
    return 0 if row is None else int(row[0])
