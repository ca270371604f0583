"""The lock on a directory: two servers never open one store, nor one data directory.

Owns the file `lock` and an advisory lock on it, which the kernel drops when the process ends, in
whatever way. Called by the store when it opens and closes, and by the server.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreUnavailable
from partibus.files.private import FILE_MODE

LOCK_NAME: Final = "lock"


class DirectoryLock:
    """Held from construction until `release`."""

    __slots__ = ("_fd",)

    def __init__(self, directory: Path, what: str = "store directory") -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(directory / LOCK_NAME, flags, FILE_MODE)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            self.release()
            raise StoreUnavailable(
                f"The {what} {directory} is in use by another server"
                f"{f' (process {owner})' if owner else ''}; stop it or choose another directory."
            ) from error
        os.fchmod(self._fd, FILE_MODE)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        """Release the directory."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
