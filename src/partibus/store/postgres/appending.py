"""The thread that makes the entries of one lane durable: all that waits goes in one row.

Owns the connection that appends, the durable position, and what happens when the database fails:
all that waits is refused, then the lane is taken back with a new epoch, so that nothing of what was
refused can appear later, and only then entries are taken again. A lane that another
server has taken over stays down. Never runs a caller's callback: it hands its news to the owner on
the loop thread. Started by the store.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

import psycopg

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.store.interface import Done, Notify, StoreTimings
from partibus.store.postgres.lane import Connection, Fenced, Lane

ROW_BYTES_MAX: Final = 4 << 20
"""What waits beyond this goes into the next row; one entry alone may be larger."""
PROBE_INTERVAL_S: Final = 1.0
IDLE_PING_S: Final = 1.0

_log: Final = logging.getLogger(__name__)


class LaneEntry:
    """An encoded batch with its place in the log, on its way to the database."""

    __slots__ = (
        "base",
        "begun_s",
        "body_bytes",
        "count",
        "data",
        "done",
        "end",
        "position",
        "tail",
    )

    def __init__(
        self,
        base: int,
        tail: int,
        position: int,
        data: bytes,
        body_bytes: int,
        count: int,
        done: Done,
    ) -> None:
        self.base = base
        self.tail = tail
        """Where the log ended before it; a new segment may begin behind that."""
        self.position = position
        self.data = data
        self.end = position + len(data)
        self.body_bytes = body_bytes
        self.count = count
        self.begun_s = time.monotonic()
        self.done = done


class AppendOwner(Protocol):
    """Who hears of commits, on the loop thread, in their order."""

    def committed(self, entries: list[LaneEntry], elapsed_s: float) -> None: ...

    def failed(self, entries: list[LaneEntry], error: BusError) -> None: ...

    def restored(self, tail: int) -> None: ...


class AppendThread:
    """Group commit for one lane."""

    def __init__(
        self,
        lane: Lane,
        connection: Connection,
        owner: AppendOwner,
        notify: Notify,
        tail: int,
        *,
        timings: StoreTimings,
        probe_interval_s: float = PROBE_INTERVAL_S,
    ) -> None:
        self._lane = lane
        self._connection: Connection | None = connection
        self._backend = connection.info.backend_pid
        self._owner = owner
        self._notify = notify
        self._probe_interval_s = probe_interval_s
        self._timings = timings
        self.durable = tail
        self._base = -1
        """The segment whose table is known to be there."""
        self._wake = threading.Condition()
        self._waiting: list[LaneEntry] = []
        self._refusing = False
        self._closing = False
        self._thread = threading.Thread(
            target=self._run, name=f"lane-append-{lane.number}", daemon=True
        )

    def start(self) -> None:
        """Take entries."""
        self._thread.start()

    def submit(self, entry: LaneEntry) -> bool:
        """Take an entry; False when the store is failing and it was not taken."""
        with self._wake:
            if self._refusing:
                return False
            self._waiting.append(entry)
            if len(self._waiting) == 1:
                self._wake.notify()
        return True

    def resume(self) -> None:
        """Take entries again, now that every failure was reported."""
        with self._wake:
            self._refusing = False

    def close(self) -> None:
        """Commit what waits, then end and let others have the lane."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()
        with self._wake:
            self._refusing = True
        self._disconnect()

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        while (group := self._take()) is not None:
            started = time.monotonic()
            try:
                if not group:
                    self._ping()
                    continue
                self._commit(group)
            except (psycopg.Error, BusError) as error:
                self._fail(group, error)
                self._restore_until_done()
            else:
                self._report(partial(self._owner.committed, group, time.monotonic() - started))

    def _take(self) -> list[LaneEntry] | None:
        """The entries of one segment that wait, as far as one row takes them; [] after an idle
        while, None at the end."""
        with self._wake:
            if not self._waiting and not self._closing:
                self._wake.wait(IDLE_PING_S)
            waiting = self._waiting
            if not waiting:
                return None if self._closing else []
            count = _fitting(waiting)
            self._waiting = waiting[count:]
            return waiting[:count]

    def _ping(self) -> None:
        """An idle lane finds out by itself that its database is gone."""
        assert self._connection is not None
        self._connection.execute("SELECT 1")

    def _commit(self, group: list[LaneEntry]) -> None:
        first, end = group[0], group[-1].end
        assert self._connection is not None
        if first.base != self._base:
            self._lane.add_segment(self._connection, first.base)
            self._base = first.base
        data = first.data if len(group) == 1 else b"".join([entry.data for entry in group])
        begun_s = time.monotonic()
        self._lane.append(self._connection, first.base, first.position, first.tail, end, data)
        self.durable = end
        now_s = time.monotonic()
        self._timings.sync.observe(now_s - begun_s)
        self._timings.append.observe(now_s - first.begun_s)

    def _fail(self, group: list[LaneEntry], error: Exception) -> None:
        """Refuse all that waits; reported under the lock, so that a later refusal comes later."""
        _log.error("%s: a commit failed, the store is down: %s", self._lane.name, error)
        text = f"The {self._lane.name} is down: {error}. It is probed; try again."
        with self._wake:
            self._refusing = True
            entries = group + self._waiting
            self._waiting = []
            self._report(partial(self._owner.failed, entries, StoreUnavailable(text)))

    def _restore_until_done(self) -> None:
        """Probe until the lane can be taken back, or until the store is closed."""
        while True:
            with self._wake:
                if not self._closing:
                    self._wake.wait(self._probe_interval_s)
                if self._closing:
                    return
            try:
                self._restore()
            except Fenced as error:
                _log.error("%s", error)
                self._disconnect()  # whoever has the lane needs its lock
                self._wait_for_end()
                return
            except (psycopg.Error, BusError) as error:
                _log.info("%s: still down: %s", self._lane.name, error)
            else:
                _log.warning("%s: the store is up again", self._lane.name)
                self._report(partial(self._owner.restored, self.durable))
                return

    def _restore(self) -> None:
        self._disconnect()
        self._connection = self._lane.connect("append")
        self._lane.take_back(self._connection, self.durable, self._backend)
        self._backend = self._connection.info.backend_pid
        self._base = -1

    def _wait_for_end(self) -> None:
        """Another server has the lane: nothing here may ever be written again."""
        with self._wake:
            while not self._closing:
                self._wake.wait()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _report(self, news: Callable[[], None]) -> None:
        try:
            self._notify(news)
        except RuntimeError as error:
            # The loop is closed: the process ends without closing its stores.
            _log.warning("%s: no listener is left to notify: %r", self._lane.name, error)


def _fitting(waiting: list[LaneEntry]) -> int:
    """How many of those that wait go into one row."""
    first = waiting[0]
    for index, entry in enumerate(waiting):
        if index and (entry.base != first.base or entry.end - first.position > ROW_BYTES_MAX):
            return index
    return len(waiting)
