"""A directory of backups: objects by the SHA-256 of their content, and a manifest for each backup.

Owns the layout and its safety: an object has its name only when it is complete and durable, a
manifest only when all of its objects are; so an interruption leaves the earlier backups unchanged.
One writer at a time; a prune waits for readers. Knows nothing of servers.

    partibus-backups           what this directory is, and the version of its layout
    manifests/ID.json          a backup
    objects/ab/abcdef...       a file of one or more backups
    lock
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from partibus.backup.manifest import BACKUP_ID, Manifest, decode_manifest, encode_manifest
from partibus.domain.errors import ArgumentError, ConfigError, StoreCorrupt, StoreUnavailable
from partibus.files.private import (
    FILE_MODE,
    make_private_directory,
    open_private,
    sync_directory,
    write_private,
)

LAYOUT_NAME: Final = "partibus-backups"
LAYOUT: Final = b"1\n"
CHUNK_BYTES: Final = 1 << 20
INCOMING: Final = "incoming-"

Advance = Callable[[int], None]


class Repository:
    """The backups of one namespace; open within `opened`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._manifests = directory / "manifests"
        self._objects = directory / "objects"

    # --- opening --------------------------------------------------------------------------

    @contextlib.contextmanager
    def opened(self, *, writable: bool) -> Iterator["Repository"]:
        """Lock the directory: exclusively for writing, otherwise shared with other readers."""
        if writable:
            self._make()
        self._check_layout()
        with open_private(self.directory / "lock") as lock:
            how = fcntl.LOCK_EX if writable else fcntl.LOCK_SH
            try:
                fcntl.flock(lock.fileno(), how | fcntl.LOCK_NB)
            except OSError as error:
                raise StoreUnavailable(
                    f"{self.directory} is in use by another backup, prune, verify or restore; "
                    "try again when that has finished."
                ) from error
            if writable:
                for left in self._objects.glob(f"{INCOMING}*"):
                    left.unlink()
            yield self

    def _make(self) -> None:
        if self.directory.exists() and not (self.directory / LAYOUT_NAME).exists():
            others = [p.name for p in self.directory.iterdir() if p.name not in ("lock",)]
            if others:
                raise ConfigError(
                    f"{self.directory} is not empty and holds no backups ({others[0]}, ...); give "
                    "an empty or new directory."
                )
        make_private_directory(self.directory)
        make_private_directory(self._manifests)
        make_private_directory(self._objects)
        if not (self.directory / LAYOUT_NAME).exists():
            write_private(self.directory / LAYOUT_NAME, LAYOUT)

    def _check_layout(self) -> None:
        try:
            layout = (self.directory / LAYOUT_NAME).read_bytes()
        except FileNotFoundError as error:
            raise ConfigError(f"{self.directory} holds no backups.") from error
        if layout != LAYOUT:
            raise ConfigError(
                f"{self.directory} was written by another release of Partibus; use that one."
            )

    # --- manifests ------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """The backups, oldest first."""
        found = (path.stem for path in self._manifests.glob("*.json"))
        return sorted(name for name in found if BACKUP_ID.fullmatch(name))

    def manifest(self, name: str | None = None) -> Manifest:
        """A backup by its id, or the latest."""
        ids = self.ids()
        if name is None and not ids:
            raise ConfigError(f"{self.directory} holds no backup yet.")
        chosen = ids[-1] if name is None else name
        if chosen not in ids:
            raise ArgumentError(
                f"{self.directory} has no backup '{chosen}'; `partibus backup list "
                f"{self.directory}` lists its backups."
            )
        path = self._manifests / f"{chosen}.json"
        manifest = decode_manifest(str(path), path.read_bytes())
        if manifest.id != chosen:
            raise StoreCorrupt(
                f"{path}: the file was renamed; it belongs to the backup {manifest.id}."
            )
        return manifest

    def put_manifest(self, manifest: Manifest) -> None:
        """Write the manifest; from now on the backup exists."""
        write_private(self._manifests / f"{manifest.id}.json", encode_manifest(manifest))

    def drop_manifest(self, name: str) -> None:
        """Delete the manifest; what only this backup needed is deleted by `sweep`."""
        (self._manifests / f"{name}.json").unlink()
        sync_directory(self._manifests)

    # --- objects --------------------------------------------------------------------------

    def object_path(self, sha256: str) -> Path:
        """Where an object is."""
        return self._objects / sha256[:2] / sha256

    def add(self, chunks: Iterable[bytes], advance: Advance | None = None) -> tuple[str, int]:
        """Store a content; returns its SHA-256 and its length."""
        beside = self._objects / f"{INCOMING}{secrets.token_hex(8)}"
        digest = hashlib.sha256()
        length = 0
        try:
            with open_private(beside) as file:
                for chunk in chunks:
                    file.write(chunk)
                    digest.update(chunk)
                    length += len(chunk)
                    if advance is not None:
                        advance(len(chunk))
                file.flush()
                os.fsync(file.fileno())
            sha256 = digest.hexdigest()
            path = self.object_path(sha256)
            make_private_directory(path.parent)
            beside.replace(path)
            sync_directory(path.parent)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        return sha256, length

    def has(self, sha256: str, length: int) -> bool:
        """Whether an object exists, by its name and its length."""
        try:
            return self.object_path(sha256).stat().st_size == length
        except FileNotFoundError:
            return False

    def chunks(self, sha256: str, length: int) -> Iterator[bytes]:
        """The content of an object, which is verified when all of it was read."""
        path = self.object_path(sha256)
        digest = hashlib.sha256()
        read = 0
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise StoreCorrupt(f"{path}: the file is missing.") from error
        with os.fdopen(fd, "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                read += len(chunk)
                yield chunk
        if read != length or digest.hexdigest() != sha256:
            raise StoreCorrupt(f"{path}: the content fails its checksum.")

    def sweep(self) -> tuple[int, int]:
        """Delete what no backup needs; returns how many files and bytes that were.

        Nothing is deleted unless every manifest can be read.
        """
        needed = {file.sha256 for name in self.ids() for file in self.manifest(name).files}
        count = size = 0
        for path in self._objects.glob("??/*"):
            if path.name not in needed:
                size += path.stat().st_size
                count += 1
                path.unlink()
        return count, size


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """A new file, private and durable; its name is durable when the directory is synced."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(path, flags, FILE_MODE), "wb") as file:
        os.fchmod(file.fileno(), FILE_MODE)
        for chunk in chunks:
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
