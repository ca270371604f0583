"""What a loss of power may leave of files, rebuilt from a trace of what was done to them.

Owns the model of a file system that keeps its promises and no others. What was written to a file is
there for certain when a sync of that file that began afterwards has returned; a name, when a sync
of its directory has. Of everything later any part may be there: none, all, some writes and not
others, some sectors of a write and not others; names in their order or out of it. `rebuild` makes
one such state, drawn by a seed. Whoever records a trace (`traced_disk`, `support.file_trace`)
also notes what was promised to clients, so that a test knows what must be found.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all."""


@dataclass(slots=True)
class Create:
    """A new, empty file under a name."""

    path: Path
    inode: int


@dataclass(slots=True)
class Write:
    """Bytes of a file; what lies before them and was never written reads as zeros."""

    inode: int
    offset: int
    data: bytes


@dataclass(slots=True)
class Resize:
    """The length of a file, cut or grown; only a `grows` never cuts."""

    inode: int
    length: int
    grows: bool = False


@dataclass(slots=True)
class Rename:
    """A file gets another name, whatever had it before."""

    source: Path
    target: Path


@dataclass(slots=True)
class Remove:
    """A name goes."""

    path: Path


@dataclass(slots=True)
class Sync:
    """Everything that was done to a file before `began` is durable."""

    inode: int
    began: int


@dataclass(slots=True)
class SyncNames:
    """Every name in a directory that was made or gone before `began` is durable."""

    directory: Path
    began: int


@dataclass(slots=True)
class Promise:
    """Somebody was told something."""

    note: object


Operation = Create | Write | Resize | Rename | Remove | Sync | SyncNames | Promise
NameChange = Create | Rename | Remove


def promises(operations: Iterable[Operation]) -> list[object]:
    """What had been promised by the end of a trace."""
    return [operation.note for operation in operations if isinstance(operation, Promise)]


@dataclass(slots=True)
class _File:
    """What was done to one file: for certain, and perhaps."""

    certain: list[Write | Resize] = field(default_factory=list)
    perhaps: list[Write | Resize] = field(default_factory=list)


def rebuild(operations: list[Operation], place: Path, rng: random.Random) -> None:
    """Make a directory as a loss of power after these operations may have left it."""
    files = _files(operations)
    place.mkdir(parents=True)
    for path, inode in _names(operations, rng).items():
        target = place / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_content(files.get(inode, _File()), rng))


def _files(operations: list[Operation]) -> dict[int, _File]:
    synced: dict[int, int] = {}
    for operation in operations:
        if isinstance(operation, Sync):
            synced[operation.inode] = max(synced.get(operation.inode, 0), operation.began)
    files: dict[int, _File] = {}
    for index, operation in enumerate(operations):
        if isinstance(operation, Write | Resize):
            file = files.setdefault(operation.inode, _File())
            is_certain = index < synced.get(operation.inode, 0)
            (file.certain if is_certain else file.perhaps).append(operation)
    return files


def _names(operations: list[Operation], rng: random.Random) -> Mapping[Path, int]:
    """Which names there are, and the files under them."""
    synced: dict[Path, int] = {}
    for operation in operations:
        if isinstance(operation, SyncNames):
            synced[operation.directory] = max(synced.get(operation.directory, 0), operation.began)
    in_order = rng.random() < 0.5
    chance = rng.random()
    is_cut = False
    real: dict[Path, int] = {}
    found: dict[Path, int] = {}
    for index, operation in enumerate(operations):
        if not isinstance(operation, Create | Rename | Remove):
            continue
        inode = _rename(real, operation)
        if index >= synced.get(_directory(operation), 0):
            is_cut = is_cut or (in_order and rng.random() < 0.3)
            if is_cut or (not in_order and rng.random() > chance):
                continue
        _rename(found, operation, inode)
    return found


def _directory(operation: NameChange) -> Path:
    return operation.target.parent if isinstance(operation, Rename) else operation.path.parent


def _rename(names: dict[Path, int], change: NameChange, known: int | None = None) -> int:
    """Apply a change; answers the file it was about, or takes the one that is `known`."""
    if isinstance(change, Create):
        names[change.path] = change.inode
        return change.inode
    if isinstance(change, Remove):
        return names.pop(change.path, -1)
    inode = names.pop(change.source, -1) if known is None else known
    names.pop(change.source, None)
    names[change.target] = inode
    return inode


def _content(file: _File, rng: random.Random) -> bytes:
    content = bytearray()
    for operation in file.certain:
        _apply(content, operation)
    chance = rng.choice([0.0, 0.5, 1.0, rng.random()])
    tears = rng.random() < 0.5
    for operation in file.perhaps:
        if isinstance(operation, Write) and tears:
            for sector in _sectors(operation):
                if rng.random() < chance:
                    _apply(content, sector)
        elif rng.random() < chance:
            _apply(content, operation)
    return bytes(content)


def _sectors(write: Write) -> list[Write]:
    """The same, in parts that a disk writes whole."""
    parts = []
    offset, end = write.offset, write.offset + len(write.data)
    while offset < end:
        until = min(end, (offset // SECTOR_BYTES + 1) * SECTOR_BYTES)
        data = write.data[offset - write.offset : until - write.offset]
        parts.append(Write(write.inode, offset, data))
        offset = until
    return parts


def _apply(content: bytearray, operation: Write | Resize) -> None:
    if isinstance(operation, Resize):
        if operation.length < len(content) and not operation.grows:
            del content[operation.length :]
        content.extend(bytes(max(0, operation.length - len(content))))
        return
    end = operation.offset + len(operation.data)
    content.extend(bytes(max(0, end - len(content))))
    content[operation.offset : end] = operation.data
