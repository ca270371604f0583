"""The contract of a store, which every engine keeps and every broker relies on.

Owns the `Store` protocol, the states of a store and the form of what recovery returns. Has no
behaviour, and must never interpret a record. Called by the broker; implemented by
`memory.MemoryStore` and by the engines of `lane.log.LaneLog`, over which the same contract tests
run.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeAlias

from partibus.domain.errors import BusError, StoreCorrupt
from partibus.domain.observing.histogram import Histogram
from partibus.store.pages import PageSource
from partibus.store.record import Record

Ref: TypeAlias = tuple[int, int]
"""A body in the log: its position and its length in bytes."""

Done: TypeAlias = Callable[[BusError | None], None]
"""Called once, on the loop thread: None when durable, otherwise the error."""

ReadDone: TypeAlias = Callable[[list[bytes] | BusError], None]
"""Called once, on the loop thread: the bodies in the order asked for, or the error."""

Notify: TypeAlias = Callable[[Callable[[], None]], None]
"""Runs a callback on the loop thread, later and in the order given (call_soon_threadsafe)."""


class StoreState(Enum):
    """Whether a store works."""

    UP = "up"
    DEGRADED = "degraded"  # it commits, but slowly, its last checkpoint failed, or space is short
    DOWN = "down"  # appends are refused; it is probed until it works


class StoreTimings:
    """The latencies of a store since it was opened; one observation per group commit."""

    __slots__ = ("append", "sync")

    def __init__(self) -> None:
        self.append = Histogram()
        """From the append until it is durable, including the wait: the oldest of each group."""
        self.sync = Histogram()
        """Only the sync to disk."""


@dataclass(eq=False, slots=True)
class RecoveredRecord:
    """One record found after the checkpoint; its body was verified but is not kept in memory."""

    fragment: int
    kind: int
    meta: bytes
    position: int
    body_length: int


class Pages(Protocol):
    """The pages of the latest checkpoint; `last` is the highest of their numbers."""

    last: int

    def read(self, number: int) -> bytes:
        """A page; raises StoreCorrupt when it is missing or damaged."""
        ...


class MemoryPages:
    """Pages in memory."""

    def __init__(self, pages: dict[int, bytes]) -> None:
        self._pages = pages
        self.last = max(pages, default=0)

    def read(self, number: int) -> bytes:
        """Read a page."""
        if number not in self._pages:
            raise StoreCorrupt(f"A checkpoint lacks the page {number}.")
        return self._pages[number]


NO_PAGES: Final = MemoryPages({})


@dataclass(eq=False, slots=True)
class Increment:
    """How a checkpoint differs from the ones before it.

    States refer to pages by number. A page is passed once, with the first checkpoint that refers to
    it, and is kept as long as later ones do.
    """

    position: int
    """The position of the log that the states represent."""
    pages: dict[int, PageSource]
    """The pages that no checkpoint has written yet, by number."""
    needed: Sequence[Sequence[int]]
    """The numbers of all pages that the states refer to, those of each state together."""


@dataclass(eq=False, slots=True)
class Recovered:
    """The latest checkpoint, and the records after it in the order they were appended.

    `records` is read once and to its end before the first append: the log is verified
    while it is read, and StoreCorrupt is raised from it where data known to be durable is
    damaged. A log with nothing after its checkpoint is ready at once.
    """

    states: dict[int, bytes]
    records: Iterator[RecoveredRecord]
    pages: Pages = NO_PAGES
    """Valid until the records were read to their end."""


class Store(Protocol):
    """A place of durability that fails independently of others.

    Every method is called on one thread, the loop thread, and every callback runs there,
    never inside the call that was given it. The order of `done`s is the order of appends,
    also when they fail; a store that went down accepts appends again only after every
    failure was reported and `on_state` was called.
    """

    state: StoreState
    on_state: Callable[[StoreState], None] | None
    shortage: str | None
    """Why no more messages should be added now, although settlements and checkpoints are accepted:
    the disk is almost full. None when there is room."""
    timings: StoreTimings

    @property
    def fenced(self) -> bool:
        """Another writer has the log, or it must be opened again: the store is down for good, and
        its owner drops the broker. `on_state` reports it, also when the store was down before."""
        ...

    def open(self) -> Recovered:
        """Lock the place, recover, and be ready; raises StoreCorrupt or StoreUnavailable."""
        ...

    def append(self, records: list[Record], done: Done) -> None:
        """Make all records durable or none.

        Sets `position` of every record that has a body before it returns, and counts the
        body as live. When `done` gets an error, the positions are void and no longer count.
        """
        ...

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """The bodies, or None when that would have to wait for the disk.

        Raises StoreCorrupt when a body fails its checksum.
        """
        ...

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """Read the bodies, however long it takes; they stay readable until `done` is called."""
        ...

    def retain(self, position: int, length: int) -> None:
        """Count a body as live once more: one that was recovered, or that another message shares
        from now on. Raises StoreCorrupt when its file is missing."""
        ...

    def retain_many(self, positions: "array[int]", lengths: "array[int]") -> None:
        """Count many bodies as live once more, as `retain` does with one."""
        ...

    def release(self, position: int, length: int) -> None:
        """One user of the body no longer needs it: called after the append that settled it was
        durable."""
        ...

    def hold(self, positions: list[int]) -> None:
        """These bodies are about to be read: they stay readable until `let_go`, released or not."""
        ...

    def let_go(self, positions: list[int]) -> None:
        """The held bodies were read."""
        ...

    @property
    def position(self) -> int:
        """The end of the last entry whose `done` ran."""
        ...

    def checkpoint(
        self, states: dict[int, bytes], done: Done, increment: Increment | None = None
    ) -> None:
        """Keep the states of all fragments as of the position of the increment; without one, as of
        `position` and without pages.

        Afterwards files that are wholly before it and have no live body are deleted.
        """
        ...

    @property
    def checkpoint_bytes(self) -> int:
        """The bytes that the last checkpoint wrote."""
        ...

    def compact(self, done: Done) -> bool:
        """Free the dead space between live bodies, in the background.

        Returns False when there is nothing worth doing now, or it is already being done; otherwise
        `done` is called when one step is over. References stay the same.
        """
        ...

    def close(self) -> None:
        """Flush pending appends, end the threads, release the place."""
        ...

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        """The id of the log and the position up to which it is durable; None without a log."""
        ...

    @property
    def bytes_since_checkpoint(self) -> int:
        """The bytes that a recovery would have to read."""
        ...

    @property
    def live_bytes(self) -> int:
        """The bytes of the retained bodies."""
        ...

    @property
    def free_bytes(self) -> int | None:
        """The free bytes of the disk; None without one."""
        ...

    @property
    def disk_bytes(self) -> int:
        """The bytes that the store uses on the disk."""
        ...

    @property
    def dead_bytes(self) -> int:
        """The bytes that the store uses on the disk besides the retained bodies."""
        ...
