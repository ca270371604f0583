"""A store as of one moment: which files it had, and how much of each counts.

Owns the choice of files that a copy needs, and the cut of the segment that is written to. The files
are pinned while they are copied (`pins`), and all of them are written once and never changed,
except the last segment, which only grows, and the watermark, which is written again for the copy.
Takes no lock and copies nothing. Made by the store; used by the server's backups.
"""

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from partibus.store.compaction.compacted_file import KEPT_SUFFIX, parse_kept_name
from partibus.store.files.lock import LOCK_NAME
from partibus.store.files.room import RESERVE_NAME
from partibus.store.files.segment import SEGMENT_SUFFIX, segment_base
from partibus.store.files.watermark import WATERMARK_NAME, encode_watermark

_LEFT_OUT: Final = frozenset({LOCK_NAME, RESERVE_NAME, WATERMARK_NAME})


@dataclass(eq=False, slots=True)
class CapturedFile:
    """A file of a store, up to the length that counts.

    `stamp` shows whether a file that was copied before is unchanged; none while it grows."""

    name: str
    length: int
    stamp: str


@dataclass(eq=False, slots=True)
class Capture:
    """What was durable at one moment; `names` are all files of the directory at that time."""

    store_id: bytes
    position: int
    names: list[str]

    @property
    def watermark(self) -> bytes:
        """The content of the file `durable` for a copy that ends at the position."""
        return encode_watermark(self.store_id, self.position)

    def files(self, directory: Path) -> list[CapturedFile]:
        """The files to copy; they are pinned, so none of them has been removed."""
        names = [n for n in self.names if is_copied(n) and (directory / n).is_file()]
        bases = {n: segment_base(directory, n) for n in names if n.endswith(SEGMENT_SUFFIX)}
        starts = sorted(
            [
                *bases.values(),
                *(parse_kept_name(directory, n)[0] for n in names if n.endswith(KEPT_SUFFIX)),
            ]
        )
        found: list[CapturedFile] = []
        for name in sorted(names):
            base = bases.get(name)
            if base is None:
                found.append(whole_file(directory, name))
            elif base < self.position:
                index = bisect_right(starts, base)
                end = min([*starts[index : index + 1], self.position])
                found.append(_segment_file(directory, name, base, end))
        return found


def is_copied(name: str) -> bool:
    """Whether a copy of a store includes a file with this name."""
    return name not in _LEFT_OUT and not name.endswith(".tmp")


def whole_file(directory: Path, name: str) -> CapturedFile:
    """A file that is never changed, with its whole length."""
    found = (directory / name).stat()
    stamp = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}-{found.st_size:x}"
    return CapturedFile(name, found.st_size, stamp)


def _segment_file(directory: Path, name: str, base: int, end: int) -> CapturedFile:
    """A segment up to a position; after a crash a file may be longer than its entries."""
    whole = whole_file(directory, name)
    if whole.length <= end - base:
        return whole
    return CapturedFile(name, end - base, "")
