"""A store that is read but not changed: for the offline check.

Owns a recovery that repairs nothing, and the reading of all bodies with the position of each
damaged one. Holds the store's lock while it is read. Must never interpret records. Called by
`server.data_directory.check` and by `server.copying`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt, StoreUnavailable
from partibus.store.files.disk import OsDisk
from partibus.store.files.inventory import take_inventory
from partibus.store.files.lock import DirectoryLock
from partibus.store.files.recovery import LogScan
from partibus.store.interface import Recovered, Ref
from partibus.store.pages import PageReader
from partibus.store.reading import BodyReader, plan_runs
from partibus.store.table import SegmentTable

BODIES_AT_ONCE: Final = 256


class StoreUnderCheck:
    """One store, from its opening to `close`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._disk = OsDisk()
        self._table = SegmentTable(directory)
        self._lock = DirectoryLock(directory)
        self._reader = BodyReader(self._disk, directory)
        self._store_id = b""
        self._scan: LogScan | None = None
        self._pages: PageReader | None = None

    def close(self) -> None:
        """Release the store."""
        self._reader.segments.close()
        if self._pages is not None:
            self._pages.close()
        self._lock.release()

    def recover(self) -> Recovered:
        """What a server would recover; raises StoreCorrupt where one would refuse."""
        inventory = take_inventory(self._disk, self._directory, tidies=False)
        checkpoint = inventory.checkpoint
        if not inventory.bases:
            return Recovered({}, iter(()))
        self._table.fill(inventory.bases, inventory.sizes, inventory.compacted)
        self._store_id = inventory.store_id
        self._scan = scan = LogScan(self._disk, self._directory, inventory)
        places = checkpoint.places if checkpoint else {}
        self._pages = PageReader(self._disk, self._directory, places, inventory.store_id)
        return Recovered(checkpoint.states if checkpoint else {}, scan.records(), self._pages)

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        """The id of the log, and its end once all records were read."""
        return None if self._scan is None else (self._store_id, self._scan.end)

    def bodies(self, refs: list[Ref]) -> list[bytes]:
        """The bodies in the order asked for; StoreCorrupt names the first that is damaged."""
        return self._reader.read(refs, plan_runs(self._table, refs))

    def damaged_bodies(self, refs: Iterable[Ref]) -> list[str]:
        """Describe each damaged body, by its file and offset."""
        ordered = sorted({ref for ref in refs if ref[1]})
        found: list[str] = []
        for first in range(0, len(ordered), BODIES_AT_ONCE):
            some = ordered[first : first + BODIES_AT_ONCE]
            if self._damage(some) is not None:
                found += [text for ref in some if (text := self._damage([ref])) is not None]
        return found

    def _damage(self, refs: list[Ref]) -> str | None:
        try:
            self.bodies(refs)
        except (StoreCorrupt, StoreUnavailable) as error:
            return error.text
        return None
