"""The data directory of a stopped server as the source of a backup.

Owns the lock of the directory and its stores while files are read. Nothing is repaired or
truncated: a restore brings back the same files, and the start after it recovers as a start here
would. Called by `partibus backup --data`.
"""

import contextlib
import datetime
import os
from collections.abc import Iterator

from partibus.backup.making import Description, SourceFile
from partibus.backup.manifest import CATALOG_PLACE, KEY_PLACE, new_backup_id
from partibus.backup.repository import CHUNK_BYTES
from partibus.control.catalog.image import catalog_image
from partibus.domain.errors import ConfigError
from partibus.sealing.keys import KEY_FILE_NAME
from partibus.server.config import ServeSettings
from partibus.server.data_directory.belonging import Belonging, holds_store, refuse_lost_catalog
from partibus.server.data_directory.directory import CATALOG_NAME
from partibus.server.data_directory.encryption import data_key_of
from partibus.server.data_directory.offline import catalog_to_read, locked_directory
from partibus.store.files.capture import is_copied, whole_file
from partibus.store.files.lock import DirectoryLock
from partibus.store.files.watermark import WATERMARK_NAME


class DirectorySource:
    """The files of a stopped server."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings

    @contextlib.contextmanager
    def described(self) -> Iterator[Description]:
        """Lock everything, and list the files."""
        settings = self._settings
        file = settings.data / CATALOG_NAME
        with locked_directory(settings), contextlib.ExitStack() as stack:
            refuse_lost_catalog(file, settings)
            if not file.exists():
                raise ConfigError(
                    f"{settings.data} holds no data of a server: there is nothing to back up. What "
                    "a cluster keeps is in its databases: back them up with their own tools, or "
                    "copy it into a directory with `partibus store copy`."
                )
            data_key = data_key_of(settings)
            with catalog_to_read(file, data_key) as catalog:
                Belonging(file, settings, catalog).check_places()
                namespace = (catalog.identity.namespace() or b"").hex()
                generation = catalog.identity.generation()
            for directory in filter(holds_store, settings.store_directories):
                stack.callback(DirectoryLock(directory).release)
            # An encrypted catalog is backed up as it is on disk, with its key file.
            contents = {KEY_PLACE: (settings.data / KEY_FILE_NAME).read_bytes()} if data_key else {}
            content = catalog_image(file).content if data_key is None else file.read_bytes()
            yield self._describe(namespace, generation, {CATALOG_PLACE: content, **contents})

    def _describe(self, namespace: str, generation: int, contents: dict[str, bytes]) -> Description:
        settings = self._settings
        now = datetime.datetime.now(datetime.UTC)
        description = Description(
            id=new_backup_id(now),
            made_at=now.isoformat(timespec="seconds"),
            namespace=namespace,
            generation=generation,
            is_online=False,
            stores=settings.stores,
            contents=contents,
        )
        for number, directory in enumerate(settings.store_directories):
            if not holds_store(directory):
                continue
            names = sorted(path.name for path in directory.iterdir() if path.is_file())
            for name in (n for n in names if is_copied(n) or n == WATERMARK_NAME):
                found = whole_file(directory, name)
                file = SourceFile(f"store-{number}/{name}", found.length, found.stamp)
                description.files.append(file)
        return description

    def chunks(self, file: SourceFile) -> Iterator[bytes]:
        """The content of a file as it is on disk."""
        folder, _, name = file.place.partition("/")
        directory = self._settings.store_directories[int(folder.removeprefix("store-"))]
        fd = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(fd, "rb") as opened:
            while chunk := opened.read(CHUNK_BYTES):
                yield chunk
