"""What every worker counts, gathered from all of them for a scrape.

Owns the question `signals`, its answer in one process, and the merging of the answers by entity. It
reads counters that are kept anyway; nothing here runs unless there is a request. `ops.metrics`
writes the result for Prometheus.
"""

import os
import resource
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog import Catalog
from partibus.control.record import EntityRecord
from partibus.domain.error_counts import error_counts
from partibus.domain.histogram import Histogram
from partibus.domain.observing_cost import OBSERVING
from partibus.fragment.broker import Broker
from partibus.fragment.machine import Machine
from partibus.gateway.gateway import Gateway
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
_STARTED_S: Final = time.time()


@dataclass(eq=False)
class OwnSignals:
    """The counters of this process."""

    gateway: Gateway
    brokers: Mapping[int, Broker]
    machines: Mapping[int, Machine]
    inspection: Inspection
    _rows: dict[int, tuple[int, list[int]]] = field(init=False, default_factory=dict)
    """By fragment what was last reported, and its change number then."""

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
            "process": process_figures(),
        }

    def _fragments(self) -> dict[int, list[int]]:
        """Most fragments have not changed: their numbers are reused."""
        known, rows = self._rows, {}
        for number, machine in self.machines.items():
            row = known.get(number)
            if row is None or row[0] != machine.changes:
                row = machine.changes, _row(machine)
            rows[number] = row
        self._rows = rows
        return {number: row for number, (_, row) in rows.items()}

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
        self._known: dict[int, _Known] = {}
        """What was last reported of each entity; most of it is still valid the next time."""
        self._before = _Places()

    async def gather_for_export(self) -> Payload | None:
        """The same for a collector, which must get it from only one node of a cluster."""
        return await self.gather() if self.decides() else None

    async def gather(self) -> Payload:
        """What every worker counts, with the fragments merged by entity."""
        answers = await self._control.ask_all(SIGNALS, {})
        places = self._places(answers)
        records = self._catalog.entities()
        shown = self._shown(records[: self._entities_max], places)
        rest = [_entity(record, places) for record in records[self._entities_max :]]
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
            places.workers.update(dict.fromkeys(rows, worker))
            for number, store in answer[STORES].items():
                places.states[int(number)] = store["state"]
        return places

    def _shown(self, records: Sequence[EntityRecord], places: "_Places") -> list[Payload]:
        """The entities; those that have not changed as reported before."""
        is_as_before = places.is_like(self._before)
        known, self._known = self._known if is_as_before else {}, {}
        for record in records:
            before = known.get(record.entity_id)
            if before is None or before.record is not record or not before.holds(places.rows):
                before = _Known(record, places)
            self._known[record.entity_id] = before
        self._before = places
        return [entity.payload for entity in self._known.values()]


class _Places:
    """What all workers report in one answer: the rows of fragments, where they are, and stores."""

    __slots__ = ("rows", "states", "workers")

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.workers: dict[int, int] = {}
        self.states: dict[int, str] = {}

    def is_like(self, other: "_Places") -> bool:
        """Whether fragments and stores are unchanged."""
        return self.workers == other.workers and self.states == other.states


class _Known:
    """An entity as last reported, and the rows it was made of."""

    __slots__ = ("_first", "_ids", "_rows", "payload", "record")

    def __init__(self, record: EntityRecord, places: _Places) -> None:
        self.record = record
        self._ids = [placement.fragment_id for placement in record.fragments]
        self._rows = [places.rows.get(number) for number in self._ids]
        self._first = self._ids[0]
        self.payload = _entity(record, places)

    def holds(self, rows: Mapping[int, list[int]]) -> bool:
        """Whether its fragments have the same numbers; in this process they are the same rows."""
        if len(self._ids) == 1 and rows.get(self._first) is self._rows[0]:
            return True
        return [rows.get(number) for number in self._ids] == self._rows


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


def _entity(record: EntityRecord, places: _Places) -> Payload:
    fragments: list[Payload] = []
    for index, placement in enumerate(record.fragments):
        row = places.rows.get(placement.fragment_id)
        is_up = row is not None and is_available(places.states.get(placement.store, "down"))
        fragments.append(
            {
                "index": index,
                "store": placement.store,
                "worker": places.workers.get(placement.fragment_id),
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


def process_figures() -> dict[str, Any]:
    """The resources that the process uses."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "pid": os.getpid(),
        "cpu_s": used.ru_utime + used.ru_stime,
        "observing_s": OBSERVING.seconds,
        "resident_bytes": pages * _PAGE_BYTES,
        "open_files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "started_s": _STARTED_S,
    }
