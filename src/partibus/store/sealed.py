"""A store whose records, bodies, states and pages are sealed before they reach the disk.

Owns what is sealed and what is not: the meta and the body of every record, the state of every
fragment and the pages of checkpoints are; numbers of fragments, kinds of records and lengths are
not. The store below sees bytes, so its checksums, its recovery, compaction and checkpoints work as
they do without a key. What a store contained before it was first opened with a key stays as it is;
the file `sealed` says up to which log position and which page. Wraps `log.SegmentStore` for the
broker.
"""

from array import array
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import msgspec

from partibus.domain.errors import BusError, StoreCorrupt
from partibus.files.private import write_private
from partibus.sealing.seal import OVERHEAD_BYTES, Sealer, Unreadable
from partibus.store.files.log import SegmentStore
from partibus.store.interface import (
    Done,
    Increment,
    Pages,
    ReadDone,
    Recovered,
    RecoveredRecord,
    Ref,
    StoreState,
)
from partibus.store.pages import PageSource
from partibus.store.record import Record

SEALED_NAME: Final = "sealed"
SEALED_KIND: Final = 0x80
"""In the kind of a record: its meta is sealed. Kinds themselves are smaller."""
STATE_MAGIC: Final = b"\xffPBS"
"""An unsealed state begins with its version number, which is small."""
_BODY: Final = b"body"


class Boundary(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a store contained before it was first opened with a key."""

    plain_until: int
    """The log up to this position is not sealed."""
    plain_pages: int = 0
    """Nor are the pages of checkpoints up to this number."""


class SealedPieces:
    """Opens what a store recovered; knows where its plain part ends."""

    __slots__ = ("_directory", "_sealer", "plain_pages", "plain_until")

    def __init__(self, directory: Path, sealer: Sealer, boundary: Boundary) -> None:
        self._directory = directory
        self._sealer = sealer
        self.begin_at(boundary)

    def begin_at(self, boundary: Boundary) -> None:
        """Everything after this is sealed."""
        self.plain_until = boundary.plain_until
        self.plain_pages = boundary.plain_pages

    def recovered(self, found: Recovered) -> Recovered:
        """The same with everything opened."""
        states = {fragment: self.state(fragment, data) for fragment, data in found.states.items()}
        return Recovered(states, self._records(found.records), SealedPages(self, found.pages))

    def page(self, number: int, data: bytes) -> bytes:
        """A page of a checkpoint."""
        return data if number <= self.plain_pages else self._open(data, page_purpose(number))

    def state(self, fragment: int, data: bytes) -> bytes:
        """The state of a fragment."""
        if not data.startswith(STATE_MAGIC):
            return data
        return self._open(data[len(STATE_MAGIC) :], state_purpose(fragment))

    def _records(self, records: Iterator[RecoveredRecord]) -> Iterator[RecoveredRecord]:
        for record in records:
            yield self._record(record)

    def _record(self, record: RecoveredRecord) -> RecoveredRecord:
        if not record.kind & SEALED_KIND:
            return record
        kind = record.kind ^ SEALED_KIND
        meta = self._open(record.meta, meta_purpose(record.fragment, kind))
        length = max(0, record.body_length - OVERHEAD_BYTES)
        return RecoveredRecord(record.fragment, kind, meta, record.position, length)

    def ref(self, ref: Ref) -> Ref:
        """A body's reference in the log."""
        position, length = ref
        if not length or position < self.plain_until:
            return ref
        return position, length + OVERHEAD_BYTES

    def body(self, ref: Ref, data: bytes) -> bytes:
        """A body as it was before sealing."""
        if not ref[1] or ref[0] < self.plain_until:
            return data
        return self._open(data, _BODY)

    def _open(self, piece: bytes, purpose: bytes) -> bytes:
        try:
            return self._sealer.open(piece, purpose)
        except Unreadable as error:
            raise StoreCorrupt.at(
                self._directory,
                None,
                "stored data cannot be decrypted: it was changed, or "
                "written with the key of another directory.",
            ) from error


class SealedPages:
    """The pages of the latest checkpoint, opened."""

    def __init__(self, pieces: SealedPieces, inner: Pages) -> None:
        self._pieces = pieces
        self._inner = inner
        # No new page may have the number of a plain one, even of one that is gone.
        self.last = max(inner.last, pieces.plain_pages)

    def read(self, number: int) -> bytes:
        """A page; StoreCorrupt when it is missing or damaged."""
        return self._pieces.page(number, self._inner.read(number))


def meta_purpose(fragment: int, kind: int) -> bytes:
    """A meta is opened only as what it was sealed as."""
    return b"meta %d %d" % (fragment, kind)


def state_purpose(fragment: int) -> bytes:
    return b"state %d" % fragment


def page_purpose(number: int) -> bytes:
    return b"page %d" % number


def boundary_of(directory: Path) -> Boundary | None:
    """The unsealed part of a store; None when it was never opened with a key."""
    path = directory / SEALED_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Boundary)
    except FileNotFoundError:
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreCorrupt(
            f"{path} is damaged: {error}. Restore the file from a copy.", path
        ) from error


def sealed_pieces(directory: Path, sealer: Sealer) -> SealedPieces | None:
    """Opens the pieces of a store that is only read; None when nothing in it is sealed."""
    known = boundary_of(directory)
    return None if known is None else SealedPieces(directory, sealer, known)


def _of_inner(name: str) -> Any:
    """An attribute of the store below, to be read and set."""
    return property(attrgetter(f"inner.{name}"), lambda self, to: setattr(self.inner, name, to))


class SealedStore:
    """Keeps the contract of `Store`; what it writes can be read only with its key."""

    def __init__(self, directory: Path, inner: SegmentStore, sealer: Sealer) -> None:
        self.inner = inner
        self.timings = inner.timings
        self._directory = directory
        self._sealer = sealer
        self._pieces = SealedPieces(directory, sealer, Boundary(0))
        self.close, self.compact = inner.close, inner.compact
        self.hold, self.let_go = inner.hold, inner.let_go

    # --- opening and closing ------------------------------------------------------------

    def open(self) -> Recovered:
        """Recover; a store without a boundary gets it before anything is sealed."""
        found = self.inner.open()
        known = boundary_of(self._directory)
        if known is not None:
            self._pieces.begin_at(known)
            return self._pieces.recovered(found)
        last = found.pages.last
        return Recovered(found.states, self._until_the_end(found.records, last), found.pages)

    def _until_the_end(
        self, records: Iterator[RecoveredRecord], last_page: int
    ) -> Iterator[RecoveredRecord]:
        """The plain records, then the boundary."""
        yield from records
        boundary = Boundary(self.inner.tail, last_page)
        self._pieces.begin_at(boundary)
        write_private(self._directory / SEALED_NAME, msgspec.json.encode(boundary) + b"\n")

    # --- what is sealed -----------------------------------------------------------------

    def append(self, records: list[Record], done: Done) -> None:
        """Seal the records and append them."""
        assert all(record.kind < SEALED_KIND for record in records)
        seal = self._sealer.seal
        sealed = [
            Record(
                record.fragment,
                record.kind | SEALED_KIND,
                seal(record.meta, meta_purpose(record.fragment, record.kind)),
                seal(record.body, _BODY) if record.body else b"",
            )
            for record in records
        ]
        self.inner.append(sealed, done)
        for record, written in zip(records, sealed, strict=True):
            record.position = written.position

    def checkpoint(
        self, states: dict[int, bytes], done: Done, increment: Increment | None = None
    ) -> None:
        """Seal the states and the new pages and keep them."""
        sealed = {
            fragment: STATE_MAGIC + self._sealer.seal(state, state_purpose(fragment))
            for fragment, state in states.items()
        }
        self.inner.checkpoint(sealed, done, None if increment is None else self._sealed(increment))

    def _sealed(self, increment: Increment) -> Increment:
        pages: dict[int, PageSource] = {
            number: partial(self._seal_page, number, source)
            for number, source in increment.pages.items()
        }
        return Increment(increment.position, pages, increment.needed)

    def _seal_page(self, number: int, source: PageSource) -> list[bytes]:
        """Runs on the thread that writes checkpoints."""
        return [self._sealer.seal(b"".join(source()), page_purpose(number))]

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """The bodies when all of them are in memory."""
        bodies = self.inner.read_now([self._pieces.ref(ref) for ref in refs])
        if bodies is None:
            return None
        return self._opened(refs, bodies)

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """The bodies from the reader thread."""

        def opened(answer: list[bytes] | BusError) -> None:
            if not isinstance(answer, BusError):
                try:
                    answer = self._opened(refs, answer)
                except BusError as error:
                    answer = error
            done(answer)

        self.inner.read([self._pieces.ref(ref) for ref in refs], opened)

    def _opened(self, refs: list[Ref], bodies: list[bytes]) -> list[bytes]:
        return [self._pieces.body(ref, body) for ref, body in zip(refs, bodies, strict=True)]

    def retain(self, position: int, length: int) -> None:
        """Count a recovered body as live."""
        self.inner.retain(*self._pieces.ref((position, length)))

    def retain_many(self, positions: "array[int]", lengths: "array[int]") -> None:
        """Count recovered bodies as live."""
        written = lengths[:]
        for index, ref in enumerate(zip(positions, lengths, strict=True)):
            written[index] = self._pieces.ref(ref)[1]
        self.inner.retain_many(positions, written)

    def release(self, position: int, length: int) -> None:
        """Count a body as no longer needed."""
        self.inner.release(*self._pieces.ref((position, length)))

    # --- what is not --------------------------------------------------------------------

    state: StoreState = _of_inner("state")
    fenced: bool = _of_inner("fenced")
    on_state: Callable[[StoreState], None] | None = _of_inner("on_state")
    shortage: str | None = _of_inner("shortage")
    position: int = _of_inner("position")
    log_end: tuple[bytes, int] | None = _of_inner("log_end")
    checkpoint_bytes: int = _of_inner("checkpoint_bytes")
    bytes_since_checkpoint: int = _of_inner("bytes_since_checkpoint")
    live_bytes: int = _of_inner("live_bytes")
    free_bytes: int | None = _of_inner("free_bytes")
    disk_bytes: int = _of_inner("disk_bytes")
    dead_bytes: int = _of_inner("dead_bytes")
