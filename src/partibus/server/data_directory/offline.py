"""Catalog and stores of a stopped server, as used by an offline verb.

Owns the settings of such a verb, a store that is opened for writing without a loop, and a temporary
copy of a catalog. The data directory is locked before anything is read, as by a server. Called by
`check`, `adopt` and `repair`.
"""

import contextlib
import queue
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.database import CatalogDatabase
from partibus.control.catalog.sealed import SealedCatalog, working_directory
from partibus.domain.errors import BusError, ConfigError
from partibus.fragment.upkeep.recovering import Rebuilt, rebuild
from partibus.fragment.upkeep.removal import all_bodies
from partibus.fragment.upkeep.store_marks import StoreMarks
from partibus.sealing.keys import DataKey
from partibus.server.config import ServeSettings
from partibus.server.data_directory.directory import CATALOG_NAME, lock_data_directory
from partibus.server.data_directory.encryption import data_key_of
from partibus.store.files.log import SegmentStore
from partibus.store.interface import Done
from partibus.store.record import Record

STORES_MAX = 1024
"""An offline verb accepts any number of stores; the catalog needs a limit."""


def offline_settings(
    data: Path,
    places: tuple[str, ...],
    stores: int | None,
    key_file: Path | None = None,
    key_command: str | None = None,
) -> ServeSettings:
    """The settings as a server would have them; without a count, the existing stores."""
    if not data.is_dir():
        raise ConfigError(f"--data {data} is not a directory; name the one the server was given.")
    if stores is None:
        found = [path.name.removeprefix("store-") for path in data.glob("store-*")]
        stores = max((int(n) + 1 for n in found if n.isdigit()), default=1)
    count = len(places) if places else stores
    return ServeSettings(
        data=data,
        stores=count,
        store_places=places,
        encryption_key_file=key_file,
        encryption_key_command=key_command,
    )


def refuse_encrypted(settings: ServeSettings, verb: str) -> None:
    """For a verb that does not support encrypted data."""
    if data_key_of(settings) is not None:
        raise ConfigError(
            f"{settings.data} is encrypted, which `partibus store {verb}` does not handle: restore "
            "a backup instead. Nothing was changed."
        )


def refuse_databases(settings: ServeSettings) -> None:
    """For verbs that only work on files."""
    for number in settings.store_databases:
        raise ConfigError(
            f"Store {number} is the {settings.store_name(number)}, and this verb works on "
            "directories only: use the tools of the database, or bring everything into a directory "
            "with `partibus store copy`. Nothing was changed."
        )


@contextlib.contextmanager
def locked_directory(settings: ServeSettings) -> Iterator[contextlib.ExitStack]:
    """Hold the lock of the data directory while the block runs."""
    refuse_databases(settings)
    with contextlib.ExitStack() as cleanup:
        lock_data_directory(settings, cleanup)
        yield cleanup


@contextlib.contextmanager
def catalog_to_read(file: Path, data_key: DataKey | None = None) -> Iterator[Catalog]:
    """A copy of the catalog, so that reading it changes nothing; an encrypted one in memory."""
    with catalog_rows_to_read(file, data_key) as rows:
        yield Catalog(stores=STORES_MAX, rows=rows)


@contextlib.contextmanager
def catalog_rows_to_read(file: Path, data_key: DataKey | None = None) -> Iterator[CatalogDatabase]:
    """The rows of that copy."""
    if data_key is not None:
        with working_directory(file.parent) as working:
            encrypted = SealedCatalog(file, working, data_key.catalog_sealer())
            encrypted.unseal()
            with contextlib.closing(CatalogDatabase(file, encrypted)) as rows:
                yield rows
        return
    with tempfile.TemporaryDirectory(prefix="partibus-check-") as place:
        copy = Path(place) / CATALOG_NAME
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{file}{suffix}", f"{copy}{suffix}")
        with contextlib.closing(CatalogDatabase(copy, copy_of=file)) as rows:
            yield rows


class RebuiltStore:
    """The contents of a store, as the comparison with the catalog needs it."""

    def __init__(self, rebuilt: Rebuilt, log_end: tuple[bytes, int] | None = None) -> None:
        self.states = rebuilt.states
        self.marks: StoreMarks = rebuilt.marks
        self.log_end = log_end
        """The id of the log, and its end."""

    def strangers(self) -> list[int]:
        """Every fragment: none is served here."""
        return list(self.states)

    def stranger_bodies(self, fragment_id: int) -> int:
        """How many messages and other bodies a fragment has."""
        return sum(1 for _ in all_bodies(self.states[fragment_id]))


class OpenStore(RebuiltStore):
    """A store that is open for writing; every write is durable when the call returns."""

    def __init__(self, directory: Path) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.store = SegmentStore(directory, notify=self._calls.put)
        try:
            super().__init__(rebuild(self.store.open()))
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        """Release the place."""
        self.store.close()

    def append(self, records: list[Record]) -> None:
        """Write records."""
        self._wait(lambda done: self.store.append(records, done))

    def checkpoint(self, states: dict[int, bytes]) -> None:
        """Write a checkpoint with these states, which replaces the log before it."""
        self._wait(lambda done: self.store.checkpoint(states, done))

    def _wait(self, ask: Callable[[Done], None]) -> None:
        reported: list[BusError | None] = []
        ask(reported.append)
        while not reported:
            self._calls.get()()
        if reported[0] is not None:
            raise reported[0]
