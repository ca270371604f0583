"""Copies a whole bus from one place to another, and compares it message by message.

Owns the order: both places are locked, the source is checked for consistency, each lane is read
once and written at the same positions without dead data, then the catalog, then everything is read
back and compared, and only then the target may be served. If it ends before that, the target
refuses to serve. Called by `partibus store copy`.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.copying import copy_catalog
from partibus.domain.errors import ConfigError
from partibus.fragment.state import State
from partibus.server.copying.comparing import (
    Advance,
    Comparison,
    batches,
    compare_catalogs,
    compare_lanes,
    message_tables,
)
from partibus.server.copying.ends import End, GivenPlace, Source, Target, open_source, open_target
from partibus.server.copying.lane_reading import LaneReading
from partibus.server.data_directory.belonging import Belonging
from partibus.server.data_directory.offline import STORES_MAX
from partibus.store.compaction.importing import Bodies, Stretch, stretches


@dataclass(slots=True)
class EntityCount:
    """How many messages an entity has, by state."""

    messages: dict[str, int] = field(default_factory=dict)
    body_bytes: int = 0

    def add(self, state: State) -> None:
        """Count a fragment."""
        for where, table in message_tables(state).items():
            self.messages[where] = self.messages.get(where, 0) + len(table)
            self.body_bytes += sum(length for _, length in table.bodies())


@dataclass(slots=True)
class CopyReport:
    """What was copied and compared."""

    lanes: int = 0
    entities: dict[str, EntityCount] = field(default_factory=dict)
    comparison: Comparison = field(default_factory=Comparison)


class Watcher(Protocol):
    """Receives the progress of a copy."""

    def stage(self, what: str, total: int) -> contextlib.AbstractContextManager[Advance]:
        """A part of the work, in bodies."""
        ...


class NoProgress:
    """Ignores progress."""

    @contextlib.contextmanager
    def stage(self, what: str, total: int) -> Iterator[Advance]:
        """A part of the work that is not watched."""
        yield lambda count: None


def copy_bus(
    source: GivenPlace,
    target: GivenPlace,
    *,
    decrypts: bool = False,
    watcher: Watcher | None = None,
) -> CopyReport:
    """Copy everything and compare it; differences are in the report, and then the target must not
    be served."""
    with contextlib.ExitStack() as stack:
        origin = open_source(source, stack)
        _refuse_plain(origin, source, decrypts=decrypts)
        work = _Work(origin, watcher or NoProgress())
        filled = open_target(target, origin.settings.stores, stack)
        for number in origin.rows.identity.stores():
            work.copy_lane(number, filled)
        copy_catalog(origin.rows, filled.rows)
        work.compare(filled)
        if not work.report.comparison.differences:
            filled.complete()
        return work.report


def compare_buses(
    source: GivenPlace, target: GivenPlace, watcher: Watcher | None = None
) -> CopyReport:
    """Compare two places."""
    with contextlib.ExitStack() as stack:
        origin, other = open_source(source, stack), open_source(target, stack)
        work = _Work(origin, watcher or NoProgress())
        work.compare(other)
        return work.report


def _refuse_plain(origin: Source, given: GivenPlace, *, decrypts: bool) -> None:
    if origin.is_encrypted and not decrypts:
        raise ConfigError(
            f"{given.place} is encrypted, and the copy would not be: give --decrypt if that is "
            "intended, and have the disk or the database of the target encrypt what it keeps. "
            "Nothing was copied."
        )


class _Work:
    """One source and the work on it."""

    def __init__(self, source: End, watcher: Watcher) -> None:
        self._source = source
        self._watcher = watcher
        self._catalog = Catalog(stores=STORES_MAX, rows=source.rows)
        self._belonging = Belonging(source.catalog_place, source.settings, self._catalog)
        self._belonging.check_places()
        self._names = {p.fragment_id: r.path for r in self._catalog.entities() for p in r.fragments}
        self.report = CopyReport(source.settings.stores)

    def _name(self, fragment_id: int) -> str:
        return self._names.get(fragment_id, "a deleted entity")

    def copy_lane(self, number: int, target: Target) -> None:
        """Write one lane at the same positions."""
        with contextlib.closing(self._source.lane(number)) as lane:
            self._belonging.check_store(number, lane)
            plan = list(stretches(lane.refs(), lane.end))
            total = sum(len(stretch.refs) for stretch in plan)
            with (
                contextlib.closing(target.fill(number)) as filled,
                self._watcher.stage(f"copying lane {number}", total) as advance,
            ):
                for stretch in plan:
                    filled.write(stretch, _bodies(lane, stretch, advance))
                filled.finish(lane.snapshot())

    def compare(self, target: End) -> None:
        """Read both places, and count the messages of the source."""
        found = self.report.comparison
        compare_catalogs(self._source.rows, target.rows, found)
        numbers = self._source.rows.identity.stores()
        for number in sorted(set(numbers) & set(target.rows.identity.stores())):
            with (
                contextlib.closing(self._source.lane(number)) as here,
                contextlib.closing(target.lane(number)) as there,
                self._watcher.stage(f"comparing lane {number}", len(here.refs())) as advance,
            ):
                compare_lanes(here, there, self._name, found, advance)
                self._count(here)

    def _count(self, lane: LaneReading) -> None:
        for fragment_id, state in lane.states.items():
            name = self._name(fragment_id)
            self.report.entities.setdefault(name, EntityCount()).add(state)


def _bodies(lane: LaneReading, stretch: Stretch, advance: Callable[[int], None]) -> Bodies:
    for some in batches(stretch.refs):
        for ref, body in zip(some, lane.bodies(some), strict=True):
            yield ref[0], body
        advance(len(some))
