"""Compaction: frees the space of segments in which little is still needed.

Owns the choice of what to compact, the thread that does it at a part of its time, and the moment at
which the new file replaces the old ones. A segment that is wholly before a durable checkpoint is
not needed for recovery any more; only its live bodies count. They are copied, at their old
positions, into one file for several neighbouring segments. Called by the store on the loop thread.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.store.callbacks import call_back
from partibus.store.compaction.compacted_file import kept_segment
from partibus.store.compaction.survivors import (
    CompactionPlace,
    Copying,
    Source,
    Survivors,
    shared_bytes,
)
from partibus.store.interface import Done, Notify
from partibus.store.table import Segment, SegmentTable
from partibus.store.worker import Worker

# Files before the checkpoint may take this many times their live bytes, plus half a segment (16
# MiB). With what cannot be compacted yet that stays below 2 times + 256 MiB.
SPACE_FACTOR: Final = 1.5
SLACK_SEGMENTS: Final = 0.5
# When the disk is almost full, everything that is worth it is freed.
SPACE_FACTOR_EAGER: Final = 1.2

# In a fuller segment too little would be freed for the copying.
FULL_RATIO: Final = 0.85

# A neighbour is included when at most half of it is live, or when it is a compacted file that is
# not much larger than what is merged anyway: so there are few files, and a body is copied about
# once for each doubling.
NEIGHBOUR_RATIO: Final = 0.5
NEIGHBOUR_BYTES_MIN: Final = 64 << 10
GROUP_SEGMENTS_MAX: Final = 16
GROUP_READ_SEGMENTS_MAX: Final = 2

# After each slice the thread rests for this many times as long as the slice took; less when dead
# space has grown to several segments beyond the limit.
REST_FACTOR: Final = 3.0
REST_FACTOR_BEHIND: Final = 1.0
BEHIND_SEGMENTS: Final = 1.75
REST_FACTOR_FAR_BEHIND: Final = 0.1
FAR_BEHIND_SEGMENTS: Final = 2.25
REST_S_MAX: Final = 1.0

_log: Final = logging.getLogger(__name__)


class Stopped(Exception):
    """The store was closed during a compaction."""


def choose(
    segments: list[Segment], segment_bytes: int, slack_bytes: int, factor: float
) -> list[Segment]:
    """Neighbours that are worth compacting together; empty when enough of everything is live."""
    full = sum(segment.body_bytes for segment in segments)
    live = sum(segment.needed_bytes for segment in segments)
    if full <= factor * live + slack_bytes:
        return []
    best, best_ratio = -1, FULL_RATIO
    for index, segment in enumerate(segments):
        ratio = segment.needed_bytes / max(1, segment.body_bytes)
        if ratio < best_ratio and not segment.is_damaged:
            best, best_ratio = index, ratio
    if best < 0:
        return []
    return _with_neighbours(segments, best, segment_bytes)


def _with_neighbours(segments: list[Segment], best: int, segment_bytes: int) -> list[Segment]:
    first, last = best, best + 1
    group = segments[first:last]
    while last - first < GROUP_SEGMENTS_MAX:
        if first and _joins(segments[first - 1], group, segment_bytes):
            first -= 1
        elif last < len(segments) and _joins(segments[last], group, segment_bytes):
            last += 1
        else:
            break
        group = segments[first:last]
    return group


def _joins(segment: Segment, group: list[Segment], segment_bytes: int) -> bool:
    live = sum(other.needed_bytes for other in group)
    read = sum(other.file_bytes for other in group)
    needed = segment.needed_bytes
    if segment.is_damaged or live + needed > segment_bytes:
        return False
    if read + segment.file_bytes > GROUP_READ_SEGMENTS_MAX * segment_bytes:
        return False
    if segment.extents is not None and needed <= max(NEIGHBOUR_BYTES_MIN, 2 * live):
        return True
    return needed < NEIGHBOUR_RATIO * segment.body_bytes


class Compactor:
    """Compacts one group of segments at a time."""

    def __init__(
        self,
        place: CompactionPlace,
        table: SegmentTable,
        notify: Notify,
        segment_bytes: int,
        thread_name: str,
    ) -> None:
        self._place = place
        self._directory = place.directory
        self._table = table
        self._notify = notify
        self._segment_bytes = segment_bytes
        self._worker = Worker(thread_name)
        self._stopping = threading.Event()
        self._slice_began = 0.0
        self._is_busy = False
        self._group: list[Segment] = []
        self._marks: list[tuple[int, int]] = []
        """How long the lists of each segment of the group were when they were copied."""

    def begin(self, position: int, done: Done, *, is_eager: bool = False) -> bool:
        """Delete what is not needed before a checkpoint's position, and compact what is worth it.

        `done` is called when the space is free; returns False, without a call, when there is
        nothing to do or it is already being done. With `eager` it does all it can, for a disk that
        is almost full.
        """
        if self._is_busy or self._stopping.is_set():
            return False
        names = [self._table.remove(base).name for base in self._table.empty_before(position)]
        segments = self._table.before(position)
        unsure: list[Segment] = []
        slack_bytes = 0 if is_eager else int(SLACK_SEGMENTS * self._segment_bytes)
        factor = SPACE_FACTOR_EAGER if is_eager else SPACE_FACTOR
        if sum(segment.body_bytes for segment in segments) > slack_bytes:
            unsure = [segment for segment in segments if not segment.is_surveyed]
        group = [] if unsure else choose(segments, self._segment_bytes, slack_bytes, factor)
        if names:
            last = None if unsure or group else done
            self._forget(names, partial(self._delete, names, last))
        if unsure:
            self._worker.submit(partial(self._survey, unsure[0], Source(unsure[0]), done))
        elif group:
            self._begin_group(group, done)
        self._is_busy = bool(names or unsure or group)
        return self._is_busy

    def _begin_group(self, group: list[Segment], done: Done) -> None:
        self._group = group
        self._marks = [(len(s.retained), len(s.released)) for s in group]
        sources = [Source(segment) for segment in group]
        for segment in group:
            segment.is_compacting = True
        held = {p for p in self._table.held if group[0].base <= p < group[-1].end}
        revision = max(segment.revision for segment in group) + 1
        self._worker.submit(partial(self._copy, sources, held, revision, done))

    def close(self) -> None:
        """Give up the current compaction; only the old files remain."""
        self._stopping.set()
        self._worker.close()

    # --- on the thread ----------------------------------------------------------------------

    def _copy(self, sources: list[Source], held: set[int], revision: int, done: Done) -> None:
        self._slice_began = time.monotonic()
        copying = Copying(self._place, held, self._pause)
        try:
            survivors = copying.run(sources, revision)
        except Stopped:
            return
        except Exception as error:
            self._notify(partial(self._failed, error, copying.at, done))
        else:
            self._notify(partial(self._copied, survivors, done))

    def _survey(self, segment: Segment, source: Source, done: Done) -> None:
        """Count what is shared, and rest, since this alone frees nothing."""
        self._slice_began = time.monotonic()
        shared = shared_bytes(source)
        try:
            self._pause()
        except Stopped:
            return
        self._notify(partial(self._surveyed, segment, source.live, shared, done))

    def _pause(self) -> None:
        """Rest for a multiple of the time that was worked."""
        worked_s = time.monotonic() - self._slice_began
        if self._stopping.wait(min(REST_S_MAX, self._rest_factor() * worked_s)):
            raise Stopped
        self._slice_began = time.monotonic()

    def _rest_factor(self) -> float:
        """How long to rest; reads two numbers of the loop, which may be slightly outdated."""
        over = self._table.sealed_bytes - SPACE_FACTOR * self._table.live_bytes
        if over > FAR_BEHIND_SEGMENTS * self._segment_bytes:
            return REST_FACTOR_FAR_BEHIND
        if over > BEHIND_SEGMENTS * self._segment_bytes:
            return REST_FACTOR_BEHIND
        return REST_FACTOR

    def _delete(self, names: list[str], done: Done | None) -> None:
        try:
            self._place.delete(names)
        except Exception as error:
            # The remaining files are not needed; the next start removes them.
            _log.warning("%s: obsolete segments remain: %r", self._directory, error)
        if done is not None:
            self._notify(partial(self._over, done, None))

    # --- on the loop ------------------------------------------------------------------------

    def _surveyed(self, segment: Segment, live: int, shared: int, done: Done) -> None:
        segment.surveyed_live = live
        segment.shared_bytes = shared
        self._over(done, None)

    def _copied(self, survivors: Survivors, done: Done) -> None:
        """The new file is durable: it replaces the old ones."""
        group, self._group = self._group, []
        self._table.replace(group, self._successor(group, survivors))
        names = [segment.name for segment in group]
        self._forget(names, partial(self._delete, names, done))

    def _successor(self, group: list[Segment], survivors: Survivors) -> Segment:
        """The new file's entry, with all that happened since the table was copied."""
        writer = survivors.writer
        base, end = group[0].base, group[-1].end
        revision = max(segment.revision for segment in group) + 1
        new = kept_segment(
            base, end, revision, writer.extents, writer.body_bytes, writer.file_bytes
        )
        new.live = sum(segment.live for segment in group)
        new.surveyed_live = max(1, new.live)
        new.shared_bytes = survivors.shared_bytes
        new.retained.extend(survivors.retained)
        new.retained_lengths.extend(survivors.retained_lengths)
        new.released.extend(survivors.released)
        for segment, (retained, released) in zip(group, self._marks, strict=True):
            shift = segment.base - base
            new.retained.extend([shift + at for at in segment.retained[retained:]])
            new.retained_lengths.extend(segment.retained_lengths[retained:])
            new.released.extend([shift + at for at in segment.released[released:]])
        return new

    def _failed(self, error: Exception, at: str, done: Done) -> None:
        group, self._group = self._group, []
        for segment in group:
            segment.is_compacting = False
            # Damage is permanent; a disk that failed is tried again.
            segment.is_damaged |= isinstance(error, StoreCorrupt) and segment.name == at
        _log.error("%s: segments could not be compacted: %s", self._directory, error)
        text = f"The store {self._directory} could not be compacted: {error}"
        self._over(done, error if isinstance(error, BusError) else StoreUnavailable(text))

    def _over(self, done: Done, error: BusError | None) -> None:
        self._is_busy = False
        call_back(done, error)

    def _forget(self, names: list[str], then: Callable[[], None]) -> None:
        """Delete segments once no earlier request still reads them."""
        self._place.forget(names, lambda: self._submit(then))

    def _submit(self, job: Callable[[], None]) -> None:
        self._worker.submit(job)
