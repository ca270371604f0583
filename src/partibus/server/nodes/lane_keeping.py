"""Which lanes this node opens and closes, and when.

Owns the work that follows from the leases: a wanted lane is acquired, opened and served; one that
is wanted elsewhere is flushed, checkpointed and released; one whose lease was lost, or that another
node has taken over, is dropped at once with its state. A lane that cannot be opened is released and
tried again; one whose database does not answer here goes to another node, if it answers there.
Safety does not depend on any of this, only on the epoch of the lane in its store. Started and
stopped by the node.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from partibus.control.ownership import Ownership
from partibus.domain.errors import BusError, StoreUnavailable
from partibus.domain.observing.event_log import EVENT_LOG
from partibus.fragment.broker import Broker
from partibus.server.nodes.moving_lanes import MovingLanes
from partibus.server.nodes.reach import Reach
from partibus.server.scheduler import until
from partibus.store.interface import StoreState

RETRY_S: Final = 1.0
"""The pause after a failed attempt to open a lane."""
FLUSH_S_MAX: Final = 10.0
"""A store that does not answer within this time is closed as it is, and the lane is released."""
DOWN_S_MAX: Final = 2.0
"""A store that is down for longer may be unreachable from here: its database is asked, and again
after as long, while the store is down."""
OPENING_MAX: Final = 4
"""Lanes that are recovered at the same time."""

_log: Final = logging.getLogger(__name__)


class LaneKeeping:
    """Opens and closes lanes as the leases say."""

    def __init__(
        self,
        ownership: Ownership,
        lanes: MovingLanes,
        make: Callable[[int], Broker],
        prepare: Callable[[int, Broker], Awaitable[int]],
        keeps_locks: bool,
        admit: Callable[[int], Awaitable[None]] | None = None,
        reach: Reach | None = None,
    ) -> None:
        self._reach = reach
        """None where every node reaches every store."""
        self._down: dict[int, asyncio.TimerHandle] = {}
        """Lanes whose store is down, until it is checked again."""
        self._ownership = ownership
        self._lanes = lanes
        self._make = make
        self._prepare = prepare
        self._keeps_locks = keeps_locks
        self._admit = admit
        """Raises when a lane must not be opened in its present state."""
        self._busy: dict[int, asyncio.Task[None]] = {}
        """Lanes that are being opened or closed."""
        self.problems: dict[int, str] = {}
        """Why a lane could not be opened at the last attempt."""
        self.fenced = 0
        """Lanes whose writes were refused here because another node had taken them over."""
        self._retry: dict[int, asyncio.TimerHandle] = {}
        self._closing: set[int] = set()
        self._is_stopping = False
        self._room = asyncio.Semaphore(OPENING_MAX)
        self.settled = asyncio.Event()
        """Set when everything that is wanted is open."""

    def look(self) -> None:
        """Compare the open lanes with the leases, and start what follows."""
        owned, wanted = self._ownership.owned(), self._ownership.wanted()
        for lane in list(self._lanes.brokers):
            is_ours = lane in owned and not self._was_taken(lane)
            is_ours = is_ours and not self._lanes.brokers[lane].store.fenced
            if lane in self._busy:
                continue
            if not is_ours:
                self._begin(lane, self._throw_away(lane))
            elif lane not in wanted and self._is_lost(lane):
                self._begin(lane, self._give_up(lane))
            elif lane not in wanted or self._is_stopping:
                self._begin(lane, self._hand_over(lane))
            elif self._lanes.brokers[lane].store.state is StoreState.DOWN:
                self._watch_down(lane)
        if not self._is_stopping:
            for lane in sorted(wanted - self._lanes.brokers.keys()):
                if lane not in self._busy and lane not in self._retry:
                    self._begin(lane, self._open(lane))
        for lane in sorted(owned - wanted - self._lanes.brokers.keys()):
            if lane not in self._busy:  # it was dropped, and another node is to open it
                self._begin(lane, self._ownership.release(lane))
        if not self._busy and wanted <= self._lanes.brokers.keys():
            self.settled.set()

    def work(self) -> dict[int, str]:
        """The lanes that are currently `opening` or `closing` here."""
        return {n: "closing" if n in self._closing else "opening" for n in self._busy}

    async def stop(self) -> None:
        """Hand every lane over, cleanly where the stores answer."""
        self._is_stopping = True
        for timer in (*self._retry.values(), *self._down.values()):
            timer.cancel()
        if self._reach is not None:
            self._reach.stop()
        self.look()
        while self._busy:
            await asyncio.gather(*self._busy.values(), return_exceptions=True)
            await asyncio.sleep(0)
            self.look()

    def _was_taken(self, lane: int) -> bool:
        """Whether another node serves it, with a higher epoch."""
        server = self._lanes.table.server_of(lane)
        return server is not None and server != self._lanes.number

    def _is_lost(self, lane: int) -> bool:
        return self._reach is not None and self._reach.is_lost(lane)

    def _watch_down(self, lane: int) -> None:
        """Check after a while whether its store is still down."""
        if self._reach is not None and lane not in self._down:
            loop = asyncio.get_running_loop()
            broker = self._lanes.brokers[lane]
            self._down[lane] = loop.call_later(DOWN_S_MAX, self._is_still_down, lane, broker)

    def _is_still_down(self, lane: int, broker: Broker) -> None:
        del self._down[lane]
        is_down = broker.store.state is StoreState.DOWN and not broker.store.fenced
        if self._reach is not None and is_down and self._lanes.brokers.get(lane) is broker:
            self._reach.suspect(lane)
            self._watch_down(lane)

    def _begin(self, lane: int, work: Coroutine[Any, Any, None]) -> None:
        task = self._busy[lane] = asyncio.ensure_future(work)
        task.add_done_callback(lambda done: self._done(lane, done))

    def _done(self, lane: int, task: "asyncio.Future[None]") -> None:
        del self._busy[lane]
        self._closing.discard(lane)
        if task.cancelled():
            return  # The loop is ending: a new task would never run.
        if task.exception() is not None:
            _log.error("lane %d could not be opened or closed", lane, exc_info=task.exception())
            self._try_later(lane)
        asyncio.get_running_loop().call_soon(self.look)

    def _try_later(self, lane: int) -> None:
        if not self._is_stopping:
            loop = asyncio.get_running_loop()
            self._retry[lane] = loop.call_later(RETRY_S, self._try_again, lane)

    def _try_again(self, lane: int) -> None:
        self._retry.pop(lane, None)
        self.look()

    # --- one lane -------------------------------------------------------------------------

    async def _open(self, lane: int) -> None:
        async with self._room:
            if self._is_stopping or not await self._ownership.acquire(lane):
                self._try_later(lane)
                return
            try:
                await self._recover(lane)
            except BusError as error:
                _log.error("lane %d cannot be opened, and is tried again: %s", lane, error.text)
                self.problems[lane] = error.text
                await self._ownership.release(lane)
                self._try_later(lane)

    async def _recover(self, lane: int) -> None:
        loop = asyncio.get_running_loop()
        if self._admit is not None:
            await self._admit(lane)
        broker = self._make(lane)
        try:
            # Reading the log takes long; the other lanes go on serving meanwhile.
            await loop.run_in_executor(None, broker.open)
        except StoreUnavailable:
            if self._reach is not None:
                self._reach.suspect(lane)
            raise
        try:
            epoch = await self._prepare(lane, broker)
            if lane not in self._ownership.owned():
                raise StoreUnavailable("its lease was lost while it was opened.")
        except BaseException:
            self._lanes.end(lane)
            await self._abandon(broker)
            raise
        self._lanes.begin(lane, epoch)
        self.problems.pop(lane, None)
        EVENT_LOG.note("lane-opened", lane=lane, epoch=epoch)
        _log.info("lane %d is served here, epoch %d", lane, epoch)

    async def _hand_over(self, lane: int) -> None:
        """Flush, checkpoint, release: the next owner finds a cleanly closed log."""
        self._closing.add(lane)
        broker = self._lanes.end(lane)
        assert broker is not None
        await until(lambda: broker.is_at_rest, FLUSH_S_MAX)
        if lane in self._ownership.owned():
            await self._close(broker)
        else:
            await self._abandon(broker)
        await self._ownership.release(lane)
        EVENT_LOG.note("lane-handed-over", lane=lane)
        _log.info("lane %d was handed over", lane)

    async def _give_up(self, lane: int) -> None:
        """Release a lane to a node that can reach its database, which does not answer here."""
        broker = self._lanes.end(lane)
        _log.warning("lane %d is given up: its database is out of reach from here", lane)
        await self._ownership.release(lane)
        if broker is not None:
            await self._abandon(broker)

    async def _close(self, broker: Broker) -> None:
        broker.alarms.stop()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, broker.close, self._keeps_locks)

    async def _throw_away(self, lane: int) -> None:
        """The lane is not ours any more, or must be opened again: memory may differ from its
        log."""
        self._closing.add(lane)
        broker = self._lanes.end(lane)
        is_owned = lane in self._ownership.owned()
        why = "its store failed or has another writer" if is_owned else "its lease was lost"
        _log.warning("lane %d is no longer served here: %s", lane, why)
        EVENT_LOG.note("lane-lost", lane=lane, text=why)
        if broker is not None:
            self.fenced += getattr(broker.store, "is_superseded", False)
            await self._abandon(broker)

    async def _abandon(self, broker: Broker) -> None:
        broker.alarms.stop()
        await asyncio.get_running_loop().run_in_executor(None, broker.abandon)
