"""The files of a store's directory, checked before anything is trusted or changed.

Owns the first check: names, watermark, checkpoint and segment headers must belong to one store and
to this format. Removes only the incomplete files of an interrupted start, roll or checkpoint. Must
never read an entry. Called by the store when it opens.
"""

import logging
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partibus.domain.errors import StoreCorrupt
from partibus.store.compaction.compacted_file import KEPT_SUFFIX, load_kept, parse_kept_name
from partibus.store.files import segment
from partibus.store.files.checkpoint import Checkpoint, checkpoint_names, read_checkpoint
from partibus.store.files.disk import Disk
from partibus.store.files.watermark import WATERMARK_NAME, WatermarkFound, read_watermark
from partibus.store.table import Segment

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Inventory:
    """The files of a store; `bases` is empty when it is new.

    `compacted` are the segments that compaction made, which hold bodies and nothing to replay.
    `sizes` are the lengths of the segment files, `durable` how far the log is known to be
    durable before any entry was read, `may_cut` whether that is all there is to know.
    """

    store_id: bytes
    bases: list[int] = field(init=False, default_factory=list)
    sizes: list[int] = field(init=False, default_factory=list)
    compacted: list[Segment] = field(init=False, default_factory=list)
    checkpoint: Checkpoint | None = field(init=False, default=None)
    durable: int = field(init=False, default=0)
    may_cut: bool = field(init=False, default=True)


def prepare_log(disk: Disk, directory: Path, segment_bytes: int) -> Inventory:
    """The inventory of a log with at least one segment: a new one gets its first."""
    inventory = take_inventory(disk, directory)
    if not inventory.bases:
        size = segment.reservation(segment.SEGMENT_HEADER_BYTES, segment_bytes)
        disk.close(segment.make_segment(disk, directory, inventory.store_id, 0, size))
        inventory.bases.append(0)
        inventory.sizes.append(size)
    return inventory


def take_inventory(disk: Disk, directory: Path, *, tidies: bool = True) -> Inventory:
    """Check every file; StoreCorrupt names the first that does not belong here.

    With `tidies`, incomplete files are removed.
    """
    names = disk.names(directory)
    watermark = read_watermark(disk, directory)
    checkpoint = _latest_checkpoint(disk, directory, names)
    bases = sorted(
        segment.segment_base(directory, n) for n in names if n.endswith(segment.SEGMENT_SUFFIX)
    )
    kept = _Kept(directory, names)
    bases = kept.leave_out(bases)
    headers = {base: _read_header(disk, directory, base) for base in bases}
    inventory = Inventory(_store_id(watermark, checkpoint, [headers[b][0] for b in bases]))
    inventory.checkpoint = checkpoint
    inventory.durable = max(
        watermark.position if watermark else 0, checkpoint.durable if checkpoint else 0
    )
    if checkpoint and checkpoint.store_id != inventory.store_id:
        raise StoreCorrupt.at(
            directory / checkpoint_names(names)[-1],
            32,
            f"the checkpoint belongs to "
            f"store {checkpoint.store_id.hex()}, this one is {inventory.store_id.hex()}.",
        )
    half_made = _half_made(directory, names, bases, headers, inventory.durable)
    for path in half_made if tidies else ():
        disk.remove(path)
    for base in bases:
        header, size = headers[base]
        segment.check_segment_header(
            segment.segment_path(directory, base), header, base, inventory.store_id
        )
        inventory.bases.append(base)
        inventory.sizes.append(size)
    inventory.compacted = kept.load(disk, directory, inventory.store_id, checkpoint)
    # Nothing is removed before all of the compacted files have been verified.
    for name in kept.superfluous if tidies else ():
        disk.remove(directory / name)
    if not bases and (checkpoint or inventory.durable):
        raise StoreCorrupt.at(
            segment.segment_path(directory, 0),
            0,
            f"every segment is missing, but the log is "
            f"known to be durable up to {inventory.durable:#x}.",
        )
    inventory.may_cut = not bases or (watermark is not None and watermark.sound)
    if not inventory.may_cut:
        _log.warning("%s is damaged or missing; it is created again", directory / WATERMARK_NAME)
    return inventory


class _Kept:
    """The compacted files of a directory, and what a crash left of the files they replaced."""

    __slots__ = ("found", "superfluous")

    def __init__(self, directory: Path, names: list[str]) -> None:
        self.found: list[tuple[int, int, str]] = []
        """(base, end, name) in the order of the log."""
        self.superfluous: list[str] = []
        kept = [
            (*parse_kept_name(directory, name), name)
            for name in names
            if name.endswith(KEPT_SUFFIX)
        ]
        for base, end, _, name in sorted(kept, key=lambda file: -file[2]):
            self._place(directory, base, end, name)
        self.found.sort()

    def _place(self, directory: Path, base: int, end: int, name: str) -> None:
        """The later ones come first: files within one of them were replaced by it."""
        over = [other for other in self.found if base < other[1] and other[0] < end]
        if not over:
            self.found.append((base, end, name))
        elif over[0][0] <= base and end <= over[0][1]:
            self.superfluous.append(name)
        else:
            raise StoreCorrupt.at(
                directory / name,
                16,
                f"the file and {over[0][2]} overlap; restore the store from a copy.",
            )

    def leave_out(self, bases: list[int]) -> list[int]:
        """The segments that no compacted file replaced."""
        left: list[int] = []
        for base in bases:
            if any(first <= base < end for first, end, _ in self.found):
                self.superfluous.append(segment.segment_name(base))
            else:
                left.append(base)
        return left

    def load(
        self, disk: Disk, directory: Path, store_id: bytes, checkpoint: Checkpoint | None
    ) -> list[Segment]:
        """The files as the table represents them."""
        position = checkpoint.position if checkpoint else 0
        for _, end, name in self.found:
            if end > position:
                raise StoreCorrupt.at(
                    directory / name,
                    24,
                    f"the file replaces the log up to {end:#x}, but "
                    f"the present checkpoint covers it up to {position:#x}; restore the "
                    "checkpoint (.ckpt) that belongs to it.",
                )
        return [load_kept(disk, directory, name, store_id) for _, _, name in self.found]


def _latest_checkpoint(disk: Disk, directory: Path, names: list[str]) -> Checkpoint | None:
    found = checkpoint_names(names)
    return read_checkpoint(disk, directory / found[-1]) if found else None


def _read_header(disk: Disk, directory: Path, base: int) -> tuple[bytes, int]:
    fd = disk.open(segment.segment_path(directory, base), writable=False)
    try:
        return disk.read(fd, segment.SEGMENT_HEADER_BYTES, 0), disk.size(fd)
    finally:
        disk.close(fd)


def _store_id(
    watermark: WatermarkFound | None, checkpoint: Checkpoint | None, headers: list[bytes]
) -> bytes:
    """The id of the store: from the watermark, or else from the first valid file."""
    if watermark and watermark.store_id:
        return watermark.store_id
    if checkpoint:
        return checkpoint.store_id
    named = [store_id for store_id in map(segment.header_store_id, headers) if store_id]
    return named[0] if named else uuid.uuid4().bytes


def _half_made(
    directory: Path,
    names: list[str],
    bases: list[int],
    headers: dict[int, tuple[bytes, int]],
    durable: int,
) -> list[Path]:
    """Files that never got their name, and a last segment whose header was never synced."""
    found = [directory / name for name in names if name.endswith(".tmp")]
    if bases and not headers[bases[-1]][0].strip(b"\0") and durable <= bases[-1]:
        found.append(segment.segment_path(directory, bases.pop()))
        _log.warning("%s: skipping a segment that was never begun", found[-1])
    return found
