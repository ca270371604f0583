"""What a process does to its files, as a trace from which losses of power are rebuilt.

Owns the small library that is loaded into a process before the C library, and the way from its
notes to the operations of `adversity.disk.power_loss`. Promises are lines that the process appends
to the file `PROMISES` in the traced directory. What is mapped into memory is not seen. Needs a C
compiler, so tests that use it are of the group "wall-clock".
"""

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

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

PROMISES: Final = "promises"
_SOURCE: Final = Path(__file__).with_name("file_trace.c")
_HEAD: Final = struct.Struct("<cQQI")


class FileTrace:
    """The notes on one directory; the process is started with the environment."""

    def __init__(self, directory: Path, root: Path) -> None:
        compiler = shutil.which("gcc")
        assert compiler is not None, "the group says that a C compiler is here"
        library = directory / "file_trace.so"
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-lpthread"]
        subprocess.run(command, check=True)
        self._root = root
        self._file = directory / "file_trace"
        self.environment = {
            "LD_PRELOAD": str(library),
            "FILE_TRACE_ROOT": str(root),
            "FILE_TRACE_FILE": str(self._file),
        }

    def operations(self) -> list[Operation]:
        """What was noted."""
        notes = self._file.read_bytes()
        reader = _Reader(self._root)
        at = 0
        while at < len(notes):
            kind, inode, number, length = _HEAD.unpack_from(notes, at)
            at += _HEAD.size + length
            reader.take(kind.decode(), inode, number, notes[at - length : at])
        return reader.operations


class _Reader:
    """Turns notes into operations; inodes are used again by the system, and not here."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._root_inode = root.stat().st_ino
        self._files: dict[int, int] = {}
        self._promises = -1
        self._next = 1
        self._began: dict[int, int] = {}
        self._source = Path()
        self.operations: list[Operation] = []

    def take(self, kind: str, inode: int, number: int, data: bytes) -> None:
        if kind == "W" and inode == self._promises:
            self.operations.append(Promise(json.loads(data)))
            return
        operation = self._operation(kind, inode, number, data)
        if operation is not None:
            self.operations.append(operation)

    def _operation(self, kind: str, inode: int, number: int, data: bytes) -> Operation | None:
        match kind:
            case "C":
                return self._create(inode, self._path(data))
            case "W":
                return Write(self._files[inode], number, data)
            case "T":
                return Resize(self._files[inode], number)
            case "B":
                self._began[inode] = len(self.operations)
            case "S" if inode == self._root_inode:
                return SyncNames(Path(), self._began[inode])
            case "S":
                return Sync(self._files[inode], self._began[inode])
            case "U":
                return Remove(self._path(data))
            case "F":
                self._source = self._path(data)
            case "R":
                return Rename(self._source, self._path(data))
        return None

    def _create(self, inode: int, path: Path) -> Operation | None:
        if path.name == PROMISES:
            self._promises = inode
            return None
        self._files[inode] = self._next
        self._next += 1
        return Create(path, self._files[inode])

    def _path(self, data: bytes) -> Path:
        return Path(data.decode()).relative_to(self._root)
