"""The live picture of the whole server: rates, depths, stores and workers, second by second.

Owns the one loop that asks every worker, and the frame made of the answers. However many consoles
are open, the workers are asked once a second; with none, not at all. A worker that does not answer
in time is shown as such, with its stores. Called by `ops.admin.live`.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.errors import BusError
from partibus.domain.observing.cost import observing
from partibus.server.operators.inspection import SILENT_STORE, is_available
from partibus.server.operators.live_sample import LIVE, SHOWN

INTERVAL_S: Final = 1.0
ANSWER_S_MAX: Final = 0.8
"""A worker that takes longer is shown as silent: it must not hold up the picture."""
BUSIEST_MAX: Final = 50
TAKEN_ENTITIES_MAX: Final = 20
"""Names of entities affected by a store that is down; the rest is a number."""


class LiveFeed:
    """Frames for all consoles."""

    def __init__(self, catalog: Catalog, control: ControlHub, stores: int) -> None:
        self._catalog = catalog
        self._control = control
        self._stores = stores
        self._task: asyncio.Task[None] | None = None
        self._watchers = 0
        self._is_closed = False
        self._moved = asyncio.Event()
        self._frame: Payload = {}
        self._number = 0
        self._before: dict[int, Payload] = {}
        self._placed: dict[int, EntityRecord] = {}
        self._generation = -1

    async def frames(self) -> AsyncIterator[Payload]:
        """One frame a second, until the server stops or the reader leaves."""
        self._watchers += 1
        seen = 0
        if self._task is None:
            seen = self._number  # a frame from when somebody last looked is too old
            self._task = asyncio.ensure_future(observing(self._run()))
        try:
            while True:
                while self._number <= seen and not self._is_closed:
                    await self._moved.wait()
                if self._is_closed:
                    return
                seen = self._number
                yield self._frame
        finally:
            self._watchers -= 1
            if not self._watchers and self._task is not None:
                self._task.cancel()
                self._task = None

    def close(self) -> None:
        """The server stops: end the streams, so that nothing waits for them."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._wake()

    def _wake(self) -> None:
        """Tell every reader, each of which waits for the next event from then on."""
        self._moved.set()
        self._moved = asyncio.Event()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            self._frame = self._made(await self._ask())
            self._number += 1
            self._wake()
            await asyncio.sleep(max(0.05, INTERVAL_S - (loop.time() - began)))

    async def _ask(self) -> dict[int, Payload]:
        workers = self._control.workers
        answers = await asyncio.gather(*map(self._ask_one, workers))
        return {w: answer for w, answer in zip(workers, answers, strict=True) if answer is not None}

    async def _ask_one(self, worker: int) -> Payload | None:
        with contextlib.suppress(BusError, TimeoutError):
            async with asyncio.timeout(ANSWER_S_MAX):
                return await self._control.ask(worker, LIVE, {})
        return None

    # --- the frame --------------------------------------------------------------------------

    def _made(self, answers: dict[int, Payload]) -> Payload:
        if self._generation != self._catalog.generation:
            self._learn()
        frame = {
            "time_ms": round(time.time() * 1000),
            "rates": self._rates(answers),
            "totals": self._totals(answers),
            "workers": [_worker(number, answers) for number in self._control.workers],
            "stores": [self._store(number, answers) for number in range(self._stores)],
            "entities": self._busiest(answers),
            "entity_count": self._entity_count,
        }
        self._before = answers
        return frame

    def _learn(self) -> None:
        self._generation = self._catalog.generation
        records = self._catalog.entities()
        self._entity_count = len(records)
        self._placed = {p.fragment_id: record for record in records for p in record.fragments}

    def _rates(self, answers: dict[int, Payload]) -> Payload:
        """What came and left in a second; a worker that was not there before starts at zero."""
        rates = {"in": 0.0, "out": 0.0}
        for worker, now in answers.items():
            before = self._before.get(worker)
            if before is not None and now["at_ms"] > before["at_ms"]:
                seconds = (now["at_ms"] - before["at_ms"]) / 1000
                rates["in"] += max(0, now["arrived"] - before["arrived"]) / seconds
                rates["out"] += max(0, now["left"] - before["left"]) / seconds
        return {name: round(rate, 1) for name, rate in rates.items()}

    def _totals(self, answers: dict[int, Payload]) -> Payload:
        sums = [
            sum(column) for column in zip(*(a["totals"] for a in answers.values()), strict=True)
        ]
        return dict(zip(SHOWN, sums or [0] * len(SHOWN), strict=True))

    def _store(self, number: int, answers: dict[int, Payload]) -> Payload:
        reported = SILENT_STORE
        for worker, answer in answers.items():
            if str(number) in answer["stores"]:
                reported = {"worker": worker, **answer["stores"][str(number)]}
        records = () if is_available(reported["state"]) else self._placed.values()
        taken = sorted({r.path for r in records for p in r.fragments if p.store == number})
        return {
            "store": number,
            **reported,
            "lost_entities": taken[:TAKEN_ENTITIES_MAX],
            "lost_entity_count": len(taken),
        }

    def _busiest(self, answers: dict[int, Payload]) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for worker, answer in answers.items():
            before = self._before.get(worker)
            if before is None or answer["at_ms"] <= before["at_ms"]:
                continue
            seconds = (answer["at_ms"] - before["at_ms"]) / 1000
            for fragment_id, row in answer["busy"].items():
                record = self._placed.get(int(fragment_id))
                if record is None:
                    continue
                entity = found.setdefault(record.path, _empty(record))
                old = before["busy"].get(fragment_id, row)
                entity["in"] += max(0, row[0] - old[0]) / seconds
                entity["out"] += max(0, row[1] - old[1]) / seconds
                for name, count in zip(SHOWN, row[2:], strict=True):
                    entity[name] += count
        busiest = sorted(found.values(), key=lambda e: (-e["in"] - e["out"], e["name"]))
        for entity in busiest:
            entity["in"], entity["out"] = round(entity["in"], 1), round(entity["out"], 1)
        return busiest[:BUSIEST_MAX]


def _empty(record: EntityRecord) -> dict[str, Any]:
    zeros = dict.fromkeys(("in", "out", *SHOWN), 0)
    return {"name": record.path, "kind": record.kind.value, **zeros}


def _worker(number: int, answers: dict[int, Payload]) -> Payload:
    answer = answers.get(number)
    connections = None if answer is None else answer["connections"]
    return {"worker": number, "is_up": answer is not None, "connections": connections}
