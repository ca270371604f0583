"""The health of a server, by a real probe: every worker answers, and every store writes.

Owns the questions `alive` and `probe`, their answers in one process, and the report over all
workers. A store that is up proves it by an empty entry that becomes durable, at most one in
`FRESH_S` however many requests there are; one that is down probes itself. `ops.health` decides what
a report means for a client.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.domain.errors import BusError
from partibus.fragment.broker import Broker
from partibus.ops.health_report import STUCK, UNREACHABLE, HealthReport, StoreHealth
from partibus.store.interface import Store, StoreState

ALIVE: Final = "alive"
PROBE: Final = "probe"
FRESH_S: Final = 1.0
"""A probe that was written this recently is not repeated."""
WRITE_S_MAX: Final = 2.0
"""A store that has not made an entry durable within this time is stuck."""
ANSWER_S_MAX: Final = 3.0
"""A worker that does not answer within this time is down; longer than the limit for a store."""
ALIVE_S_MAX: Final = 0.5
"""How long the liveness probe waits for other workers: probers give up after a second."""

_log: Final = logging.getLogger(__name__)


class StoreProbe:
    """Whether one store writes; callers at the same time share one probe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written_s: float | None = None
        """When the last entry of a probe became durable."""
        self._writing: asyncio.Future[bool] | None = None

    async def state(self) -> str:
        """The state that the store reports, or stuck."""
        if self._store.state is StoreState.DOWN or self._is_fresh():
            return self._store.state.value
        if self._writing is None:
            self._write()
        assert self._writing is not None
        try:
            await asyncio.wait_for(asyncio.shield(self._writing), WRITE_S_MAX)
        except TimeoutError:
            return STUCK
        state: StoreState = self._store.state
        return state.value

    def age_ms(self) -> int | None:
        """How long ago the last probe was durable; None when none was."""
        if self._written_s is None:
            return None
        return round((time.monotonic() - self._written_s) * 1000)

    def _is_fresh(self) -> bool:
        return self._written_s is not None and time.monotonic() - self._written_s < FRESH_S

    def _write(self) -> None:
        self._writing = asyncio.get_running_loop().create_future()
        self._store.append([], self._done)

    def _done(self, error: BusError | None) -> None:
        """It is durable, or the store went down, which its state shows."""
        if error is None:
            self._written_s = time.monotonic()
        assert self._writing is not None
        self._writing.set_result(error is None)
        self._writing = None


class OwnHealth:
    """The health of this process."""

    def __init__(self, brokers: Mapping[int, Broker], catalog: Catalog) -> None:
        self._brokers = brokers
        self._catalog = catalog
        self._probes: dict[Broker, StoreProbe] = {}
        """Of the current brokers; the lanes of a cluster come and go."""

    def register(self, control: ControlHub) -> None:
        """Register the questions of this process."""
        control.register(ALIVE, lambda payload: {})
        control.register(PROBE, self.probe)

    async def probe(self, payload: Payload) -> Payload:
        """Read the catalog, and have every store write."""
        known, brokers = self._probes, dict(self._brokers)
        probes = {b: known.get(b) or StoreProbe(b.store) for b in brokers.values()}
        self._probes = probes
        asked = [self._store(number, broker, probes[broker]) for number, broker in brokers.items()]
        stores = await asyncio.gather(*asked)
        return {"catalog": self._reads_catalog(), "stores": dict(stores)}

    async def _store(
        self, number: int, broker: Broker, probe: StoreProbe
    ) -> tuple[str, dict[str, Any]]:
        return str(number), {
            "state": await probe.state(),
            "age_ms": probe.age_ms(),
            "damaged": broker.damage.count,
            "short": broker.store.shortage is not None,
        }

    def _reads_catalog(self) -> bool:
        try:
            self._catalog.refresh()
        except (BusError, OSError, sqlite3.Error) as error:
            _log.warning("the catalog cannot be read: %s", error)
            return False
        return True


class HealthService:
    """The health of the whole server, or of one node of a cluster.

    A node asks itself only: it probes the lanes that it serves, and knows of all others what their
    nodes have reported. Another node that is lost is no reason to restart this one.
    """

    def __init__(self, control: ControlHub, stores: int, is_node: bool = False) -> None:
        self._control = control
        self._is_node = is_node
        self._stores = range(stores)
        self.state_elsewhere: Callable[[int], StoreState | None] = lambda store: None
        """The state of a store that no asked process has; None when it is not known."""
        self.is_supervised: Callable[[], bool] = lambda: True
        """Whether the process that replaces workers is running."""

    async def alive(self) -> dict[int, bool]:
        """Whether the loop of each worker answers, without waiting long."""
        answers = await self._ask_all(ALIVE, ALIVE_S_MAX)
        return {worker: answer is not None for worker, answer in answers.items()}

    async def report(self) -> HealthReport:
        """What every worker, or this node, finds in its stores."""
        answers = await self._ask_all(PROBE, ANSWER_S_MAX)
        found = [answer for answer in answers.values() if answer is not None]
        elsewhere = {number: self.state_elsewhere(number) for number in self._stores}
        stores = {
            number: StoreHealth(state=UNREACHABLE if state is None else state.value)
            for number, state in elsewhere.items()
        }
        for answer in found:
            for number, facts in answer["stores"].items():
                stores[int(number)] = StoreHealth(**facts)
        return HealthReport(
            workers={worker: answer is not None for worker, answer in answers.items()},
            stores=stores,
            reads_catalog=all(answer["catalog"] for answer in found),
        )

    async def _ask_all(self, name: str, within_s: float) -> dict[int, Payload | None]:
        workers = [self._control.worker] if self._is_node else self._control.workers
        answers = await asyncio.gather(*(self._ask(worker, name, within_s) for worker in workers))
        return dict(zip(workers, answers, strict=True))

    async def _ask(self, worker: int, name: str, within_s: float) -> Payload | None:
        try:
            async with asyncio.timeout(within_s):
                return await self._control.ask(worker, name, {})
        except (BusError, TimeoutError):
            return None
