"""The commit thread: everything that waits becomes durable at once, in the order it came.

Owns the grouping of entries, the groups in flight, the order in which they are reported, and what
happens when the engine fails: everything pending is refused, then the engine is probed until it has
cut what was refused and a durable write has succeeded. Must never run a caller's callback: it
reports to the owner on the loop thread. Knows neither files nor databases, which are the engine's.
Started by the lane log.
"""

import logging
import threading
import time
from collections import deque
from functools import partial
from itertools import chain
from typing import Final, Protocol

from partibus.domain.errors import OperationTimeout, StoreUnavailable, TransientError
from partibus.store.callbacks import report
from partibus.store.interface import Done, Notify, StoreTimings
from partibus.store.record import ENTRY_HEADER_BYTES, Payload

# How often a store that is down is tried again: soon enough for clients' retries, rarely enough
# not to burden a disk or a database that is being repaired.
PROBE_INTERVAL_S: Final = 1.0

_log: Final = logging.getLogger(__name__)


class Fenced(StoreUnavailable):
    """Another writer has taken the lane over, so this one can no longer write to it."""


class PendingEntry:
    """An encoded batch with its position in the log, on its way to the engine."""

    __slots__ = ("base", "begun_s", "data", "done", "end", "payload", "position")

    def __init__(self, base: int, position: int, payload: Payload, done: Done) -> None:
        self.base = base
        self.position = position
        self.payload = payload
        self.data = b""
        """The whole entry with its header, when the log keeps recent entries in memory."""
        self.end = position + ENTRY_HEADER_BYTES + payload.length
        self.done = done
        self.begun_s = time.monotonic()


class CommitOwner(Protocol):
    """Receives commits, on the loop thread, in their order."""

    def committed(self, entries: list[PendingEntry], elapsed_s: float) -> None:
        """These are durable."""
        ...

    def failed(self, entries: list[PendingEntry], error: TransientError) -> None:
        """These are not durable, or the outcome is unknown (`OperationTimeout`); nothing is
        accepted until `restored`."""
        ...

    def was_fenced(self) -> None:
        """Another writer has the log: nothing is accepted ever again."""
        ...

    def restored(self, base: int, tail: int) -> None:
        """The log continues at `tail` of segment `base`; call `resume` to start."""
        ...


class CommitEngine(Protocol):
    """Where entries become durable. Blocks; all but `durable` belongs to the commit thread."""

    @property
    def name(self) -> str:
        """The name of the store in errors and in the log."""
        ...

    @property
    def durable(self) -> int:
        """The end of the last entry that is durable; read by other threads too."""
        ...

    @property
    def in_flight_max(self) -> int:
        """How many groups may be in flight."""
        ...

    @property
    def idle_s(self) -> float:
        """How long without an entry until `rest` is called."""
        ...

    def fitting(self, waiting: list[PendingEntry], in_flight: int) -> int:
        """How many of the pending entries make the next group; 0: first finish what is in
        flight."""
        ...

    def begin(self, group: list[PendingEntry]) -> None:
        """Start to make a group durable, at exactly its position."""
        ...

    def finish(self, group: list[PendingEntry]) -> bool:
        """Wait until the oldest group in flight is durable; False when `interrupt` came first."""
        ...

    def interrupt(self) -> None:
        """End the wait of `finish`, from another thread: another group can be begun."""
        ...

    def rest(self) -> None:
        """Nothing is pending: do what is not urgent."""
        ...

    def withdraw(self) -> None:
        """What is not durable is being refused: undo it as far as possible now."""
        ...

    def is_refused(self, error: Exception) -> bool:
        """Whether the begun groups are known not to be durable, and never will be: otherwise an
        answer was lost, and a later writer of the log may find them there."""
        ...

    def restore(self) -> tuple[int, int]:
        """Cut what is not durable, and prove that a durable write works.

        Returns the segment and the position where the log continues; raises `Fenced` when the log
        has another writer, and nothing may be written here ever again.
        """
        ...

    def close(self) -> None:
        """Close files or connections."""
        ...


class CommitHelper(Protocol):
    """Makes small groups durable together with those of other logs, on a thread of its own."""

    def takes(self, waiting: list[PendingEntry], lender: "CommitThread") -> bool:
        """Whether it is going to `borrow` what waits, and to `give_back`; does not block."""
        ...


class SharedCommitFailed(Exception):
    """What was borrowed is not durable, and not by a fault of this log: it has to try alone."""


class CommitThread:
    """Passes entries to the engine; `submit`, `resume` and `close` are for the owner.

    While a helper has borrowed entries, the thread begins nothing; failures come back to it."""

    def __init__(
        self,
        engine: CommitEngine,
        owner: CommitOwner,
        notify: Notify,
        *,
        thread_name: str,
        timings: StoreTimings,
        probe_interval_s: float = PROBE_INTERVAL_S,
        helper: CommitHelper | None = None,
    ) -> None:
        self._engine = engine
        self._owner = owner
        self._notify = notify
        self._timings = timings
        self._probe_interval_s = probe_interval_s
        self._waiting: list[PendingEntry] = []
        self._in_flight: deque[tuple[list[PendingEntry], float]] = deque()
        """Groups in flight, and when each began; used by the thread, or by the helper."""
        self._helper = helper
        self._is_lent = False
        """Whether the helper has the group in flight, or is about to borrow the next one."""
        self._error: Exception | None = None
        """Why the helper could not make its group durable."""
        self._finishing = False
        """Whether the thread waits in `finish` although another group could be begun."""
        self._is_failing = False
        """Whether the thread is about to report a failure: nothing is lent meanwhile."""
        self._is_resting = False
        """Whether the thread has nothing to do."""
        self._refusing = False
        self._closing = False
        self._wake = threading.Condition(threading.Lock())
        self._thread = threading.Thread(target=self._run, name=thread_name, daemon=True)

    @property
    def durable(self) -> int:
        """The end of the last entry that is durable."""
        return self._engine.durable

    def start(self) -> None:
        """Start accepting entries."""
        self._thread.start()

    def submit(self, entry: PendingEntry) -> bool:
        """Accept an entry; False when the store is failing and it was not accepted."""
        with self._wake:
            if self._refusing:
                return False
            self._waiting.append(entry)
            if self._helper is not None and (self._is_lent or self._lends()):
                return True
            if len(self._waiting) == 1:
                self._wake.notify()
            if self._finishing and self._engine.fitting(self._waiting, len(self._in_flight)):
                self._finishing = False
                self._engine.interrupt()
        return True

    def resume(self) -> None:
        """Accept entries again, now that every failure was reported."""
        with self._wake:
            self._refusing = False

    def close(self) -> None:
        """Commit pending entries, then end."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()
        with self._wake:
            self._refusing = True
        self._engine.close()

    # --- the helper ---------------------------------------------------------------------------

    def _lends(self) -> bool:
        """Whether the helper takes what waits; under the lock."""
        is_own = bool(self._in_flight) or self._closing or self._is_failing
        if self._helper is not None and not is_own:
            self._is_lent = self._helper.takes(self._waiting, self)
        return self._is_lent

    def borrow(self) -> list[PendingEntry]:
        """The next group, for the helper; none when the store has failed meanwhile."""
        with self._wake:
            return [] if self._is_failing else self._take_group(0)

    def finished(self) -> "partial[None]":
        """The oldest group is durable: what to report before it is given back."""
        group, begun_s = self._in_flight[0]
        now_s = time.monotonic()
        self._timings.append.observe(now_s - group[0].begun_s)
        return partial(self._owner.committed, group, now_s - begun_s)

    def give_back(self, error: Exception | None = None) -> None:
        """What was borrowed was reported as durable, unless there is an error."""
        with self._wake:
            self._is_lent, self._error = False, error
            if error is None and self._in_flight:
                self._in_flight.popleft()
            is_calm = error is None and not self._is_failing and not self._closing
            if not is_calm or (self._waiting and not self._lends()):
                self._wake.notify()

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        while (group := self._take()) is not None:
            try:
                self._go_on(group)
            except Fenced as error:
                self._fail(error)
                self._end_fenced(error)
                return
            except Exception as error:
                self._fail(error)
                if not self._restore_until_done():
                    return

    def _take(self) -> list[PendingEntry] | None:
        """The next group; [] when there is none to begin now, None at the end."""
        with self._wake:
            self._finishing = self._is_resting = False
            if not self._waiting and not self._in_flight and not self._closing:
                self._wake.wait(self._engine.idle_s)
            self._wait_for_helper()
            in_flight = len(self._in_flight)
            if not self._waiting and not in_flight:
                self._is_resting = True
                return None if self._closing else []
            is_full = in_flight >= self._engine.in_flight_max or self._error is not None
            group = [] if is_full or not self._waiting else self._take_group(in_flight)
            self._finishing = not group and not is_full
            return group

    def _wait_for_helper(self) -> None:
        """Lend what waits; return when the rest is for this thread to do. Under the lock."""
        if self._waiting and not self._is_lent:
            self._lends()
        while self._is_lent:
            self._wake.wait(self._engine.idle_s)

    def _take_group(self, in_flight: int) -> list[PendingEntry]:
        """What fits behind what is in flight is in flight too; under the lock."""
        waiting = self._waiting
        count = self._engine.fitting(waiting, in_flight)
        if count:
            self._waiting = waiting[count:]
            self._in_flight.append((waiting[:count], time.monotonic()))
        return waiting[:count]

    def _go_on(self, group: list[PendingEntry]) -> None:
        """Begin a group, and finish the oldest when no more can be begun."""
        if group:
            self._engine.begin(group)
            if len(self._in_flight) < self._engine.in_flight_max:
                return
        if self._is_resting:
            self._engine.rest()
            return
        oldest = self._in_flight[0][0]
        if self._error is not None:
            self._begin_alone(oldest)
        if self._engine.finish(oldest):
            self._report(self.finished())
            self._in_flight.popleft()  # from now on the helper may take what is behind it

    def _begin_alone(self, group: list[PendingEntry]) -> None:
        """The helper could not make a group durable."""
        assert self._error is not None
        if not isinstance(self._error, SharedCommitFailed):
            raise self._error
        self._error = None
        self._engine.begin(group)

    def _fail(self, error: Exception) -> None:
        """Refuse everything pending; under the lock, so that refusals stay in order.

        What was written is withdrawn first: if the process ends now, the next start must not find
        an entry that was reported to its sender as not stored.
        """
        name = self._engine.name
        _log.error("%s: a commit failed, the store is down: %r", name, error)
        text = f"The {name} is down: {error}. It is probed; try again."
        if isinstance(error, Fenced):
            text = f"{error} Connect again."
        with self._wake:
            self._is_failing = True
            while self._is_lent:
                self._wake.wait(self._engine.idle_s)
        self._engine.withdraw()
        with self._wake:
            self._refusing, self._is_failing = True, False
            last, self._error = self._error or error, None
            begun = list(chain.from_iterable(group for group, _ in self._in_flight))
            waiting, self._waiting = self._waiting, []
            self._in_flight.clear()
            if not isinstance(last, SharedCommitFailed) and not self._engine.is_refused(last):
                unknown = OperationTimeout(
                    f"The {name} did not answer: whether this was stored is unknown. Try again."
                )
                self._report(partial(self._owner.failed, begun, unknown))
                begun = []
            self._report(partial(self._owner.failed, [*begun, *waiting], StoreUnavailable(text)))

    def _restore_until_done(self) -> bool:
        """Probe until the engine works; False when the store was closed or fenced before that."""
        while True:
            with self._wake:
                if not self._closing:
                    self._wake.wait(self._probe_interval_s)
                if self._closing:
                    return False
            try:
                base, tail = self._engine.restore()
            except Fenced as error:
                self._end_fenced(error)
                return False
            except Exception as error:
                _log.info("%s: still down: %r", self._engine.name, error)
            else:
                _log.warning("%s: the store is up again", self._engine.name)
                self._report(partial(self._owner.restored, base, tail))
                return True

    def _end_fenced(self, error: Fenced) -> None:
        """Another writer has the log: nothing may be written here again, and `submit` accepts
        nothing more."""
        _log.error("%s", error)
        self._engine.close()
        self._report(partial(self._owner.was_fenced))

    def _report(self, call: "partial[None]") -> None:
        report(self._notify, self._engine.name, call)
