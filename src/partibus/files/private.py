"""Files and directories that only their owner may read, and that survive a power loss.

Owns the rules for everything that the server writes besides its log: directories 0700 and files
0600 whatever the umask, no symbolic link followed, contents and names synced. It knows no format.
Called by the catalog, the stores, the TLS files and the lock of the data directory.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def make_private_directory(directory: Path) -> None:
    """Create the directory and its parents, durably; new ones are private."""
    missing = []
    place = directory
    while not place.exists():
        missing.append(place)
        place = place.parent
    for place in reversed(missing):
        place.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        place.chmod(DIRECTORY_MODE)  # a umask may have removed too much
        sync_directory(place.parent)
    if not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))


def close_to_others(directory: Path) -> None:
    """Remove the permissions of group and others from a directory of ours and its files."""
    _close(directory, directory.stat())
    for entry in os.scandir(directory):
        if entry.is_file(follow_symlinks=False):
            _close(Path(entry.path), entry.stat(follow_symlinks=False))


def _close(path: Path, found: os.stat_result) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077 and found.st_uid == os.geteuid():
        path.chmod(mode & 0o700)


def refuse_link(path: Path) -> None:
    """Raise OSError when the path is a symbolic link."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed", str(path))


def open_private(path: Path) -> BinaryIO:
    """A file for reading and writing, created if missing; never through a link."""
    refuse_link(path)
    is_new = not path.exists()
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    file = os.fdopen(os.open(path, flags, FILE_MODE), "r+b")
    os.fchmod(file.fileno(), FILE_MODE)
    if is_new:
        sync_directory(path.parent)
    return file


def write_private(path: Path, content: bytes) -> None:
    """Write a file completely or not at all: temporary name, sync, rename, directory sync."""
    beside = path.with_name(path.name + ".partial")
    beside.unlink(missing_ok=True)
    with open_private(beside) as file:
        file.write(content)
        file.flush()
        sync_file(file)
    beside.replace(path)
    sync_directory(path.parent)


def sync_file(file: BinaryIO) -> None:
    """Return when what was written to a file is durable."""
    os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Return when the names in a directory are durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
