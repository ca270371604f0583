"""The data directory as a whole: made private, and locked by one server first of all.

Owns its lock and its modes. All code that reads or writes below it holds the lock: the server (with
several workers the supervisor, for all of them) and the offline verbs; so a second server is
refused before it changes anything. Stores elsewhere have their own locks. Called by the service,
the supervision and `server.data_directory.offline`.
"""

import contextlib
import re
from pathlib import Path
from typing import Final

from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.files.private import close_to_others, make_private_directory, refuse_link
from partibus.server.config import ServeSettings
from partibus.store.files.lock import DirectoryLock

CATALOG_NAME: Final = "catalog.db"
COPY_NAME: Final = "catalog.copy"
"""The catalog as of the last start or end of a server, for a repair."""
RESTORING_NAME: Final = "restoring"
"""Exists while a restore is not finished."""
COPYING_NAME: Final = "copying"
"""Exists while a copy into the directory is not finished; names the directories of its stores."""
_OURS: Final = re.compile(
    r"catalog\.(db|copy).*|copying|encryption\.key(\.partial)?|lock|restoring|tls|(store|seen)-\d+"
)


def lock_data_directory(settings: ServeSettings, cleanup: contextlib.ExitStack) -> None:
    """Create the directory and hold its lock until the end, unless everything is in memory."""
    if settings.memory:
        return
    data = settings.data
    try:
        make_private_directory(data)
        lock = DirectoryLock(data, "data directory")
        cleanup.callback(lock.release)
        _close_to_others(data)
        refuse_links(settings)
        _refuse_half_made(data)
    except OSError as error:
        reason = "it is a file" if data.is_file() else error.strerror
        where = "" if error.filename in (None, str(data)) else f": {error.filename}"
        raise ConfigError(
            f"--data {data} cannot be used as a directory{where}: {reason}"
        ) from error


def _refuse_half_made(data: Path) -> None:
    if (data / COPYING_NAME).exists():
        raise StoreCorrupt(
            f"{data} holds a copy that is not complete: run the same `partibus store copy` again, "
            "which starts over, or delete the directory. Nothing was changed."
        )
    if (data / RESTORING_NAME).exists():
        raise StoreCorrupt(
            f"{data} holds a restore that was interrupted: delete the directory and restore the "
            "backup again. Nothing was changed."
        )


def refuse_links(settings: ServeSettings) -> None:
    """None of our files may be a link; the places that the user names may be."""
    refuse_link(settings.data / CATALOG_NAME)
    refuse_link(settings.data / "tls")
    if not settings.store_places:
        for directory in settings.store_directories:
            if directory.is_symlink():
                raise ConfigError(
                    f"{directory} is a symbolic link, which is not followed; name the place "
                    "itself with --store, once for each store in its order."
                )


def _close_to_others(data: Path) -> None:
    """Make the directory private, unless it contains other files, and so is not ours."""
    if all(_OURS.fullmatch(path.name) for path in data.iterdir()):
        close_to_others(data)
