"""Writes to the catalog, beside the loop: a sync keeps only the one waiting who asked for it.

Owns a thread with a catalog of its own on the same file. A change is checked, written and synced
there; then the catalog of the loop takes it over as it takes over what other processes write, and
those who follow it hear of it. So nothing in this process knows of a change before it is durable.
A catalog that is only in memory is written by the loop itself. Made by the node.
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from partibus.control.catalog import Catalog

_Result = TypeVar("_Result")


class CatalogWriter:
    """The one way in which a process that serves changes its catalog."""

    def __init__(self, catalog: Catalog, open_own: Callable[[], Catalog] | None = None) -> None:
        self._catalog = catalog
        self._open_own = open_own
        """Opens the file once more; None when the loop writes."""
        self.on_written: Callable[[int], None] | None = None
        """Called on the loop with the generation that a change has led to, before it is read."""
        self._own: Catalog | None = None
        """Of the thread; opened with the first change."""
        self._thread = ThreadPoolExecutor(1, "catalog-write")

    @property
    def generation(self) -> int:
        """How many changes the namespace has seen, as far as this process knows."""
        return self._catalog.generation

    async def write(self, change: Callable[[Catalog], _Result]) -> _Result:
        """Make a change: durable, and known to this process, when the answer comes.

        It continues even when the caller stops waiting."""
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
        """On the thread."""
        if self._own is None:
            assert self._open_own is not None
            self._own = self._open_own()
        for fragment_id in dropped:
            self._own.dropped(fragment_id)
        return change(self._own)

    def close(self) -> None:
        """Finish what was asked and let go of the file."""
        if self._open_own is not None:
            self._thread.submit(self._close_own).result()
        self._thread.shutdown()

    def _close_own(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None
