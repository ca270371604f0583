"""The data directory as one thing: made private, and claimed by one server before all else.

Owns its lock and its modes. All code that reads or writes below it holds the lock: the server
(with several workers the supervisor, for all of them) and the offline verbs; so a second server
changes nothing before it is refused. Stores elsewhere have locks of their own. Called by the
service, the supervision and `server.data_directory.offline`.
"""

import contextlib
import re
from pathlib import Path
from typing import Final

from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.files.private import close_to_others, make_private_directory, refuse_link
from partibus.server.config import ServeSettings
from partibus.store.lock import DirectoryLock

CATALOG_NAME: Final = "catalog.db"
COPY_NAME: Final = "catalog.copy"
"""The catalog as of the last start or end of a server, for a repair."""
RESTORING_NAME: Final = "restoring"
"""There while a restore is not finished."""
COPYING_NAME: Final = "copying"
"""There while a copy into the directory is not finished; names the directories of its stores."""
_OURS: Final = re.compile(
    r"catalog\.(db|copy).*|copying|encryption\.key(\.partial)?|lock|restoring|tls|(store|seen)-\d+"
)


def claim_data_directory(settings: ServeSettings, cleanup: contextlib.ExitStack) -> None:
    """Make the directory and hold its lock until the end, unless all is kept in memory."""
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
            "which begins anew, or delete the directory. Nothing was changed."
        )
    if (data / RESTORING_NAME).exists():
        raise StoreCorrupt(
            f"{data} holds a restore that was interrupted: delete the directory and restore the "
            "backup again. Nothing was changed."
        )


def refuse_links(settings: ServeSettings) -> None:
    """Nothing of ours may lead elsewhere; the places that the user names may."""
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
    """A directory with other things in it is not ours to close."""
    if all(_OURS.fullmatch(path.name) for path in data.iterdir()):
        close_to_others(data)
