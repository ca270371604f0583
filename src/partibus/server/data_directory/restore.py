"""Restores a backup to a data directory.

Owns the order that makes an incomplete restore unusable: first a mark, then the stores, then the
catalog, and last the mark is removed. Everything is verified before the first byte is written, and
again while it is copied. It must never overwrite anything. Called by `partibus restore`, and by the
verification of a backup in depth, which runs the offline check on it.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from partibus.backup.manifest import CATALOG_PLACE, KEY_PLACE, Manifest
from partibus.backup.repository import Advance, Repository, write_file
from partibus.backup.verifying import verify
from partibus.control.catalog.catalog import Catalog
from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.files.private import make_private_directory, sync_directory, write_private
from partibus.server.config import ServeSettings
from partibus.server.data_directory.check import PartReport, check_data
from partibus.server.data_directory.directory import CATALOG_NAME, RESTORING_NAME
from partibus.server.data_directory.offline import OpenStore, refuse_databases
from partibus.store.files.lock import DirectoryLock

RESTORING: Final = b"A restore is under way here, or was interrupted.\n"


def restore(
    repository: Repository,
    manifest: Manifest,
    settings: ServeSettings,
    advance: Advance,
    *,
    new_identity: bool = False,
) -> None:
    """Write the data directory; it can be started only after this returns."""
    _refuse_used(settings)
    if new_identity and any(file.place == KEY_PLACE for file in manifest.files):
        raise ConfigError(
            f"the backup {manifest.id} is encrypted, and its identity cannot be changed: leave "
            "out --new-identity."
        )
    for report in verify(repository, [manifest.id], advance):
        if report.problems:
            raise StoreCorrupt(
                f"the backup {manifest.id} is damaged: {report.problems[0]} Nothing was restored; "
                "`partibus backup verify` shows everything, and an older backup may be intact."
            )
    make_private_directory(settings.data)
    lock = DirectoryLock(settings.data, "data directory")
    try:
        write_private(settings.data / RESTORING_NAME, RESTORING)
        _write(repository, manifest, settings, advance)
        if new_identity:
            _give_new_identity(manifest, settings)
        (settings.data / RESTORING_NAME).unlink()
        sync_directory(settings.data)
    finally:
        lock.release()


def _refuse_used(settings: ServeSettings) -> None:
    refuse_databases(settings)
    for directory in (settings.data, *settings.store_directories):
        if not directory.exists():
            continue
        if not directory.is_dir() or any(p.name != "lost+found" for p in directory.iterdir()):
            half = (directory / RESTORING_NAME).exists()
            what = "holds a restore that was interrupted" if half else "is not empty"
            raise ConfigError(
                f"{directory} {what}: restore into a new or empty directory; nothing was written."
            )


def _write(
    repository: Repository, manifest: Manifest, settings: ServeSettings, advance: Advance
) -> None:
    stores: set[Path] = set()
    rest = [file for file in manifest.files if file.place != CATALOG_PLACE]
    for file in rest:
        directory = settings.data
        if file.store is not None:
            directory = settings.store_directories[file.store]
            make_private_directory(directory)
            stores.add(directory)
        chunks = _counted(repository.chunks(file.sha256, file.length), advance)
        write_file(directory / file.place.rpartition("/")[2], chunks)
    for directory in stores:
        sync_directory(directory)
    catalog = next(file for file in manifest.files if file.place == CATALOG_PLACE)
    write_private(
        settings.data / CATALOG_NAME, b"".join(repository.chunks(catalog.sha256, catalog.length))
    )


def _counted(chunks: Iterator[bytes], advance: Advance) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        advance(len(chunk))


def _give_new_identity(manifest: Manifest, settings: ServeSettings) -> None:
    """Give catalog and stores a new namespace id."""
    catalog = Catalog(settings.data / CATALOG_NAME, stores=settings.stores)
    with contextlib.closing(catalog):
        with catalog.identify() as identity:
            identity.found()
        namespace = catalog.identity.namespace()
        assert namespace is not None
        for number in sorted({file.store for file in manifest.files if file.store is not None}):
            with contextlib.closing(OpenStore(settings.store_directories[number])) as store:
                store.marks.identify(namespace, number)
                store.append([store.marks.record()])


def check_in_depth(
    repository: Repository, name: str, key_file: Path | None = None, key_command: str | None = None
) -> list[PartReport]:
    """Check a backup as `partibus store check` checks a data directory."""
    manifest = repository.manifest(name)
    if all(file.place != KEY_PLACE for file in manifest.files):
        key_file = key_command = None  # it was made before the data was encrypted
    with tempfile.TemporaryDirectory(prefix="check-", dir=repository.directory) as place:
        data = Path(place) / "data"
        settings = ServeSettings(
            data=data,
            stores=manifest.stores,
            encryption_key_file=key_file,
            encryption_key_command=key_command,
        )
        make_private_directory(data)
        for file in manifest.files:
            path = data / file.place
            make_private_directory(path.parent)
            _link(repository.object_path(file.sha256), path)
        return check_data(settings)


def _link(source: Path, target: Path) -> None:
    """The check changes nothing, so the object itself can be linked there."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
