"""Changes of entities that clients ask for, one after the other.

Owns the order: a request is finished before the next one begins, whichever client it is from, so
that a subscription that is deleted and created again is never the old one. Each is carried out
through the live namespace. Called by links and `rule_changes`; runs on the event loop only while
there is something to do.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from partibus.control.live import LiveNamespace
from partibus.domain.errors import BusError, OperationConflict

Order = Callable[[LiveNamespace], Awaitable[None]]
OrderDone = Callable[[BusError | None], None]
CONFLICT_S: Final = 0.02
CONFLICT_TRIES_MAX: Final = 250
"""About five seconds to wait for another change of the same entity before it is an error."""

_log: Final = logging.getLogger(__name__)


class EntityOrders:
    """Requests of this process's clients that are not done yet."""

    def __init__(self, live: LiveNamespace, tries_max: int = CONFLICT_TRIES_MAX) -> None:
        self._live = live
        self._tries_max = tries_max
        self._waiting: deque[tuple[Order, OrderDone]] = deque()
        self._task: asyncio.Task[None] | None = None

    def ask(self, order: Order, done: OrderDone) -> None:
        """Carry an order out; `done` is called once, never inside this call."""
        self._waiting.append((order, done))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """The server stops: pending orders are not begun."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                order, done = self._waiting.popleft()
                error: BusError | None = None
                try:
                    await self._carry_out(order)
                except BusError as refusal:
                    error = refusal
                except Exception:
                    _log.exception("a change that a client asked for failed")
                    error = BusError("The entity could not be changed; see the server's log.")
                done(error)
        finally:
            self._task = None

    async def _carry_out(self, order: Order) -> None:
        for _ in range(self._tries_max - 1):
            try:
                await order(self._live)
                return
            except OperationConflict:
                await asyncio.sleep(CONFLICT_S)
        await order(self._live)
