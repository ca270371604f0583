"""A catalog that is encrypted on disk: its image, and the working copy in memory.

Owns how both are kept in step. SQLite works on a copy in an in-memory file system; every
transaction writes the whole image, sealed, before it commits there, so that what was confirmed is
durable. Several processes share the copy, and a lock serialises their writes. Used by
`database`; made by the server's start and the offline verbs.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from partibus.control.catalog.image import catalog_image
from partibus.domain.errors import ConfigError, StoreCorrupt, StoreUnavailable
from partibus.files.private import open_private, write_private
from partibus.sealing.seal import Sealer, Unreadable

SEALED_MAGIC: Final = b"PARTICAT\x01\x00\x00\x00"
MEMORY_FILES: Final = Path("/dev/shm")  # noqa: S108  # made by us with a random name, mode 0700
WORKING_NAME: Final = "catalog.db"
_PURPOSE: Final = b"catalog"

_log: Final = logging.getLogger(__name__)


def is_sealed(file: Path) -> bool:
    """Whether the catalog there is encrypted."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(SEALED_MAGIC)) == SEALED_MAGIC
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def working_directory(data: Path) -> Iterator[Path]:
    """A directory in memory that only this user can enter; it is removed afterwards.

    The process that has locked the data directory also removes what a killed server left there.
    """
    if not MEMORY_FILES.is_dir():
        raise ConfigError(
            f"encryption needs {MEMORY_FILES}, a file system in memory, for the catalog that is "
            "worked on; mount one there (tmpfs)."
        )
    mark = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]
    prefix = f"partibus-{os.geteuid()}-{mark}-"
    for left in MEMORY_FILES.glob(f"{prefix}*"):
        if left.lstat().st_uid == os.geteuid():
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY_FILES) as place:
        yield Path(place)


class SealedCatalog:
    """The image of a catalog, and the directory with its working copy."""

    def __init__(self, file: Path, working: Path, sealer: Sealer) -> None:
        self.file = file
        self.working = working / WORKING_NAME
        self._guard = working / "guard"
        self._sealer = sealer

    def unseal(self) -> None:
        """Create the working copy from the image; a plain catalog becomes an image."""
        if not self.file.exists() or not self.file.stat().st_size:
            return
        if is_sealed(self.file):
            write_private(self.working, self.opened(self.image()))
            return
        plain = catalog_image(self.file).content
        write_private(self.working, plain)
        self.keep(plain)
        for suffix in ("-wal", "-shm"):
            Path(f"{self.file}{suffix}").unlink(missing_ok=True)

    def opened(self, content: bytes) -> bytes:
        """The bytes of the database in an image."""
        try:
            return self._sealer.open(content[len(SEALED_MAGIC) :], _PURPOSE)
        except Unreadable as error:
            raise StoreCorrupt(
                f"{self.file} is damaged, or from another data directory: it cannot be decrypted. "
                "Restore the file, or a backup; nothing was changed."
            ) from error

    def keep(self, content: bytes) -> None:
        """Write an image durably."""
        self.keep_as(self.file, content)

    def keep_as(self, file: Path, content: bytes) -> None:
        """The same under another name."""
        try:
            write_private(file, SEALED_MAGIC + self._sealer.seal(content, _PURPOSE))
        except OSError as error:
            _log.error("%s cannot be written: %s", file, error)
            raise StoreUnavailable(
                f"The catalog cannot be written: {error.strerror}. Try again."
            ) from error

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Be the only process that writes; others wait for a few milliseconds."""
        with open_private(self._guard) as guard:
            fcntl.flock(guard.fileno(), fcntl.LOCK_EX)
            yield

    def image(self) -> bytes:
        """The image as it is on disk, between two writes."""
        fd = os.open(self.file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(fd, "rb") as opened:
            return opened.read()
