"""Makes the parts of a data directory belong together, on an operator's request.

Owns what happens to each: stores are marked as belonging to this catalog, fragments that it does
not know get a queue each (`recovered-fragment-17`) or, if requested, are dropped by a record; a
missing catalog is created; a store that is lost is replaced by an empty one. Stores are written
before the catalog: after a crash the next start refuses, and the next adoption does it again.
Called by `partibus store adopt`.
"""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from partibus.control.catalog.catalog import Catalog
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import ConfigError, StoreCorrupt
from partibus.fragment.records import DROPPED
from partibus.fragment.replay import finish
from partibus.fragment.snapshot import dump
from partibus.fragment.spec import NO_SPEC
from partibus.fragment.state import State
from partibus.server.config import ServeSettings
from partibus.server.data_directory.belonging import holds_store, known_fragments
from partibus.server.data_directory.directory import CATALOG_NAME
from partibus.server.data_directory.offline import OpenStore, locked_directory, refuse_encrypted
from partibus.server.data_directory.seen import forget_seen
from partibus.store.record import Record

RECOVERED_NAME: Final = "recovered-fragment-{}"


@dataclass(slots=True)
class Recovery:
    """A fragment that gets a queue: its state, and its new id."""

    fragment_id: int
    store: int
    state: State


@dataclass(slots=True)
class Adoption:
    """What was done, for the report; and what is still to be written to the catalog."""

    steps: list[str] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    generation: int = 0
    fragment_max: int = 0


def adopt_data(
    settings: ServeSettings, lost: frozenset[int] = frozenset(), *, drops_unknown: bool = False
) -> list[str]:
    """Make everything belong together; returns what was done."""
    file = settings.data / CATALOG_NAME
    with locked_directory(settings), contextlib.ExitStack() as stack:
        refuse_encrypted(settings, "adopt")
        is_new = not file.exists() or not file.stat().st_size
        catalog = Catalog(file, profile=settings.profile, stores=settings.stores)
        stack.callback(catalog.close)
        adoption = Adoption()
        if is_new:
            adoption.steps.append(f"made {file}")
        is_unnamed = catalog.identity.namespace() is None
        if is_unnamed:
            with catalog.identify() as identity:
                identity.found()
        stores = _open_stores(settings, catalog, lost, stack)
        for number, store in stores.items():
            is_ours = store.marks.namespace == catalog.identity.namespace()
            # Both are of a release without ids: they belong together.
            is_ours = is_ours or (is_unnamed and not store.marks.namespace)
            known = known_fragments(catalog, number) if is_ours else set()
            if not is_ours and not store.marks.is_blank:
                adoption.steps.append(f"store {number} belongs to this namespace from now on")
                store.marks.generation = 0
            _adopt_store(catalog, number, store, known, adoption, drops_unknown=drops_unknown)
        _tell_catalog(catalog, settings, stores, lost, adoption)
        forget_seen(settings.data)
    return adoption.steps


def _open_stores(
    settings: ServeSettings, catalog: Catalog, lost: frozenset[int], stack: contextlib.ExitStack
) -> dict[int, OpenStore]:
    """All existing stores, in the places where they belong."""
    known = catalog.identity.stores()
    stores: dict[int, OpenStore] = {}
    for number, directory in enumerate(settings.store_directories):
        if number in lost and holds_store(directory):
            raise ConfigError(f"--lost {number}: {directory} holds a store; move it away first.")
        if not holds_store(directory):
            if number in known and number not in lost:
                raise StoreCorrupt(
                    f"{directory} is missing or empty: mount its disk, or say that it is lost for "
                    f"good with --lost {number}."
                )
            continue
        stores[number] = store = OpenStore(directory)
        stack.callback(store.close)
        _refuse_exchanged(catalog, number, directory, store)
    return stores


def _refuse_exchanged(catalog: Catalog, number: int, directory: Path, store: OpenStore) -> None:
    marks = store.marks
    if marks.namespace == catalog.identity.namespace() and marks.number != number:
        raise StoreCorrupt(
            f"{directory} is store {marks.number} of this namespace and was given as store "
            f"{number}: put the directories, or the --store flags, back in their order."
        )


def _adopt_store(
    catalog: Catalog,
    number: int,
    store: OpenStore,
    known: set[int],
    adoption: Adoption,
    *,
    drops_unknown: bool,
) -> None:
    """Mark one store as this one, and sort its fragments."""
    namespace = catalog.identity.namespace()
    assert namespace is not None
    marks = store.marks
    adoption.generation = max(adoption.generation, marks.generation)
    adoption.fragment_max = max(adoption.fragment_max, marks.fragment_max)
    unknown = sorted(set(store.states) - known)
    records = []
    if drops_unknown:
        for fragment_id in unknown:
            count = store.stranger_bodies(fragment_id)
            records.append(Record(fragment_id, DROPPED, b""))
            adoption.steps.append(f"dropped fragment {fragment_id} with {count} messages")
    else:
        _recover(catalog, number, store, unknown, adoption)
    marks.identify(namespace, number)
    store.append([*records, marks.record()])


def _recover(
    catalog: Catalog, number: int, store: OpenStore, unknown: list[int], adoption: Adoption
) -> None:
    """Find an id for each, and have the store use it; the catalog follows."""
    used = {p.fragment_id for r in catalog.entities() for p in r.fragments}
    used |= catalog.identity.tombstones().keys()
    used |= {recovery.fragment_id for recovery in adoption.recoveries}
    free = max(catalog.identity.fragment_sequence(), adoption.fragment_max, *unknown, *used, 0) + 1
    is_renumbered = False
    for old_id in unknown:
        fragment_id = old_id
        if old_id in used:
            fragment_id, free = free, free + 1
            store.states[fragment_id] = store.states.pop(old_id)
            is_renumbered = True
        used.add(fragment_id)
        store.marks.saw(fragment_id)
        adoption.fragment_max = max(adoption.fragment_max, fragment_id)
        adoption.recoveries.append(Recovery(fragment_id, number, store.states[fragment_id]))
    if is_renumbered:
        _rewrite(store)


def _rewrite(store: OpenStore) -> None:
    """Write a checkpoint with the states under their new ids; earlier records become void."""
    states: dict[int, bytes] = {}
    for fragment_id, state in store.states.items():
        finish(state, fragment_id, NO_SPEC, store.store)
        states[fragment_id] = dump(state)
    store.checkpoint(states)


def _tell_catalog(
    catalog: Catalog,
    settings: ServeSettings,
    stores: dict[int, OpenStore],
    lost: frozenset[int],
    adoption: Adoption,
) -> None:
    """Write all of it to the catalog in one transaction."""
    with catalog.batch():
        identity = catalog.identity
        identity.raise_fragment_sequence(adoption.fragment_max)
        for recovery in adoption.recoveries:
            spec = QueueSpec(requires_session=recovery.state.sessions is not None)
            name = RECOVERED_NAME.format(recovery.fragment_id)
            record = catalog.recover(name, spec, recovery.fragment_id, recovery.store)
            adoption.steps.append(f"made the queue {record.path} in store {recovery.store}")
        for number in (*lost, *(n for n in identity.stores() if n >= settings.stores)):
            identity.remove_store(number)
            adoption.steps.append(f"store {number} is no longer required")
        for number in stores:
            identity.add_store(number)
        identity.advance(adoption.generation + 1)
