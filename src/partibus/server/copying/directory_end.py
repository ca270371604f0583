"""A data directory as one end of a copy.

Owns its lock, which is held from the first check to the end, as by a server. A source is only read.
A target must be empty, or contain the remains of an interrupted copy, which its mark names and
which are removed first. Called by `ends`.
"""

import contextlib
import shutil
from pathlib import Path
from typing import Final

import msgspec

from partibus.control.catalog.database import CatalogDatabase
from partibus.control.catalog.rows import CatalogRows
from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.files.private import make_private_directory, sync_directory, write_private
from partibus.server.config import ServeSettings
from partibus.server.copying.ends import GivenPlace
from partibus.server.copying.lane_reading import LaneReading, read_lane
from partibus.server.data_directory.belonging import refuse_lost_catalog
from partibus.server.data_directory.directory import (
    CATALOG_NAME,
    COPYING_NAME,
    lock_data_directory,
)
from partibus.server.data_directory.encryption import data_key_of
from partibus.server.data_directory.offline import catalog_rows_to_read, offline_settings
from partibus.store.compaction.importing import DirectoryImport, LaneImport
from partibus.store.files.lock import DirectoryLock
from partibus.store.postgres.address import is_database

OWNER: Final = "a copy"
LOCK_NAME: Final = "lock"
IGNORED: Final = ("lost+found", LOCK_NAME)


class CopiedDirectory:
    """A data directory that is read."""

    def __init__(self, given: GivenPlace, stack: contextlib.ExitStack) -> None:
        keys = (given.key_file, given.key_command)
        self.settings = offline_settings(Path(given.place), given.stores, None, *keys)
        lock_data_directory(self.settings, stack)
        self._data_key = data_key_of(self.settings)
        self.catalog_place = self.settings.data / CATALOG_NAME
        refuse_lost_catalog(self.catalog_place, self.settings)
        if not self.catalog_place.exists():
            raise ConfigError(f"{given.place} holds no data of a server: there is nothing to copy.")
        rows = stack.enter_context(catalog_rows_to_read(self.catalog_place, self._data_key))
        self.rows: CatalogRows = rows
        if rows.identity.namespace() is None:
            raise ConfigError(
                f"{self.catalog_place} was written by a release before namespaces had ids: start "
                "this release on the directory once, and stop it."
            )

    @property
    def is_encrypted(self) -> bool:
        """Whether a key is needed to read it."""
        return self._data_key is not None

    def lane(self, number: int) -> LaneReading:
        """A lane that is not empty."""
        return read_lane(self.settings, number, OWNER, self._data_key)


class Mark(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file that exists during a copy."""

    stores: list[str]
    """The directories that the copy fills; they were empty when it began."""


class FilledDirectory:
    """A data directory that is filled."""

    def __init__(self, given: GivenPlace, lanes: int, stack: contextlib.ExitStack) -> None:
        self.settings = _target_settings(given, lanes)
        data = self.settings.data
        self.catalog_place = data / CATALOG_NAME
        self._mark = data / COPYING_NAME
        make_private_directory(data)
        stack.callback(DirectoryLock(data, "data directory").release)
        self._clear()
        self._refuse_used()
        stores = [str(directory) for directory in self.settings.store_directories]
        write_private(self._mark, msgspec.json.encode(Mark(stores)) + b"\n")
        self.rows: CatalogRows = CatalogDatabase(self.catalog_place)
        stack.callback(self.rows.close)

    def _clear(self) -> None:
        """Remove what an interrupted copy has left behind."""
        if not self._mark.exists():
            return
        try:
            stores = msgspec.json.decode(self._mark.read_bytes(), type=Mark).stores
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StoreCorrupt(
                f"{self._mark} is damaged: {error}. Delete the directory, and copy again."
            ) from error
        for directory in map(Path, stores):
            for path in directory.iterdir() if directory.is_dir() else ():
                if path.name not in IGNORED:
                    path.unlink()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.catalog_place}{suffix}").unlink(missing_ok=True)
        for directory in map(Path, stores):
            if directory.parent == self.settings.data:
                shutil.rmtree(directory, ignore_errors=True)
        self._mark.unlink()

    def _refuse_used(self) -> None:
        for directory in (self.settings.data, *self.settings.store_directories):
            if not directory.exists():
                continue
            if not directory.is_dir() or any(p.name not in IGNORED for p in directory.iterdir()):
                raise ConfigError(
                    f"{directory} is not empty: copy into a new or empty directory; nothing was "
                    "written."
                )

    def fill(self, number: int) -> LaneImport:
        """An empty lane."""
        directory = self.settings.store_directories[number]
        make_private_directory(directory)
        return DirectoryImport(directory)

    def lane(self, number: int) -> LaneReading:
        """A lane that was filled."""
        return read_lane(self.settings, number, OWNER)

    def complete(self) -> None:
        """Allow a server to start here from now on."""
        self.rows.close()
        self._mark.unlink()
        sync_directory(self.settings.data)


def _target_settings(given: GivenPlace, lanes: int) -> ServeSettings:
    if given.key_file is not None or given.key_command is not None:
        raise ConfigError(
            "A copy is not encrypted: leave out the key of the target. A server that is started "
            "with a key encrypts what it writes from then on."
        )
    if any(map(is_database, given.stores)):
        raise ConfigError(
            "The stores of a copied directory are directories: give directories with --to-store, "
            "or the database of a new cluster with --to."
        )
    if given.stores and len(given.stores) != lanes:
        raise ConfigError(
            f"The source has {lanes} stores, and {len(given.stores)} were given for the target: "
            "fragments do not change stores, so give as many directories."
        )
    return ServeSettings(data=Path(given.place), stores=lanes, store_places=given.stores)
