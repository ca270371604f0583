"""A disk that notes everything that a store does to its files.

Owns the trace of one store, from its empty directory on. Whoever uses the store adds what was
promised to clients. The store's watermark is mapped into memory and changes without a call; its
content is looked at whenever anything is noted.
"""

import threading
from pathlib import Path

from adversity.disk.power_loss import (
    Create,
    Operation,
    Promise,
    Remove,
    Rename,
    Resize,
    Sync,
    SyncNames,
    Write,
)
from partibus.store.files.disk import OsDisk
from partibus.store.files.watermark import WATERMARK_NAME


class TracedDisk(OsDisk):
    """The real disk, with a notebook; paths are noted as seen from `root`."""

    __slots__ = ("_descriptors", "_lock", "_names", "_next_inode", "_root", "_watermark", "trace")

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._names: dict[Path, int] = {}
        self._descriptors: dict[int, int] = {}
        self._next_inode = 1
        self._watermark = b""
        self.trace: list[Operation] = []

    def promise(self, note: object) -> None:
        """Somebody is told something."""
        with self._lock:
            self.trace.append(Promise(note))

    def _note(self, operation: Operation) -> None:
        self._note_watermark()
        self.trace.append(operation)

    def _note_watermark(self) -> None:
        path = self._root / WATERMARK_NAME
        inode = self._names.get(path.relative_to(self._root))
        if inode is not None:
            content = path.read_bytes()
            if content != self._watermark:
                self._watermark = content
                self.trace.append(Write(inode, 0, content))

    def _path(self, path: Path) -> Path:
        return path.relative_to(self._root)

    # --- what a store does ----------------------------------------------------------------

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        with self._lock:
            fd = super().open(path, writable=writable, create=create)
            name = self._path(path)
            if create:
                self._names[name] = self._next_inode
                self._note(Create(name, self._next_inode))
                self._next_inode += 1
            self._descriptors[fd] = self._names[name]
            return fd

    def close(self, fd: int) -> None:
        with self._lock:
            self._descriptors.pop(fd)
            super().close(fd)

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        with self._lock:
            count = super().write(fd, parts, offset)
            self._note(Write(self._descriptors[fd], offset, b"".join(parts)[:count]))
            return count

    def allocate(self, fd: int, length: int) -> None:
        with self._lock:
            super().allocate(fd, length)
            self._note(Resize(self._descriptors[fd], length, grows=True))

    def truncate(self, fd: int, length: int) -> None:
        with self._lock:
            super().truncate(fd, length)
            self._note(Resize(self._descriptors[fd], length))

    def sync(self, fd: int) -> None:
        with self._lock:
            self._note_watermark()
            began, inode = len(self.trace), self._descriptors[fd]
        super().sync(fd)
        with self._lock:
            self._note(Sync(inode, began))

    def replace(self, source: Path, target: Path) -> None:
        with self._lock:
            super().replace(source, target)
            self._names[self._path(target)] = self._names.pop(self._path(source))
            self._note(Rename(self._path(source), self._path(target)))

    def remove(self, path: Path) -> None:
        with self._lock:
            super().remove(path)
            if self._names.pop(self._path(path), None) is not None:
                self._note(Remove(self._path(path)))

    def sync_directory(self, directory: Path) -> None:
        with self._lock:
            began = len(self.trace)
        super().sync_directory(directory)
        with self._lock:
            self._note(SyncNames(self._path(directory), began))
