"""What every worker counts, gathered from all of them for a scrape.

Owns the question `signals`, its answer in one process, and the merging of the answers by entity. It
reads counters that are kept anyway; nothing here runs unless there is a request. `ops.metrics`
writes the result for Prometheus.
"""

import os
import resource
import time
from collections.abc import Awaitable, Callable, KeysView, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.observing.cost import OBSERVING
from partibus.domain.observing.error_counts import error_counts
from partibus.domain.observing.histogram import Histogram
from partibus.fragment.broker import Broker
from partibus.fragment.machine import Machine
from partibus.gateway.gateway import Gateway
from partibus.server.operators.changed_fragments import ChangedFragments
from partibus.server.operators.inspection import COUNTS, STORES, Inspection, is_available

SIGNALS: Final = "signals"
ENTITIES_MAX: Final = 1000
"""Entities with their own series; the number of series in Prometheus must be bounded."""
OTHER: Final = "(other)"
TALLIES: Final = (
    "incoming",
    "outgoing",
    "completed",
    "abandoned",
    "deferred_total",
    "dead_lettered",
    "expired",
    "lapsed",
    "lost",
)
COUNTED: Final = (*COUNTS, "bytes", *TALLIES)
"""What is reported of a fragment, in this order."""

_COUNTS: Final = attrgetter(*COUNTS)
_PAGE_BYTES: Final = resource.getpagesize()
_MEMORY: Final = Path("/proc/self/statm")
_STARTED_S: Final = time.time()


@dataclass(eq=False)
class OwnSignals:
    """The counters of this process."""

    gateway: Gateway
    brokers: Mapping[int, Broker]
    machines: Mapping[int, Machine]
    inspection: Inspection
    changed: ChangedFragments

    def __post_init__(self) -> None:
        self._rows: dict[int, list[int]] = {}
        """What was last reported of each fragment."""

    def register(self, control: ControlHub) -> None:
        """Register the question of this process."""
        control.register(SIGNALS, self.report)

    def report(self, payload: Payload) -> Payload:
        """Everything that is counted here."""
        return {
            "gateway": self._clients(),
            "errors": [[*key, count] for key, count in sorted(error_counts().items())],
            "stores": self._stores(),
            "fragments": self._fragments(),
            "process": process_usage(),
        }

    def _fragments(self) -> dict[int, list[int]]:
        """Most fragments have not changed: their numbers are reused."""
        changed, gone = self.changed.take()
        for number in gone:
            del self._rows[number]
        for number in changed:
            self._rows[number] = _row(self.machines[number])
        return self._rows.copy()

    def _clients(self) -> Payload:
        gateway, transports = self.gateway, {"amqp": 0, "amqps": 0, "websocket": 0}
        links = 0
        for connection in gateway.connections:
            transports[connection.origin.transport] += 1
            links += connection.link_count
        meters = gateway.meters
        return {
            "connections": transports,
            "links": links,
            "opened": meters.opened,
            "closed": meters.closed,
            "memory_bytes": gateway.memory.held_bytes,
            "send": _durations(meters.send),
            "settlement": _durations(meters.settlement),
            "delivery": _durations(meters.delivery),
        }

    def _stores(self) -> Payload:
        stores = self.inspection.stores({})
        for number, broker in self.brokers.items():
            timings = broker.store.timings
            stores[str(number)] |= {
                "fragments": broker.fragment_count,
                "append": _durations(timings.append),
                "fsync": _durations(timings.sync),
            }
        return stores


class SignalService:
    """The counters of the whole server."""

    def __init__(self, catalog: Catalog, control: ControlHub, entities_max: int) -> None:
        self._catalog = catalog
        self._control = control
        self._entities_max = entities_max
        self.cluster: Callable[[], Awaitable[Payload]] | None = None
        """Counts of nodes and lanes; None when the server is alone."""
        self.decides: Callable[[], bool] = lambda: True
        """Whether this process does what only one process may do."""
        self._merged = _Merged()

    async def gather_for_export(self) -> Payload | None:
        """The same for a collector, which must get it from only one node of a cluster."""
        return await self.gather() if self.decides() else None

    async def gather(self) -> Payload:
        """What every worker counts, with the fragments merged by entity."""
        answers = await self._control.ask_all(SIGNALS, {})
        entities = self._merged.take(self._catalog.entities(), self._places(answers))
        shown, rest = entities[: self._entities_max], entities[self._entities_max :]
        return {
            "workers": {worker: answers.get(worker) for worker in self._control.workers},
            "entities": shown + ([_together(rest)] if rest else []),
            "aggregated": len(rest),
            "cluster": None if self.cluster is None else await self.cluster(),
        }

    def _places(self, answers: dict[int, Payload]) -> "_Places":
        """The workers' reports of fragments and stores, merged."""
        places = _Places()
        for worker, answer in answers.items():
            rows = answer.pop("fragments")
            if worker != self._control.worker:  # it came as JSON
                rows = {int(number): row for number, row in rows.items()}
            places.rows.update(rows)
            places.served[worker] = rows.keys()
            for number, store in answer[STORES].items():
                places.states[int(number)] = store["state"]
        return places


class _Places:
    """What all workers report in one answer: the rows of fragments, where they are, and stores."""

    __slots__ = ("rows", "served", "states")

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.served: dict[int, KeysView[int]] = {}
        """The fragments of each worker."""
        self.states: dict[int, str] = {}

    def is_like(self, other: "_Places") -> bool:
        """Whether fragments and stores are unchanged."""
        return self.served == other.served and self.states == other.states


class _Merged:
    """The entities as last reported; those that have not changed are the same objects again."""

    def __init__(self) -> None:
        self._records: tuple[EntityRecord, ...] = ()
        self._places = _Places()
        self._workers: dict[int, int] = {}
        """Which worker serves a fragment."""
        self._positions: dict[int, int] = {}
        """By fragment, the position of its entity."""
        self._entities: list[Payload] = []

    def take(self, records: tuple[EntityRecord, ...], places: _Places) -> list[Payload]:
        """The entities with what was reported now."""
        if records == self._records and places.is_like(self._places):
            changed = self._changed(places.rows)
        else:
            self._begin(records, places)
            changed = set(range(len(records)))
        self._places = places
        for at in changed:
            self._entities[at] = _entity(records[at], places, self._workers)
        return self._entities

    def _begin(self, records: tuple[EntityRecord, ...], places: _Places) -> None:
        self._records, self._entities = records, [{}] * len(records)
        self._workers = {n: worker for worker, served in places.served.items() for n in served}
        self._positions = {
            placement.fragment_id: at
            for at, record in enumerate(records)
            for placement in record.fragments
        }

    def _changed(self, rows: dict[int, list[int]]) -> set[int]:
        """The positions of entities whose numbers have changed; an unchanged row is often the same
        object."""
        before, positions = self._places.rows, self._positions
        fragments = [n for n, row in rows.items() if before[n] is not row and before[n] != row]
        return {positions[number] for number in fragments if number in positions}


def _row(machine: Machine) -> list[int]:
    """The numbers of one fragment, as `COUNTED` names them; a scrape makes thousands."""
    tally = machine.state.tally
    counts = machine.state.counts()
    return [
        *_COUNTS(counts),
        counts.size_bytes,
        tally.incoming,
        tally.outgoing,
        tally.completed,
        tally.abandoned,
        tally.deferred,
        tally.dead_lettered,
        tally.expired,
        tally.lapsed,
        tally.lost,
    ]


def _entity(record: EntityRecord, places: _Places, workers: Mapping[int, int]) -> Payload:
    fragments: list[Payload] = []
    for index, placement in enumerate(record.fragments):
        row = places.rows.get(placement.fragment_id)
        is_up = row is not None and is_available(places.states.get(placement.store, "down"))
        fragments.append(
            {
                "index": index,
                "store": placement.store,
                "worker": workers.get(placement.fragment_id),
                "available": is_up,
                "counts": None if row is None else dict(zip(COUNTED, row, strict=False)),
            }
        )
    rows = [f["counts"] for f in fragments if f["counts"] is not None]
    # Most entities have one fragment, whose counts are theirs.
    is_sole = len(rows) == 1
    return {
        "name": record.path,
        "kind": record.kind.value,
        "fragments": fragments,
        "available": sum(int(f["available"]) for f in fragments),
        "fragment_count": len(fragments),
        "counts": rows[0] if is_sole else {n: sum([row[n] for row in rows]) for n in COUNTED},
    }


def _together(entities: list[Payload]) -> Payload:
    """Entities beyond the limit, as one."""
    return {
        "name": OTHER,
        "kind": OTHER,
        "fragments": [],
        "available": sum(entity["available"] for entity in entities),
        "fragment_count": sum(entity["fragment_count"] for entity in entities),
        "counts": {name: sum(e["counts"][name] for e in entities) for name in COUNTED},
    }


def _durations(histogram: Histogram) -> Payload:
    return {"counts": list(histogram.counts), "sum_s": histogram.sum_s}


def process_usage() -> dict[str, Any]:
    """The resources that the process uses."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(_MEMORY.read_bytes().split()[1])
    with os.scandir("/proc/self/fd") as found:
        open_files = sum(1 for _ in found)
    return {
        "pid": os.getpid(),
        "cpu_s": used.ru_utime + used.ru_stime,
        "observing_s": OBSERVING.seconds,
        "resident_bytes": pages * _PAGE_BYTES,
        "open_files": open_files,
        "started_s": _STARTED_S,
    }
