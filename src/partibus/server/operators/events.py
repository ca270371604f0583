"""Events as a stream over all workers.

Owns the question `events`, which each worker answers from its own memory of events, and the stream
that an operator reads. A stream asks every worker for new events; it stores nothing itself, so a
slow reader costs no memory and gets an event about the gap. What is only counted (dead letters,
lost locks) and the states of stores are compared with the previous reading, and only while there is
a reader.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.domain.errors import ServerBusy
from partibus.domain.observing.event_log import EVENT_LOG
from partibus.fragment.broker import Broker
from partibus.fragment.machine import Machine
from partibus.server.operators.changed_fragments import ChangedFragments

EVENTS: Final = "events"
PAGE_MAX: Final = 500
ASK_EVERY_S: Final = 0.5
LOOK_EVERY_MS: Final = 400
"""Several readers share one reading of the counters."""
STREAMS_MAX: Final = 64
"""Of one worker."""
ENTITY_CHANGED: Final = "entity-changed"
_COUNTED: Final = ("dead-lettered", "lock-expired", "lock-lost")
_NONE: Final = (0, 0, 0)


@dataclass(eq=False)
class OwnEvents:
    """The events of this process."""

    brokers: Mapping[int, Broker]
    machines: Mapping[int, Machine]
    changed: ChangedFragments

    def __post_init__(self) -> None:
        self._states: dict[int, str] = {}
        self._totals: dict[int, tuple[int, int, int]] = {}
        """By fragment, the counters at the last reading."""
        self._looked_s = 0.0

    def register(self, control: ControlHub) -> None:
        """Register the question of this process."""
        control.register(EVENTS, self.answer)

    def answer(self, payload: Payload) -> Payload:
        """The events after a number; without one, only the current number."""
        if time.monotonic() - self._looked_s >= LOOK_EVERY_MS / 1000:
            self._look()
        after = payload.get("after")
        reported: Payload = {"pid": os.getpid(), "last": EVENT_LOG.last, "events": [], "missed": 0}
        if after is not None:
            reported["events"], reported["missed"] = EVENT_LOG.after(after, PAGE_MAX)
            if reported["events"]:
                reported["last"] = reported["events"][-1]["number"]
        return reported

    def _look(self) -> None:
        """Report what has changed since the last reading; the first one only remembers."""
        is_first = self._looked_s == 0.0
        self._looked_s = time.monotonic()
        for number, broker in self.brokers.items():
            state = broker.store.state.value
            before = self._states.get(number)
            if before is not None and before != state:
                EVENT_LOG.note("store", store=number, state=state, before=before)
            self._states[number] = state
        changed = self._counted()
        if not is_first:
            for (kind, entity), count in changed.items():
                EVENT_LOG.note(kind, entity=entity, count=count)

    def _counted(self) -> dict[tuple[str, str], int]:
        """By kind and entity, the increase since the last reading."""
        increases: dict[tuple[str, str], int] = {}
        changed, gone = self.changed.take(LOOK_EVERY_MS)
        for fragment_id in gone:
            self._totals.pop(fragment_id, None)
        for fragment_id in changed:
            machine = self.machines.get(fragment_id)
            if machine is None:  # it has left since
                continue
            tally, before = machine.state.tally, self._totals.get(fragment_id, _NONE)
            self._totals[fragment_id] = now = tally.dead_lettered, tally.lapsed, tally.lost
            for kind, more in zip(_COUNTED, map(int.__sub__, now, before), strict=True):
                if more > 0:
                    key = kind, machine.state.spec.path
                    increases[key] = increases.get(key, 0) + more
        return increases


class EventService:
    """The stream over all workers."""

    def __init__(self, control: ControlHub, kind: str = "worker") -> None:
        self._control = control
        self.kind = kind
        """Whether others are workers of this server or nodes of a cluster."""
        self._streams = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """The server stops: end the streams."""
        self._stopping.set()

    async def stream(self, last: int = 0) -> AsyncIterator[list[dict[str, Any]]]:
        """The `last` events of each worker, and new ones as they happen, a few at a time; an empty
        list means that the stream is alive."""
        if self._streams >= STREAMS_MAX:
            raise ServerBusy(f"All {STREAMS_MAX} streams of events of this worker are in use.")
        self._streams += 1
        try:
            cursors = Cursors(self._control.worker, self.kind)
            cursors.take(self._control.workers, await self._control.ask_all(EVENTS, {}))
            cursors.go_back(min(last, PAGE_MAX))
            while not self._stopping.is_set():
                yield await self._next(cursors)
                await self._pause()
        finally:
            self._streams -= 1

    async def _next(self, cursors: "Cursors") -> list[dict[str, Any]]:
        workers = self._control.workers
        asked = [self._ask(worker, cursors.after(worker)) for worker in workers]
        # No task for a plain call.
        answers = [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)
        pairs = zip(workers, answers, strict=True)
        return cursors.take(workers, {w: answer for w, answer in pairs if answer is not None})

    async def _ask(self, worker: int, after: int | None) -> Payload | None:
        try:
            return await self._control.ask(worker, EVENTS, {"after": after})
        except Exception:
            return None

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(ASK_EVERY_S):
                await self._stopping.wait()
        except TimeoutError:
            return


class Cursors:
    """How far one reader has got with each worker."""

    def __init__(self, own: int, kind: str = "worker") -> None:
        self._own = own
        self._kind = kind
        self._last: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        self._lost: set[int] = set()
        self._is_begun = False

    def after(self, worker: int) -> int | None:
        """The number of the last event that was read; None before the first."""
        return self._last.get(worker)

    def go_back(self, count: int) -> None:
        """Begin this many events earlier."""
        self._last = {worker: max(0, last - count) for worker, last in self._last.items()}

    def take(self, workers: list[int], answers: Mapping[int, Payload]) -> list[dict[str, Any]]:
        """The events of all answers in the order of their times."""
        found = [_event(f"{self._kind}-left", gone) for gone in self._pids.keys() - {*workers}]
        for event in found:
            self._forget(event["worker"])
        for worker in workers:
            answer = answers.get(worker)
            if answer is None:
                if worker in self._pids and worker not in self._lost:
                    self._lost.add(worker)
                    found.append(_event(f"{self._kind}-lost", worker))
                continue
            found += self._of(worker, answer)
        self._is_begun = True
        return sorted(found, key=lambda event: int(event["time_ms"]))

    def _forget(self, worker: int) -> None:
        """It has left; a node that was wrongly taken for lost continues where it was last read."""
        del self._pids[worker]
        self._lost.discard(worker)

    def _of(self, worker: int, answer: Payload) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        before = self._pids.get(worker)
        is_joining = self._kind == "node" and before is None and self._is_begun
        if is_joining:
            found.append(_event("node-joined", worker))
        is_new = is_joining and worker not in self._last
        self._pids[worker] = answer["pid"]
        # A new node has no earlier events to read.
        self._last[worker] = 0 if is_new else answer["last"]
        if before is not None and before != answer["pid"]:
            found.append(_event(f"{self._kind}-restarted", worker, pid=answer["pid"]))
        elif worker in self._lost:
            found.append(_event(f"{self._kind}-answers", worker))
        self._lost.discard(worker)
        if answer["missed"] and before == answer["pid"]:
            found.append(_event("gap", worker, missed=answer["missed"]))
        # Every worker follows the catalog; one of them is enough to report it.
        found += [
            {**event, "worker": worker}
            for event in answer["events"]
            if event["kind"] != ENTITY_CHANGED or worker == self._own
        ]
        return found


def _event(kind: str, worker: int, **facts: object) -> dict[str, Any]:
    return {"time_ms": int(time.time() * 1000), "kind": kind, "worker": worker, **facts}
