"""Writes to the catalog off the loop: a sync delays only the request that caused it.

Owns a thread with a catalog of its own on the same file. A change is checked, written and synced
there; then the catalog of the loop reads it like a change of another process, and its followers are
notified. So no part of this process knows of a change before it is durable. A catalog that is only
in memory is written by the loop itself. Made by the node.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from partibus.control.catalog.catalog import Catalog

_Result = TypeVar("_Result")


class CatalogWriter:
    """The only way in which a serving process changes its catalog."""

    def __init__(self, catalog: Catalog, open_own: Callable[[], Catalog] | None = None) -> None:
        self._catalog = catalog
        self._open_own = open_own
        """Opens the file again, for the thread; None when the loop writes."""
        self.on_written: Callable[[int], None] | None = None
        """Called on the loop with the generation of a change, before it is read."""
        self._own: Catalog | None = None
        """Used by the thread; opened with the first change."""
        self._thread = ThreadPoolExecutor(1, "catalog-write")

    @property
    def generation(self) -> int:
        """How many changes the namespace has had, as far as this process knows."""
        return self._catalog.generation

    async def write(self, change: Callable[[Catalog], _Result]) -> _Result:
        """Make a change: durable, and known to this process, when it returns.

        It continues even when the caller stops waiting.
        """
        if self._open_own is None:
            return change(self._catalog)
        return await asyncio.shield(asyncio.ensure_future(self._write(change)))

    async def _write(self, change: Callable[[Catalog], _Result]) -> _Result:
        loop = asyncio.get_running_loop()
        dropped = self._catalog.take_dropped()
        result = await loop.run_in_executor(self._thread, self._write_apart, change, dropped)
        if self.on_written is not None and self._own is not None:
            self.on_written(self._own.generation)
        self._catalog.refresh()
        return result

    def _write_apart(self, change: Callable[[Catalog], _Result], dropped: Iterable[int]) -> _Result:
        """Runs on the thread."""
        if self._own is None:
            assert self._open_own is not None
            self._own = self._open_own()
        for fragment_id in dropped:
            self._own.dropped(fragment_id)
        return change(self._own)

    def close(self) -> None:
        """Finish pending writes and close the file."""
        if self._open_own is not None:
            self._thread.submit(self._close_own).result()
        self._thread.shutdown()

    def _close_own(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None
