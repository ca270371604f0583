"""Idle entities are deleted if their AutoDeleteOnIdle says so (IDL-1).

Owns the watch over idle entities. Every worker reports how long its fragments have been idle; only
the first worker collects the answers and decides, and never about an entity with a missing answer.
Idle time is written to the catalog as it grows, and counts only while the server runs: a restart
neither forgets it nor adds to it. Made by the node.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from partibus.cluster.control_hub import ControlHub, Payload
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.control.live import LiveNamespace
from partibus.domain.clock import Clock
from partibus.domain.duration import DURATION_MAX_MS
from partibus.domain.entity import EntityKind, forwards
from partibus.domain.errors import BusError
from partibus.fragment.machine import Machine
from partibus.fragment.upkeep.usage import idle_ms

USAGE: Final = "usage"
"""The question how long fragments have been idle."""
SWEEP_MS: Final = 60_000
"""How often idle times are checked: the maximum delay of a deletion, and the most idle time that a
crash loses. The shortest AutoDeleteOnIdle is five minutes."""

_log: Final = logging.getLogger(__name__)


@dataclass(eq=False)
class IdleWatch:
    """Reports the idle times of this process's fragments; in the first worker, decides for all."""

    catalog: Catalog
    live: LiveNamespace
    control: ControlHub
    clock: Clock
    machines: Mapping[int, Machine]
    decides: Callable[[], bool] | None = None
    """Whether this process decides now, where that changes; None: the first worker does."""

    def __post_init__(self) -> None:
        self._written = self.catalog.idle_times()
        self._task: asyncio.Task[None] | None = None
        self.control.register(USAGE, self._usage)

    def start(self) -> None:
        """Start checking, if this is the worker that decides."""
        if self.decides is not None or self.control.worker == 0:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_MS / 1000)
            if self.decides is not None and not self.decides():
                continue
            try:
                await self.sweep()
            except BusError as error:
                _log.warning("idle entities could not be checked: %s", error.text)

    def _usage(self, payload: Payload) -> Payload:
        """How long each of the requested fragments that are here has been idle."""
        now_ms = self.clock.now_ms()
        machines = self.machines
        here = [number for number in payload["fragments"] if number in machines]
        return {str(number): idle_ms(machines[number], now_ms) for number in here}

    # --- the decision -------------------------------------------------------------------------

    async def sweep(self) -> list[str]:
        """Delete what has been idle for long enough; returns the paths."""
        watched = [r for r in self.catalog.entities() if is_watched(r)]
        if not watched:
            return []
        idle = await self._idle_times(watched)
        await self._write(idle)
        return [r.path for r in watched if is_due(r, idle) and await self._delete(r)]

    async def _idle_times(self, records: Iterable[EntityRecord]) -> dict[int, int]:
        """The idle time of each entity; without entities of which a fragment did not answer."""
        concerned = {record.entity_id: self._concerned(record) for record in records}
        numbers = sorted({number for numbers in concerned.values() for number in numbers})
        answers = await self.control.ask_all(USAGE, {"fragments": numbers})
        reported = {int(number): ms for answer in answers.values() for number, ms in answer.items()}
        return {
            record.entity_id: min([reported[number] for number in concerned[record.entity_id]])
            for record in records
            if all(number in reported for number in concerned[record.entity_id])
        }

    def _concerned(self, record: EntityRecord) -> list[int]:
        """The fragments whose use keeps an entity: those of a topic's subscriptions count too."""
        records = [record]
        if record.kind is EntityKind.TOPIC:
            records += self.catalog.subscriptions(record.path)
        return [placement.fragment_id for one in records for placement in one.fragments]

    async def _write(self, idle: Mapping[int, int]) -> None:
        """Save what has changed; in whole steps, so that entities in use are not written."""
        steps = {entity_id: ms // SWEEP_MS * SWEEP_MS for entity_id, ms in idle.items()}
        changed = {e: ms for e, ms in steps.items() if self._written.get(e, 0) != ms}
        if changed:
            await self.live.put_idle_times(changed)
        self._written = steps

    async def _delete(self, record: EntityRecord) -> bool:
        try:
            # Checked again: deleting others before it takes its time.
            if not is_due(record, await self._idle_times([record])):
                return False
            await self.live.delete(record.path)
        except BusError as error:
            _log.warning("the idle entity '%s' cannot be deleted yet: %s", record.path, error.text)
            return False
        _log.info("'%s' was idle for its AutoDeleteOnIdle and is deleted", record.path)
        return True


def is_due(record: EntityRecord, idle: Mapping[int, int]) -> bool:
    """Whether the entity is known to have been idle for its AutoDeleteOnIdle."""
    return idle.get(record.entity_id, -1) >= record.spec.auto_delete_on_idle_ms


def is_watched(record: EntityRecord) -> bool:
    """Whether the entity is deleted when it is idle."""
    if not record.fragments or forwards(record.spec):  # IDL-3
        return False
    return record.spec.auto_delete_on_idle_ms < DURATION_MAX_MS
