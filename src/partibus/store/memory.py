"""A store without a disk: the same contract, for `--memory` servers and for tests.

Owns bodies by position, and on demand the records since the last checkpoint, so that a
test may open it again as after a crash. Starts no thread: a `done` runs at the next
turn of the loop, grouped as the commit thread would group it. Called by the broker.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.store.callbacks import call_back, call_back_read
from partibus.store.interface import (
    Done,
    Increment,
    MemoryPages,
    Notify,
    ReadDone,
    Recovered,
    RecoveredRecord,
    Ref,
    StoreState,
    StoreTimings,
)
from partibus.store.record import Record

# Position 0 means "no body", so the first body must come after it.
FIRST_POSITION: Final = 1


@dataclass(eq=False, slots=True)
class _Waiting:
    """An append whose `done` has not run yet."""

    records: list[Record]
    end: int
    done: Done


class MemoryStore:
    """Keeps the contract of `Store` in memory.

    With `replayable`, records are kept until a checkpoint covers them, and `open` may be
    called again to recover as a new process would.
    """

    def __init__(self, *, notify: Notify, replayable: bool = False) -> None:
        self.state = StoreState.UP
        self.fenced = False
        self.on_state: Callable[[StoreState], None] | None = None
        self.shortage: str | None = None
        self.timings = StoreTimings()
        self._notify = notify
        self._replayable = replayable
        self._bodies: dict[int, bytes] = {}
        self._more_holders: dict[int, int] = {}
        """Bodies that several messages share, with the number of further users."""
        self._live_bytes = 0
        self._tail = FIRST_POSITION
        self._acknowledged = FIRST_POSITION
        self._checkpointed = FIRST_POSITION
        self._states: dict[int, bytes] = {}
        self._pages: dict[int, bytes] = {}
        self._log: list[_Waiting] = []
        self._waiting: list[_Waiting] = []

    def open(self) -> Recovered:
        """What a recovery would find; pending appends are lost as in a crash."""
        self._waiting = []
        self._live_bytes = 0
        pages = MemoryPages(self._pages)
        return Recovered(dict(self._states), self._replay(list(self._log)), pages)

    def append(self, records: list[Record], done: Done) -> None:
        """Keep the batch and acknowledge it at the next turn of the loop."""
        if self.state is StoreState.DOWN:
            self._forget(records)
        else:
            self._keep(records)
        if not self._waiting:
            self._notify(self._settle_waiting)
        self._waiting.append(_Waiting(records, self._tail, done))

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        """Always at once: nothing here blocks."""
        bodies = self._bodies
        try:
            return [bodies[position] for position, _ in refs]
        except KeyError as missing:
            raise StoreCorrupt(f"No body is kept at position {missing.args[0]}.") from None

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        """The bodies at the next turn of the loop."""
        answer: list[bytes] | BusError
        try:
            answer = self.read_now(refs) or []
        except StoreCorrupt as error:
            answer = error
        self._notify(partial(call_back_read, done, answer))

    def retain(self, position: int, length: int) -> None:
        """Count a recovered body as live."""
        if length:
            if position not in self._bodies:
                raise StoreCorrupt(f"No body is kept at position {position}.")
            self._live_bytes += length
            if not self._replayable:
                self._more_holders[position] = self._more_holders.get(position, 0) + 1

    def retain_many(self, positions: "array[int]", lengths: "array[int]") -> None:
        """Count recovered bodies as live."""
        for position, length in zip(positions, lengths, strict=True):
            self.retain(position, length)

    def release(self, position: int, length: int) -> None:
        """Free the body's memory, unless a replay may still need it."""
        if length:
            self._live_bytes -= length
            if self._replayable:
                return
            others = self._more_holders.pop(position, 0)
            if others > 1:
                self._more_holders[position] = others - 1
            elif not others:
                del self._bodies[position]

    def hold(self, positions: list[int]) -> None:
        """Not needed: reads are immediate."""

    def let_go(self, positions: list[int]) -> None:
        """Not needed either."""

    @property
    def position(self) -> int:
        """The end of the last entry whose `done` ran."""
        return self._acknowledged

    def checkpoint(
        self, states: dict[int, bytes], done: Done, increment: Increment | None = None
    ) -> None:
        """Keep the states; records up to their position are forgotten."""
        if self.state is StoreState.DOWN:
            self._notify(partial(call_back, done, StoreUnavailable()))
            return
        position = self._acknowledged if increment is None else increment.position
        if self._replayable:
            self._keep_pages(increment)
        self._states = dict(states)
        self._checkpointed = position
        self._log = [entry for entry in self._log if entry.end > position]
        self._notify(partial(call_back, done, None))

    def _keep_pages(self, increment: Increment | None) -> None:
        """Keep the pages that the states refer to, as they are now."""
        needed = [] if increment is None else [n for some in increment.needed for n in some]
        new = {} if increment is None else increment.pages
        before = self._pages
        self._pages = {n: b"".join(new[n]()) if n in new else before[n] for n in needed}

    @property
    def checkpoint_bytes(self) -> int:
        """Nothing is written."""
        return 0

    def compact(self, done: Done) -> bool:
        """Never anything to do: a released body is gone."""
        return False

    def close(self) -> None:
        """Nothing to flush: appends are acknowledged by a turn that is already scheduled."""

    def fail(self) -> None:
        """Go down: pending and new appends are refused, as after a failed write."""
        self._change(StoreState.DOWN)

    def heal(self) -> None:
        """Come up again, after every failure was reported."""
        self._settle_waiting()
        self._change(StoreState.UP)

    @property
    def bytes_since_checkpoint(self) -> int:
        """Bytes appended since the last checkpoint."""
        return self._tail - self._checkpointed

    @property
    def log_end(self) -> tuple[bytes, int] | None:
        """There is no log that could be replaced by an older one."""
        return None

    @property
    def live_bytes(self) -> int:
        """Bytes of the bodies retained."""
        return self._live_bytes

    @property
    def dead_bytes(self) -> int:
        """A released body is gone at once."""
        return 0

    @property
    def free_bytes(self) -> int | None:
        """There is no disk."""
        return None

    @property
    def disk_bytes(self) -> int:
        """Nothing is on a disk."""
        return 0

    def _keep(self, records: list[Record]) -> None:
        tail = self._tail
        bodies = self._bodies
        for record in records:
            body = record.body
            if body:
                record.position = tail
                bodies[tail] = body
                self._live_bytes += len(body)
            else:
                record.position = 0
            tail += len(record.meta) + len(body)
        self._tail = tail

    def _settle_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        down = self.state is StoreState.DOWN
        error = StoreUnavailable() if down else None
        for entry in waiting:
            if down:
                self._forget(entry.records)
            else:
                self._acknowledged = entry.end
                if self._replayable:
                    self._log.append(entry)
            call_back(entry.done, error)

    def _forget(self, records: list[Record]) -> None:
        for record in records:
            if self._bodies.pop(record.position, None) is not None:
                self._live_bytes -= len(record.body)
            record.position = 0

    def _change(self, state: StoreState) -> None:
        self.state = state
        if self.on_state is not None:
            self.on_state(state)

    def _replay(self, log: list[_Waiting]) -> Iterator[RecoveredRecord]:
        for entry in log:
            for record in entry.records:
                yield RecoveredRecord(
                    record.fragment, record.kind, record.meta, record.position, len(record.body)
                )
