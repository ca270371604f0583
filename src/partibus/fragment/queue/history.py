"""The identities a fragment has seen, in little memory: two 64-bit words each, and no object.

Owns an open-addressing table in shards of bounded size, so that the longest pause is the rebuilding
of one shard however many identities there are. Identities are removed only by age: each has the
time it was first seen, and a rebuild leaves out what is older than the window. Knows nothing of
messages; used by `duplicates`, written by `snapshot`.
"""

import struct
from array import array
from collections.abc import Callable
from typing import Final, TypeAlias

from partibus.domain.errors import StoreCorrupt

STAMP_MS: Final = 8
"""The resolution of a time stamp, which is rounded up: a window is never shorter than
configured."""
STAMP_BITS: Final = 40
"""Room for stamps until the year 2248; the other 24 bits of the word are part of the identity,
which therefore has 88 bits."""
STAMP_MASK: Final = (1 << STAMP_BITS) - 1

SHARD_IDS_MAX: Final = 2048
"""A shard with more is split in two; rebuilding one takes a millisecond or two."""
DEPTH_MAX: Final = 20
"""The maximum number of splits, enough for billions of ids: ids crafted to have similar hashes must
not make the directory grow without end."""
SLOTS_MIN: Final = 16
SWEEP_SLOTS: Final = 8192
"""About how much one sweep visits; the rest waits for the next."""
SWEEP_INTERVAL_MS_MIN: Final = 20
NO_STAMP: Final = STAMP_MASK + 1
"""Later than every stamp: the oldest stamp of an empty shard."""

LAYOUT: Final = 1
"""The size in a snapshot, with the slot of an identity in its shard."""
PAGED_LAYOUT: Final = 2
"""The same, with shards in pages."""
PAGED_SLOTS_MIN: Final = 256
"""A smaller shard is written into the snapshot itself."""
_PAGED_SHARD: Final = struct.Struct("<BIIQ")
_HEAD: Final = struct.Struct("<BB")
_SHARD: Final = struct.Struct("<BII")
_SLOT_BYTES: Final = 16
_LOW_32: Final = 0xFFFF_FFFF

Part: TypeAlias = "bytes | array[int]"
"""The parts of a snapshot; large ones are not copied."""


def stamp_of(time_ms: int) -> int:
    """A time as stored with an identity."""
    return (time_ms + STAMP_MS - 1) // STAMP_MS


def cutoff_of(now_ms: int, window_ms: int) -> int:
    """The latest stamp outside of the window."""
    return max(0, (now_ms - window_ms) // STAMP_MS)


def _within(stamp: int, steps: int) -> int:
    """A shifted stamp, limited to its bits."""
    return max(1, min(stamp + steps, STAMP_MASK))


class Shard:
    """The identities whose hashes begin with the same `depth` bits."""

    __slots__ = ("depth", "oldest", "page", "slot_count", "used", "words")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.page = 0
        """The page of a checkpoint that holds the words as they are; 0 when none does."""
        self.slot_count = SLOTS_MIN
        self.used = 0
        """Slots with an identity, whether or not it is still in the window."""
        self.oldest = NO_STAMP
        """No stamp is older than this."""
        self.words: array[int] = array("Q", bytes(SLOTS_MIN * _SLOT_BYTES))
        """For each slot the first word of the hash, then 24 bits of the second and the stamp;
        all zero in an empty one."""

    def live(self, cutoff: int) -> list[tuple[int, int]]:
        """The identities in the window; an empty slot has no stamp and is never one."""
        words = self.words
        return [
            (high, low)
            for high, low in zip(words[0::2], words[1::2], strict=True)
            if low & STAMP_MASK > cutoff
        ]

    def thaw(self) -> None:
        """The words are about to change in place: copy them if a checkpoint has taken them."""
        if self.page:
            self.page = 0
            self.words = self.words[:]

    def shift(self, steps: int) -> None:
        """Move all stamps; an empty slot stays empty."""
        self.thaw()
        words = self.words
        for at in range(0, 2 * self.slot_count, 2):
            if words[at]:
                low = words[at + 1]
                words[at + 1] = low & ~STAMP_MASK | _within(low & STAMP_MASK, steps)
        if self.oldest != NO_STAMP:
            self.oldest = _within(self.oldest, steps)

    def fill(self, pairs: list[tuple[int, int]]) -> None:
        """Replace the contents with these, in twice as many slots."""
        slot_count = max(SLOTS_MIN, 2 * len(pairs))
        words: array[int] = array("Q", bytes(slot_count * _SLOT_BYTES))
        end = 2 * slot_count
        oldest = NO_STAMP
        for high, low in pairs:
            at = ((high & _LOW_32) * slot_count >> 32) * 2
            while words[at]:
                at += 2
                if at == end:
                    at = 0
            words[at] = high
            words[at + 1] = low
            stamp = low & STAMP_MASK
            if stamp < oldest:
                oldest = stamp
        self.words = words
        self.page = 0
        self.slot_count = slot_count
        self.used = len(pairs)
        self.oldest = oldest


class History:
    """Identities by the time they were first seen; hashes are given as two 64-bit words."""

    __slots__ = (
        "_cursor",
        "_depth",
        "_directory",
        "count",
        "noted_ms",
        "pending",
        "stepped_ms",
        "sweep_due_ms",
        "unnoted",
    )

    def __init__(self) -> None:
        self._depth = 0
        self._directory: list[Shard] = []
        """The shard for every prefix of `_depth` bits; one with a shorter prefix is listed several
        times."""
        self.count = 0
        """Identities held, including those that left the window since the last sweep."""
        self.pending: set[bytes] = set()
        """Identities of messages that are not durable yet."""
        self._cursor = 0
        self.sweep_due_ms = 0
        """When to sweep next; it matters only while anything is held."""
        self.noted_ms = 0
        """When dropped duplicates were last logged."""
        self.unnoted = 0
        """Duplicates dropped since then."""
        self.stepped_ms = 0
        """By how much the clock was set since the start of the process."""

    @property
    def byte_count(self) -> int:
        """The memory of the words; the rest is a few bytes per thousand identities."""
        return sum([shard.slot_count * _SLOT_BYTES for shard in self.shards()])

    def shards(self) -> list[Shard]:
        """Every shard once, by the prefix of its hashes."""
        found: list[Shard] = []
        at = 0
        while at < len(self._directory):
            shard = self._directory[at]
            found.append(shard)
            at += 1 << self._depth - shard.depth
        return found

    # --- asking and adding ------------------------------------------------------------------

    def contains(self, high: int, low: int, cutoff: int) -> bool:
        """Whether an identity was first seen after `cutoff`."""
        if not self.count:
            return False
        high = high or 1
        shard = self._directory[high >> 64 - self._depth]
        words = shard.words
        end = 2 * shard.slot_count
        at = ((high & _LOW_32) * shard.slot_count >> 32) * 2
        word = words[at]
        while word:
            if word == high:
                known = words[at + 1]
                if (known ^ low) >> STAMP_BITS == 0:
                    return known & STAMP_MASK > cutoff
            at += 2
            if at == end:
                at = 0
            word = words[at]
        return False

    def add(self, high: int, low: int, stamp: int, cutoff: int) -> None:
        """An identity is seen for the first time, or again after its window has ended."""
        if not self._directory:
            self._directory = [Shard(0)]
        high = high or 1
        low = low & ~STAMP_MASK | stamp
        shard = self._directory[high >> 64 - self._depth]
        if 4 * shard.used >= 3 * shard.slot_count:
            self._make_room(shard, high, cutoff)
            shard = self._directory[high >> 64 - self._depth]
        if shard.page:
            shard.thaw()
        words = shard.words
        end = 2 * shard.slot_count
        at = ((high & _LOW_32) * shard.slot_count >> 32) * 2
        word = words[at]
        while word:
            if word == high and (words[at + 1] ^ low) >> STAMP_BITS == 0:
                break
            at += 2
            if at == end:
                at = 0
            word = words[at]
        else:
            words[at] = high
            shard.used += 1
            self.count += 1
        words[at + 1] = low
        if stamp < shard.oldest:
            shard.oldest = stamp

    def _make_room(self, shard: Shard, high: int, cutoff: int) -> None:
        """Remove old identities; split the shard if it is still full."""
        pairs = shard.live(cutoff)
        self.count -= shard.used - len(pairs)
        if len(pairs) <= SHARD_IDS_MAX or shard.depth >= DEPTH_MAX:
            shard.fill(pairs)
            return
        if shard.depth == self._depth:
            self._directory = [same for same in self._directory for _ in range(2)]
            self._depth += 1
            self._cursor *= 2
        bit = 1 << 63 - shard.depth
        span = 1 << self._depth - shard.depth
        begin = (high >> 64 - self._depth) & ~(span - 1)
        for half in range(2):
            part = Shard(shard.depth + 1)
            part.fill([pair for pair in pairs if bool(pair[0] & bit) == bool(half)])
            at = begin + half * (span // 2)
            self._directory[at : at + span // 2] = [part] * (span // 2)

    # --- forgetting -------------------------------------------------------------------------

    def next_sweep_ms(self) -> int | None:
        """When `sweep` wants to be called; None when nothing is held."""
        return self.sweep_due_ms if self.count else None

    def sweep(self, now_ms: int, window_ms: int) -> None:
        """Remove old identities in the next few shards; all are visited in half a window."""
        if not self.count or now_ms < self.sweep_due_ms:
            return
        cutoff = cutoff_of(now_ms, window_ms)
        size = len(self._directory)
        begin = at = self._cursor
        budget = SWEEP_SLOTS
        while at < size and budget > 0:
            shard = self._directory[at]
            budget -= SLOTS_MIN
            if shard.oldest <= cutoff:
                budget -= shard.slot_count
                pairs = shard.live(cutoff)
                self.count -= shard.used - len(pairs)
                shard.fill(pairs)
            at += 1 << self._depth - shard.depth
        self._cursor = 0 if at >= size else at
        if not self.count:
            self._depth, self._directory, self._cursor = 0, [], 0
        interval_ms = window_ms * (at - begin) // (2 * size)
        self.sweep_due_ms = now_ms + max(SWEEP_INTERVAL_MS_MIN, interval_ms)

    def shift_ms(self, delta_ms: int) -> None:
        """The clock was set: identities keep their age, and windows their length."""
        self.stepped_ms += delta_ms
        self.sweep_due_ms += delta_ms
        self.noted_ms += delta_ms
        for shard in self.shards():
            shard.shift(-(-delta_ms // STAMP_MS))

    # --- in a snapshot ----------------------------------------------------------------------

    def dump(self, add_page: Callable[[Shard], int] | None = None) -> list[Part]:
        """All of it as it is in memory; larger shards in pages, if there are pages.

        `add_page` returns the number of a shard's page, which is kept here.
        """
        paged = add_page is not None
        parts: list[Part] = [_HEAD.pack(PAGED_LAYOUT if paged else LAYOUT, self._depth)]
        for shard in self.shards():
            if add_page is None:
                parts.append(_SHARD.pack(shard.depth, shard.slot_count, shard.used))
                parts.append(shard.words)
            elif shard.slot_count < PAGED_SLOTS_MIN:
                parts.append(_PAGED_SHARD.pack(shard.depth, shard.slot_count, shard.used, 0))
                parts.append(shard.words[:])
            else:
                shard.page = add_page(shard)
                fields = (shard.depth, shard.slot_count, shard.used, shard.page)
                parts.append(_PAGED_SHARD.pack(*fields))
        return parts

    def load(self, data: bytes, read_page: Callable[[int], bytes] | None = None) -> None:
        """Load what `dump` wrote into an empty history."""
        layout, self._depth = _HEAD.unpack_from(data, 0)
        if layout not in (LAYOUT, PAGED_LAYOUT):
            raise StoreCorrupt(
                f"layout {layout} of a history of message ids is not known to this release; "
                "open the data with the release that wrote it"
            )
        form = _SHARD if layout == LAYOUT else _PAGED_SHARD
        offset, end = _HEAD.size, len(data)
        while offset < end:
            depth, slot_count, used, *page = form.unpack_from(data, offset)
            offset += form.size
            if page and page[0] and read_page is not None:
                words = read_page(page[0])
            else:
                words = data[offset : offset + slot_count * _SLOT_BYTES]
                offset += slot_count * _SLOT_BYTES
            if len(words) != slot_count * _SLOT_BYTES or depth > self._depth or used >= slot_count:
                raise StoreCorrupt("a history of message ids in a snapshot is incomplete")
            shard = Shard(depth)
            shard.words = array("Q")
            shard.words.frombytes(words)
            shard.slot_count, shard.used, shard.oldest = slot_count, used, 0
            shard.page = page[0] if page else 0
            self._directory += [shard] * (1 << self._depth - depth)
            self.count += used
        if len(self._directory) != 1 << self._depth:
            raise StoreCorrupt("a history of message ids in a snapshot is incomplete")
