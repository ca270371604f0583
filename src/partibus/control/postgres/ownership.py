"""The leases of one node in the cluster's database.

Owns when the node renews, reads the tables and lapses: it renews each second, reads when another
node has changed something or is gone, and stops serving by its own monotonic clock when the
database has not answered for `SERVE_MS`, whatever the reason. A lost connection is retried forever.
It must never decide by a node's clock what other nodes may do: the database does, by its own. Made
and started by the node, which calls it on its loop.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from partibus.control.lease_view import LeaseView
from partibus.control.ownership import RENEW_MS, NodeAddress
from partibus.control.postgres import lease_rows
from partibus.control.postgres.lease_rows import LeaseRows, Renewal
from partibus.control.postgres.listening import Listening
from partibus.control.postgres.session import AsyncConnection, ControlSession, prepare, stop_task
from partibus.domain.clock import Clock, SystemClock
from partibus.domain.errors import BusError, ConfigError

LOOK_MS: Final = 5000
"""How often the tables are read even without a notification; each second while none can arrive."""

_log: Final = logging.getLogger(__name__)


class PostgresOwnership:
    """The lanes of a cluster as one node sees them; keeps the `Ownership` protocol."""

    def __init__(self, dsn: str, address: NodeAddress, clock: Clock | None = None) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._view = view = LeaseView(self._clock)
        self.owner_of, self.owned, self.wanted = view.owner_of, view.owned, view.wanted
        self.nodes, self.serve_ms_left = view.nodes, view.serve_ms_left
        self._session = ControlSession(dsn, "leases")
        self._address = address
        self.rows = LeaseRows([], [])
        """The tables as last read, at most `LOOK_MS` ago while the database answers."""
        self.takeovers = 0
        self.renewals_failed = 0
        self._renewal: Renewal | None = None
        self._looked_ms = 0
        self._changed = asyncio.Event()
        self._listening = Listening(dsn, lease_rows.CHANNEL, self._changed.set)
        self._task: asyncio.Task[None] | None = None
        self._lapse: asyncio.TimerHandle | None = None
        self.on_change: Callable[[], None] | None = None
        self.node = 0
        self._unreachable: frozenset[int] = frozenset()
        self._reported: frozenset[int] = frozenset()
        """What the table has of it."""
        self.evicted = False
        """An operator has removed this node: it serves no lane any more and should stop."""

    def databases(self) -> dict[int, int]:
        """By lane, the number of its database."""
        return {row.number: row.database for row in self.rows.lanes}

    # --- life ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Join under a new number; StoreUnavailable when the database does not answer, and
        ConfigError when the cluster has its maximum of nodes."""
        await asyncio.to_thread(prepare, self._session.dsn)
        try:
            self.node = await self._session.run(partial(lease_rows.join, address=self._address))
        except ConfigError:
            await self._session.close()
            raise
        self._view.joined(self.node)
        await self._renew()
        self._listening.start()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Release every lease and leave; without the database they lapse."""
        self.on_change = None
        await stop_task(self._task)
        if self._lapse is not None:
            self._lapse.cancel()
        self._view.left()
        await self._listening.stop()
        if self.node:
            with contextlib.suppress(BusError):
                await self._session.run(partial(lease_rows.remove, node=self.node))
        await self._session.close()

    async def _run(self) -> None:
        """Renew each second, and read the tables in between when there is news."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + RENEW_MS / 1000
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due_s):
                    await self._changed.wait()
            self._changed.clear()
            is_due = loop.time() >= due_s
            if is_due:
                due_s = loop.time() + RENEW_MS / 1000
            try:
                await (self._renew() if is_due else self._look())
            except BusError as error:
                self.renewals_failed += is_due
                _log.warning("%s Leases lapse until it does.", error)
            except Exception:  # of a listener; without renewals the node would be lost
                _log.exception("a change of the leases could not be followed")

    # --- leases -------------------------------------------------------------------------

    async def acquire(self, lane: int) -> bool:
        """Take a lease that is free or has lapsed; False also without the database."""
        if self._view.serve_ms_left() <= 0:
            return False
        try:
            taken = await self._session.run(partial(lease_rows.acquire, node=self.node, lane=lane))
        except BusError as error:
            # The outcome is unknown; if it was taken, it is a stray at the next reading.
            _log.warning("lane %s was not acquired: %s", lane, error)
            return False
        if taken:
            self._view.acquired(lane)
            self.takeovers += self._was_left_behind(lane)
        return taken and lane in self._view.owned()

    def _was_left_behind(self, lane: int) -> bool:
        """Whether another node held it until its lease lapsed, without releasing it."""
        holders = [row.owner for row in self.rows.lanes if row.number == lane]
        return any(holder not in (None, self.node) for holder in holders)

    async def release(self, lane: int) -> None:
        """Release a lease; without the database it is released at the next reading, or lapses."""
        self._view.released(lane)
        try:
            await self._session.run(partial(lease_rows.release, node=self.node, lanes=[lane]))
        except BusError as error:
            _log.warning("lane %s is not released yet: %s", lane, error)

    async def report_unreachable(self, lanes: frozenset[int]) -> None:
        """Without the database it is reported with the next renewal."""
        self._unreachable = lanes
        with contextlib.suppress(BusError):
            await self._report()

    async def _report(self) -> None:
        lanes = self._unreachable
        if lanes != self._reported:
            write = partial(lease_rows.report_unreachable, node=self.node, lanes=sorted(lanes))
            await self._session.run(write)
            self._reported = lanes

    async def _renew(self) -> None:
        begun_ms = self._clock.monotonic_ms()
        renewal = await self._session.run(partial(lease_rows.renew, node=self.node))
        self._view.renewed(begun_ms)
        self._watch_lapse()
        await self._report()
        if renewal != self._renewal or self._must_look(begun_ms):
            self._renewal = renewal
            await self._look()
        else:
            self._view.notify(self.on_change)

    def _must_look(self, now_ms: int) -> bool:
        """Whether something may have changed without a notification."""
        is_late = now_ms - self._looked_ms >= LOOK_MS
        return is_late or not self._listening.is_up or bool(self._view.strays())

    async def _look(self) -> None:
        begun_ms = self._clock.monotonic_ms()
        found = await self._session.run(lease_rows.look)
        self._looked_ms = begun_ms
        await self._take_over(found)

    async def _take_over(self, found: LeaseRows) -> None:
        self.rows = found
        self._view.looked(found.table())
        if all(row.number != self.node for row in found.nodes):
            self.evicted = True
            self._view.left()
        self._view.notify(self.on_change)
        if self._view.strays():
            await self._session.run(self._give_strays_back)

    async def _give_strays_back(self, connection: AsyncConnection) -> None:
        """Checked again here: one may have been acquired since."""
        await lease_rows.release(connection, self.node, sorted(self._view.strays()))

    def _watch_lapse(self) -> None:
        """Act when the leases lapse, even while a statement hangs."""
        if self._lapse is not None:
            self._lapse.cancel()
        delay_s = max(0, self._view.serve_ms_left()) / 1000
        self._lapse = asyncio.get_running_loop().call_later(delay_s, self._lapsed)

    def _lapsed(self) -> None:
        if self._view.serve_ms_left() > 0:
            self._watch_lapse()  # the timer came early
            return
        self._view.drop_lapsed()
        self._view.notify(self.on_change)
