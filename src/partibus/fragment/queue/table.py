"""Messages in sequence order, as columns: the compact form in which a fragment keeps them.

Owns five 64-bit columns in chunked arrays, 40 bytes a message, so that a million messages cost tens
of megabytes and no garbage collection. The front and the tail, where the traffic is, are O(1); a
row in the middle is found by two binary searches. Backlog, deferred and scheduled messages are all
kept in such tables. Knows nothing of locks, receivers or durability.
"""

from array import array
from collections.abc import Iterator
from typing import Final

from partibus.fragment.message import Held, MessageState, Overlay

COLUMNS: Final = 5
"""sequence, position, length | extra << 32, enqueued_ms | extra >> 32 << 47, expires_ms.

`extra` is the delivery count, with `WAS_SCHEDULED` in a message that was; in the table of
scheduled messages it is the time to live, and `expires_ms` is the time at which the message is
due."""
WAS_SCHEDULED: Final = 1 << 48
"""In `extra`: the message was scheduled before it waited (SCH-4)."""
ROW_BYTES: Final = COLUMNS * 8

CHUNK_MESSAGES: Final = 1024
"""Messages per chunk: 40 KiB, so that moving half of one in memory takes about a microsecond."""

_CHUNK_SLOTS: Final = CHUNK_MESSAGES * COLUMNS
_LENGTH_MASK: Final = 0xFFFF_FFFF
_EXTRA_MASK: Final = 0xFFFF_FFFF
_ENQUEUED_BITS: Final = 47
"""Times until the year 6429; the 17 bits above them hold the bits of `extra` beyond 32."""
_ENQUEUED_MASK: Final = (1 << _ENQUEUED_BITS) - 1
_HIGH_EXTRA_MASK: Final = 0xFFFF
_NO_EXPIRY: Final = 1 << 63


class Chunk:
    """Up to CHUNK_MESSAGES rows from `head` to the end.

    Rows before `head` are gone, and rows are added at the end; any other change calls `thaw` first,
    since a checkpoint may still have to write the rows as they are.
    """

    __slots__ = ("expires_ms_min", "head", "overlays", "page", "page_end", "page_head", "rows")

    def __init__(self, rows: "array[int]") -> None:
        self.rows = rows
        self.head = 0
        self.expires_ms_min = _NO_EXPIRY
        """No row expires before this."""
        self.overlays: dict[int, Overlay] | None = None
        """Overlays by sequence; some may belong to messages that are gone."""
        self.page = 0
        """The page of a checkpoint that holds the rows from `page_head` to `page_end`."""
        self.page_head = 0
        self.page_end = 0

    def thaw(self) -> None:
        """The rows are about to change in place: copy them if a checkpoint has taken them."""
        if self.page:
            self.page = 0
            self.rows = self.rows[:]
            if self.overlays is not None:
                self.overlays = dict(self.overlays)


class MessageTable:
    """Messages by sequence number."""

    __slots__ = ("_chunks", "_count", "_expiry_floor_ms", "last_sequence")

    def __init__(self) -> None:
        self._chunks: list[Chunk] = []
        self._count = 0
        self._expiry_floor_ms = _NO_EXPIRY
        """Nothing in the table expires before this; exact after each sweep."""
        self.last_sequence = 0
        """The highest sequence ever added."""

    def __len__(self) -> int:
        return self._count

    # --- in -------------------------------------------------------------------------------

    def push(
        self,
        sequence: int,
        position: int,
        length: int,
        enqueued_ms: int,
        expires_ms: int,
        extra: int,
    ) -> None:
        """Add at the tail a message whose sequence is higher than all before it."""
        assert sequence > self.last_sequence
        self.last_sequence = sequence
        chunks = self._chunks
        if not chunks or len(chunks[-1].rows) >= _CHUNK_SLOTS:
            chunks.append(Chunk(array("Q")))
        chunk = chunks[-1]
        stamp = enqueued_ms
        if extra > _EXTRA_MASK:
            stamp |= extra >> 32 << _ENQUEUED_BITS
            extra &= _EXTRA_MASK
        chunk.rows.extend((sequence, position, length | extra << 32, stamp, expires_ms))
        self._count += 1
        if expires_ms:
            self._note_expiry(chunk, expires_ms)

    def insert(self, held: Held) -> None:
        """Insert a message at its place in the order."""
        if held.sequence > self.last_sequence:
            self.push(
                held.sequence,
                held.position,
                held.length,
                held.enqueued_ms,
                held.expires_ms,
                extra_of(held),
            )
            if held.overlay is not None:
                self._chunks[-1].thaw()
                _lay_over(self._chunks[-1], held)
            return
        chunk = self._chunk_for_insert(held.sequence)
        chunk.thaw()
        if held.overlay is not None or chunk.overlays is not None:
            _lay_over(chunk, held)
        word, stamp = packed(held)
        row = (held.sequence, held.position, held.length | word << 32, stamp, held.expires_ms)
        at = _row_at_or_after(chunk.rows, chunk.head, held.sequence)
        assert at >= len(chunk.rows) or chunk.rows[at] != held.sequence
        if at == chunk.head and at:
            # A message that comes back to the front takes the slot that it left there.
            chunk.head = at - COLUMNS
            chunk.rows[at - COLUMNS : at] = array("Q", row)
        else:
            chunk.rows[at:at] = array("Q", row)
        self._count += 1
        if held.expires_ms:
            self._note_expiry(chunk, held.expires_ms)

    def _chunk_for_insert(self, sequence: int) -> Chunk:
        if not self._chunks:
            self._chunks.append(Chunk(array("Q")))
            return self._chunks[0]
        index = max(0, self._chunk_index(sequence))
        chunk = self._chunks[index]
        if len(chunk.rows) - chunk.head >= 2 * _CHUNK_SLOTS:
            self._split(index)
            index = max(0, self._chunk_index(sequence))
            chunk = self._chunks[index]
        return chunk

    def _split(self, index: int) -> None:
        chunk = self._chunks[index]
        middle = chunk.head + (len(chunk.rows) - chunk.head) // (2 * COLUMNS) * COLUMNS
        upper = Chunk(chunk.rows[middle:])
        upper.expires_ms_min = chunk.expires_ms_min
        if chunk.overlays is not None:
            first = upper.rows[0]
            laid = chunk.overlays.items()
            upper.overlays = {number: overlay for number, overlay in laid if number >= first}
            chunk.overlays = {number: overlay for number, overlay in laid if number < first}
        chunk.rows = chunk.rows[chunk.head : middle]
        chunk.head = 0
        chunk.page = 0
        self._chunks.insert(index + 1, upper)

    def _note_expiry(self, chunk: Chunk, expires_ms: int) -> None:
        if expires_ms < chunk.expires_ms_min:
            chunk.expires_ms_min = expires_ms
        if expires_ms < self._expiry_floor_ms:
            self._expiry_floor_ms = expires_ms

    # --- out ------------------------------------------------------------------------------

    def pop(self) -> Held:
        """Take the message with the lowest sequence; the table must not be empty."""
        chunk = self._chunks[0]
        head = chunk.head
        held = _held(chunk, head, True)
        head += COLUMNS
        chunk.head = head
        self._count -= 1
        if head >= len(chunk.rows):
            del self._chunks[0]
        return held

    def take(self, sequence: int) -> Held | None:
        """Take a message out by its sequence; None when it is not here."""
        index = self._chunk_index(sequence)
        if index < 0:
            return None
        chunk = self._chunks[index]
        at = _row_at_or_after(chunk.rows, chunk.head, sequence)
        if at >= len(chunk.rows) or chunk.rows[at] != sequence:
            return None
        held = _held(chunk, at, True)
        self._count -= 1
        if at == chunk.head:
            chunk.head += COLUMNS
        else:
            chunk.thaw()
            del chunk.rows[at : at + COLUMNS]
        if chunk.head >= len(chunk.rows):
            del self._chunks[index]
        return held

    def take_expired(self, now_ms: int, limit: int) -> list[Held]:
        """Take out messages that expired by now, in sequence order, up to a limit."""
        if self._expiry_floor_ms > now_ms:
            return []
        expired: list[Held] = []
        for chunk in self._chunks:
            if len(expired) >= limit:
                break
            if chunk.expires_ms_min <= now_ms:
                expired.extend(self._take_expired_rows(chunk, now_ms, limit - len(expired)))
        self._chunks = [chunk for chunk in self._chunks if chunk.head < len(chunk.rows)]
        self._set_floor()
        return expired

    def _set_floor(self) -> None:
        floors = [chunk.expires_ms_min for chunk in self._chunks]
        self._expiry_floor_ms = min(floors, default=_NO_EXPIRY)

    def _take_expired_rows(self, chunk: Chunk, now_ms: int, limit: int) -> list[Held]:
        rows = chunk.rows
        kept = array("Q")
        expired: list[Held] = []
        expires_ms_min = _NO_EXPIRY
        for at in range(chunk.head, len(rows), COLUMNS):
            expires_ms = rows[at + 4]
            if len(expired) >= limit:
                # The rest was not visited, so its old bound stays.
                kept.extend(rows[at:])
                expires_ms_min = min(expires_ms_min, chunk.expires_ms_min)
                break
            if 0 < expires_ms <= now_ms:
                expired.append(_held(chunk, at, True))
                continue
            kept.extend(rows[at : at + COLUMNS])
            if expires_ms and expires_ms < expires_ms_min:
                expires_ms_min = expires_ms
        self._count -= len(expired)
        chunk.expires_ms_min = expires_ms_min
        if expired:
            chunk.thaw()
            chunk.rows, chunk.head = kept, 0
        return expired

    # --- looking --------------------------------------------------------------------------

    def due(self, now_ms: int) -> list[int]:
        """The numbers of all messages that expired by now, by expiry; nothing is taken out."""
        if self._expiry_floor_ms > now_ms:
            return []
        found: list[tuple[int, int]] = []
        for chunk in self._chunks:
            if chunk.expires_ms_min <= now_ms:
                head, rows = chunk.head, chunk.rows
                times = rows[head + 4 :: COLUMNS]
                chunk.expires_ms_min = min(filter(None, times), default=_NO_EXPIRY)
                sequences = rows[head::COLUMNS]
                pairs = zip(times, sequences, strict=True)
                found += [pair for pair in pairs if 0 < pair[0] <= now_ms]
        self._set_floor()
        found.sort()
        return [sequence for _, sequence in found]

    @property
    def first_sequence(self) -> int:
        """The lowest sequence in the table; 0 when it is empty."""
        if not self._chunks:
            return 0
        chunk = self._chunks[0]
        return chunk.rows[chunk.head]

    @property
    def first_enqueued_ms(self) -> int | None:
        """When the message with the lowest sequence was enqueued; None if the table is empty."""
        if not self._chunks:
            return None
        chunk = self._chunks[0]
        return chunk.rows[chunk.head + 3] & _ENQUEUED_MASK

    def next_expiry_ms(self) -> int | None:
        """A time before which nothing expires; None when nothing ever does."""
        floor_ms = self._expiry_floor_ms
        return None if floor_ms == _NO_EXPIRY else floor_ms

    def sequence_at(self, enqueued_ms: int) -> int:
        """The first sequence that was enqueued at or after a time; 0 when none was.

        Times increase with sequences, except where the clock was set.
        """
        for chunk in self._chunks:
            rows = chunk.rows
            if rows[-2] & _ENQUEUED_MASK < enqueued_ms:
                continue
            low, high = chunk.head // COLUMNS, len(rows) // COLUMNS - 1
            while low < high:
                middle = (low + high) // 2
                if rows[middle * COLUMNS + 3] & _ENQUEUED_MASK < enqueued_ms:
                    low = middle + 1
                else:
                    high = middle
            return rows[low * COLUMNS]
        return 0

    def __contains__(self, sequence: int) -> bool:
        index = self._chunk_index(sequence)
        if index < 0:
            return False
        chunk = self._chunks[index]
        at = _row_at_or_after(chunk.rows, chunk.head, sequence)
        return at < len(chunk.rows) and chunk.rows[at] == sequence

    def copies(self, from_sequence: int) -> Iterator[Held]:
        """Copies of the messages from a sequence on, in order; nothing is taken out.

        They are marked active, whatever they were before: a reader sees the current state.
        """
        for index in range(max(0, self._chunk_index(from_sequence)), len(self._chunks)):
            chunk = self._chunks[index]
            rows = chunk.rows
            start = _row_at_or_after(rows, chunk.head, from_sequence)
            for at in range(start, len(rows), COLUMNS):
                yield _held(chunk, at, False)

    def _chunk_index(self, sequence: int) -> int:
        """The last chunk that begins at or before a sequence; -1 when all begin later."""
        chunks = self._chunks
        low, high = 0, len(chunks)
        while low < high:
            middle = (low + high) // 2
            chunk = chunks[middle]
            if chunk.rows[chunk.head] <= sequence:
                low = middle + 1
            else:
                high = middle
        return low - 1

    # --- for snapshots --------------------------------------------------------------------

    def dump_rows(self) -> list[bytes]:
        """The rows in order, as they are kept."""
        return [chunk.rows[chunk.head :].tobytes() for chunk in self._chunks]

    def chunks(self) -> list[Chunk]:
        """The chunks in order, each with at least one row."""
        return self._chunks

    def overlays(self) -> dict[int, Overlay]:
        """The overlays of messages in the table, by sequence."""
        found: dict[int, Overlay] = {}
        for chunk in self._chunks:
            found.update(laid_over(chunk))
        return found

    def load(self, data: bytes, overlays: dict[int, Overlay]) -> None:
        """Fill an empty table with rows that `dump_rows` gave."""
        assert not self._count
        for start in range(0, len(data), CHUNK_MESSAGES * ROW_BYTES):
            rows = array("Q")
            rows.frombytes(data[start : start + CHUNK_MESSAGES * ROW_BYTES])
            chunk = Chunk(rows)
            if overlays:
                sequences = rows[0::COLUMNS]
                laid = {number: overlays[number] for number in sequences if number in overlays}
                chunk.overlays = laid or None
            expiries = [expires_ms for expires_ms in rows[4::COLUMNS] if expires_ms]
            chunk.expires_ms_min = min(expiries, default=_NO_EXPIRY)
            self.load_chunk(chunk)

    def load_chunk(self, chunk: Chunk) -> None:
        """Append rows of a snapshot, at least one."""
        rows, head = chunk.rows, chunk.head
        self._chunks.append(chunk)
        self._count += (len(rows) - head) // COLUMNS
        if chunk.expires_ms_min < self._expiry_floor_ms:
            self._expiry_floor_ms = chunk.expires_ms_min
        self.last_sequence = rows[-COLUMNS]

    def take_over(self, table: "MessageTable") -> None:
        """Fill an empty table with all rows of another, which must not be used any more."""
        assert not self._count
        self._chunks = table._chunks
        self._count = table._count
        self._expiry_floor_ms = table._expiry_floor_ms
        self.last_sequence = table.last_sequence

    def copy_of(self, sequence: int) -> Held | None:
        """A copy of one message; None when it is not here."""
        if sequence not in self:
            return None
        return next(self.copies(sequence))

    def bodies(self) -> Iterator[tuple[int, int]]:
        """(position, length) of every message."""
        for positions, lengths in self.body_columns():
            yield from zip(positions, lengths, strict=True)

    def body_columns(self) -> "Iterator[tuple[array[int], array[int]]]":
        """The positions and lengths of messages, many at a time."""
        for chunk in self._chunks:
            rows = chunk.rows[chunk.head :]
            lengths = array("I")
            with memoryview(rows) as view, view.cast("B") as raw, raw.cast("I") as words:
                # The low half of the third column, as laid out in memory and in files.
                lengths.frombytes(words[4 :: 2 * COLUMNS].tobytes())
            yield rows[1::COLUMNS], lengths

    def byte_count(self) -> int:
        """The bytes of all messages."""
        return sum([sum(lengths) for _, lengths in self.body_columns()])


def laid_over(chunk: Chunk) -> dict[int, Overlay]:
    """The overlays of the messages that are in a chunk."""
    overlays = chunk.overlays
    if not overlays:
        return {}
    sequences = chunk.rows[chunk.head :: COLUMNS]
    return {number: overlays[number] for number in sequences if number in overlays}


def _held(chunk: Chunk, at: int, leaves: bool) -> Held:
    sequence, position, sizes, stamp, expires_ms = chunk.rows[at : at + COLUMNS]
    overlay = None
    if chunk.overlays is not None:
        overlay = chunk.overlays.get(sequence)
    length = sizes & _LENGTH_MASK
    if stamp > _ENQUEUED_MASK:
        held = unpacked(sequence, position, length, sizes >> 32, stamp, expires_ms, overlay)
        if not leaves:
            held.state = MessageState.ACTIVE
        return held
    return Held(sequence, position, length, stamp, expires_ms, sizes >> 32, overlay)


def _lay_over(chunk: Chunk, held: Held) -> None:
    """Set or clear the overlay of a message that comes into a chunk."""
    if chunk.overlays is None:
        chunk.overlays = {}
    if held.overlay is None:
        chunk.overlays.pop(held.sequence, None)
    else:
        chunk.overlays[held.sequence] = held.overlay


def extra_of(held: Held) -> int:
    """The `extra` of a row."""
    if held.state is MessageState.SCHEDULED:
        return held.delivery_count | WAS_SCHEDULED
    return held.delivery_count


def packed(held: Held) -> tuple[int, int]:
    """The two words with the delivery count, the time of enqueuing and `extra`."""
    extra = extra_of(held)
    return extra & _EXTRA_MASK, held.enqueued_ms | extra >> 32 << _ENQUEUED_BITS


def unpacked(
    sequence: int,
    position: int,
    length: int,
    word: int,
    stamp: int,
    expires_ms: int,
    overlay: Overlay | None,
) -> Held:
    """The message whose words `packed` returned."""
    high = stamp >> _ENQUEUED_BITS
    count = word | (high & _HIGH_EXTRA_MASK) << 32
    held = Held(sequence, position, length, stamp & _ENQUEUED_MASK, expires_ms, count, overlay)
    if high > _HIGH_EXTRA_MASK:
        held.state = MessageState.SCHEDULED
    return held


def _row_at_or_after(rows: "array[int]", head: int, sequence: int) -> int:
    """The index of the first row of a chunk at or after a sequence."""
    if head < len(rows) and rows[head] >= sequence:
        return head
    low, high = head // COLUMNS, len(rows) // COLUMNS
    while low < high:
        middle = (low + high) // 2
        if rows[middle * COLUMNS] < sequence:
            low = middle + 1
        else:
            high = middle
    return low * COLUMNS
