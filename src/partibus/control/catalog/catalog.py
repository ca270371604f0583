"""The catalog: which entities and policies the namespace has, and its change feed.

Owns entity definitions, their numeric ids, the placement of fragments on stores, and the change
feed. Answers come from memory, writes go to a database first and are durable when a call returns.
It must never be part of the data path: fragments hold messages, the catalog only records that they
exist. Called by the server, the gateway and the admin surfaces, all on one thread.
"""

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from partibus.control.access.policies import AccessPolicy, check_policy
from partibus.control.catalog.admitting import admit_new, admit_update
from partibus.control.catalog.change_log import NewChanges
from partibus.control.catalog.database import CatalogDatabase
from partibus.control.catalog.differences import differences, policy_differences
from partibus.control.catalog.entity_index import EntityIndex
from partibus.control.catalog.identity import IdentityRows
from partibus.control.catalog.policy_index import PolicyIndex
from partibus.control.catalog.quotas import check_filters, check_forwarding, check_room
from partibus.control.catalog.record import (
    Change,
    ChangeKind,
    ChangeListener,
    EntityRecord,
    Placement,
)
from partibus.control.catalog.rows import CatalogRows
from partibus.control.catalog.sealed import SealedCatalog
from partibus.control.placement import StoreLoads, UnknownLoads, choose_stores
from partibus.domain.address import parse_address, path_key
from partibus.domain.admission import admit
from partibus.domain.clock import Clock, SystemClock
from partibus.domain.entity import EntityKind, EntitySpec, QueueSpec, SubscriptionSpec, kind_of
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    ConfigError,
    EntityExists,
    EntityNotFound,
    QuotaExceeded,
)
from partibus.domain.limits import SELFHOST, Profile, with_partitions

LOCK_PREFIX: Final = "lock_prefix"
"""The setting with the prefix of all lock tokens of the namespace."""
PARTITIONS: Final = "partitions"
"""The setting that fixes the number of partitions of every entity."""

_log: Final = logging.getLogger(__name__)


class Catalog:
    """The namespace's entities and policies, on disk (`file`), in memory, or in other `rows`."""

    def __init__(
        self,
        file: Path | None = None,
        *,
        profile: Profile = SELFHOST,
        stores: int = 1,
        clock: Clock | None = None,
        encrypted: SealedCatalog | None = None,
        rows: CatalogRows | None = None,
    ) -> None:
        assert stores >= 1
        self.profile = profile
        self.stores = stores
        self._clock = clock if clock is not None else SystemClock()
        self._database: CatalogRows = rows or CatalogDatabase(file, encrypted)
        self._entities = EntityIndex()
        self._policies = PolicyIndex()
        self._listeners: list[ChangeListener] = []
        self._pending: list[Change] | None = None
        self._dropped: set[int] = set()
        """Fragments that stores have dropped: their tombstones are removed with the next write."""
        self.generation = 0
        """How many changes the namespace has had, as far as this process knows."""
        try:
            self._database.has_news()
            self._load()
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Close the database; only tombstones may be waiting to be removed."""
        try:
            if self._dropped:
                with self._database.transaction():
                    self._database.identity.unbury(self._dropped)
        except BusError:
            _log.info("tombstones remain in the catalog; the next start removes them")
        finally:
            self._database.close()

    # --- reading ------------------------------------------------------------------------

    def lookup(self, path: str) -> EntityRecord | None:
        """The entity with that path, in any case; a subscription is `topic/Subscriptions/name`."""
        return self._entities.find(path.lower())

    def entity(self, path: str) -> EntityRecord:
        """The entity of that path; a missing one is an error."""
        record = self.lookup(path)
        if record is None:
            raise EntityNotFound.named(path)
        return record

    def entities(self, kind: EntityKind | None = None) -> tuple[EntityRecord, ...]:
        """Every entity, or those of one kind, oldest first."""
        records = tuple(self._entities.records)
        return records if kind is None else tuple(r for r in records if r.kind is kind)

    def subscriptions(self, topic: str) -> tuple[EntityRecord, ...]:
        """The subscriptions of a topic, oldest first."""
        return tuple(self._entities.subscriptions(topic))

    def policy(self, path: str, name: str) -> AccessPolicy | None:
        """The policy of that name on an entity, or on the namespace when `path` is ""."""
        return self._policies.of_scope(path_key(path)).get(name)

    def policies(self, path: str = "") -> tuple[AccessPolicy, ...]:
        """The policies of an entity, or of the namespace when `path` is ""."""
        return tuple(self._policies.of_scope(path_key(path)).values())

    def policies_named(self, name: str) -> tuple[tuple[str, AccessPolicy], ...]:
        """(scope in lower case, policy) for every policy with that name."""
        return tuple(self._policies.named(name).items())

    # --- entities -----------------------------------------------------------------------

    def create(self, path: str, spec: EntitySpec, loads: StoreLoads | None = None) -> EntityRecord:
        """A new entity with its fragments; a used name is an error (ENT-9). The loads of the
        stores, and the fragments they have, decide where the new ones go."""
        with self.batch():
            path, admitted = admit_new(self._entities, path, spec, self.profile)
            if self.lookup(path) is not None:
                raise EntityExists(f"An entity named '{path}' already exists; choose another name.")
            check_room(self._entities, path, admitted, self.profile)
            return self._insert(
                path, admitted, lambda number: self._place(number, path, admitted, loads)
            )

    def _insert(
        self, path: str, spec: EntitySpec, place: Callable[[int], tuple[Placement, ...]]
    ) -> EntityRecord:
        """Write a new entity, with its fragments in the stores that `place` returns for its id."""
        now_ms = self._clock.now_ms()
        entity_id = self._database.insert_entity(path, path_key(path), kind_of(spec), spec, now_ms)
        record = EntityRecord(
            entity_id=entity_id,
            path=path,
            kind=kind_of(spec),
            spec=spec,
            fragments=place(entity_id),
            created_ms=now_ms,
            updated_ms=now_ms,
        )
        self._put_record(Change(ChangeKind.CREATED, path, None, record))
        return record

    def recover(self, path: str, spec: QueueSpec, fragment_id: int, store: int) -> EntityRecord:
        """A queue for a fragment that a store has and no entity owns; a used name is extended."""
        with self.batch():
            admitted = admit(spec, self.profile)
            name, count = path, 1
            while self.lookup(name) is not None:
                count += 1
                name = f"{path}-{count}"

            def place(entity_id: int) -> tuple[Placement, ...]:
                self._database.insert_known_fragment(entity_id, fragment_id, store)
                return (Placement(fragment_id, store),)

            return self._insert(name, admitted, place)

    def _place(
        self, entity_id: int, path: str, spec: EntitySpec, loads: StoreLoads | None
    ) -> tuple[Placement, ...]:
        """Place fragments where there is room; those of a subscription with those of its topic,
        since a message is stored once for all that share it."""
        if isinstance(spec, SubscriptionSpec):
            topic = self.entity(parse_address(path).entity)
            chosen = [placement.store for placement in topic.fragments]
        else:
            known = UnknownLoads() if loads is None else loads
            fragments = self._entities.fragments_of_stores
            chosen = choose_stores(spec.fragments, self.stores, fragments, known)
        return tuple(
            Placement(self._database.insert_fragment(entity_id, ordinal, store), store)
            for ordinal, store in enumerate(chosen)
        )

    def update(self, path: str, spec: EntitySpec) -> EntityRecord:
        """Replace the entity's spec; fixed properties must stay (PRP-2)."""
        with self.batch():
            before = self.entity(path)
            admitted = admit_update(self._entities, before, spec, self.profile)
            if admitted == before.spec:
                return before
            check_filters(self._entities, before.path, admitted, self.profile)
            now_ms = self._clock.now_ms()
            after = replace(before, spec=admitted, updated_ms=now_ms)
            self._database.update_entity(before.entity_id, admitted, now_ms)
            self._put_record(Change(ChangeKind.UPDATED, before.path, before, after))
        return after

    def delete(self, path: str) -> EntityRecord:
        """Remove an entity; a topic with its subscriptions."""
        with self.batch():
            record = self.entity(path)
            doomed = [record]
            if record.kind is EntityKind.TOPIC:
                doomed = [*self.subscriptions(record.path), record]
            for gone in doomed:
                self._database.delete_entity(gone.entity_id, path_key(gone.path))
                self._forget(gone)
                self._note(Change(ChangeKind.DELETED, gone.path, gone, None))
        return record

    # --- policies -----------------------------------------------------------------------

    def put_policy(self, path: str, policy: AccessPolicy) -> None:
        """Write a policy of the namespace ("") or of a queue or topic (SAS-3)."""
        check_policy(policy)
        with self.batch():
            if path:
                record = self.entity(path)
                path = record.path
                if record.kind is EntityKind.SUBSCRIPTION:
                    raise ArgumentError("A subscription has no policies; put them on its topic.")
            level = self._policies.of_scope(path_key(path))
            if level.get(policy.name) == policy:
                return
            if policy.name not in level and len(level) >= self.profile.policies_per_level_max:
                raise QuotaExceeded(
                    f"'{path or 'the namespace'}' has {len(level)} policies, which is the maximum."
                )
            self._database.put_policy(path_key(path), policy)
            self._policies.put(path_key(path), policy)
            self._note(Change(ChangeKind.POLICIES, path))

    def delete_policy(self, path: str, name: str) -> None:
        """Remove a policy; a missing one is an error."""
        with self.batch():
            if self.policy(path, name) is None:
                raise EntityNotFound(f"There is no policy '{name}' on '{path or 'the namespace'}'.")
            self._database.delete_policy(path_key(path), name)
            self._policies.remove(path_key(path), name)
            self._note(Change(ChangeKind.POLICIES, path))

    # --- what is fixed when the namespace is made -------------------------------------------

    def fix_partitions(self, wished: int | None) -> None:
        """Fix how many partitions every entity has, where the profile requires that (CON-1)."""
        if self.profile.partitioning != "namespace":
            if wished is not None:
                raise ConfigError(
                    f"[namespace] partitions: the {self.profile.name} profile has no partitioned "
                    "namespaces; leave it out, or choose the profile premium."
                )
            return
        fixed = self._database.setting(PARTITIONS)
        if fixed is None and self._entities.records:
            fixed = "1"
        if fixed is None:
            fixed = self._fix(PARTITIONS, str(wished or 1))
            self._apply_fixed()
        if wished is not None and wished != int(fixed):
            raise ConfigError(
                f"[namespace] partitions: the namespace was created with {fixed} and cannot "
                f"have {wished}: the number is fixed. Restore the value, or start with an empty "
                "directory."
            )

    def fix_lock_prefix(self) -> None:
        """Choose the prefix of all lock tokens, once, so that tokens outlive a restart."""
        if self._database.setting(LOCK_PREFIX) is None:
            self._fix(LOCK_PREFIX, str(secrets.randbits(32)))

    def _fix(self, name: str, value: str) -> str:
        """A change like any other: a copy of the catalog without it counts as older. Returns what
        is fixed, by this node or by another that starts at the same time."""
        with self.identify() as identity:
            if (fixed := self._database.setting(name)) is None:
                self._database.put_setting(name, value)
                identity.advance()
        return fixed or value

    @property
    def lock_prefix(self) -> int:
        """The prefix of all lock tokens."""
        return int(self._database.setting(LOCK_PREFIX) or 0)

    def _apply_fixed(self) -> None:
        """Apply the fixed settings, which another process may have written meanwhile."""
        partitions = int(self._database.setting(PARTITIONS) or 1)
        if self.profile.partitioning == "namespace":
            self.profile = with_partitions(self.profile, partitions)

    # --- identity ---------------------------------------------------------------------------

    @property
    def identity(self) -> IdentityRows:
        """The catalog's identity; written by `identify` and the offline verbs."""
        return self._database.identity

    @contextmanager
    def identify(self) -> Iterator[IdentityRows]:
        """Write the identity: all of the block is durable at its end, or nothing."""
        with self._database.transaction():
            yield self._database.identity
            generation = self._database.identity.generation()
        self.generation = generation

    def keep_copy(self, file: Path) -> None:
        """Keep a copy of the catalog in another file, in case this one is damaged."""
        self._database.copy_to(file)

    def dropped(self, fragment_id: int) -> None:
        """A store has dropped a deleted fragment for good: its tombstone is no longer needed."""
        self._dropped.add(fragment_id)

    def take_dropped(self) -> frozenset[int]:
        """Fragments that stores have dropped, for the next writer of the catalog."""
        dropped, self._dropped = frozenset(self._dropped), set()
        return dropped

    # --- idle time ------------------------------------------------------------------------

    def idle_times(self) -> dict[int, int]:
        """By entity id, how long it had been idle when that was last written (IDL-1)."""
        return self._database.idle_times()

    def put_idle_times(self, idle_ms: Mapping[int, int]) -> None:
        """Write how long entities have been idle; this is not in the change feed."""
        with self._database.transaction():
            for entity_id, time_ms in idle_ms.items():
                self._database.put_idle_time(entity_id, time_ms)

    # --- change feed and batches ----------------------------------------------------------

    def subscribe(self, listener: ChangeListener) -> None:
        """Call `listener` after each durable change."""
        self._listeners.append(listener)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All changes of the block become durable and are reported together, or none is made.

        The block sees what other processes have written before, and they cannot write meanwhile.
        """
        if self._pending is not None:
            yield
            return
        pending: list[Change] = []
        generation = 0
        try:
            with self._database.transaction():
                self.refresh()
                self._pending = pending
                yield
                check_forwarding(pending, self.lookup)
                if pending:
                    generation = self._database.identity.advance()
                    self._database.identity.unbury(self._dropped)
                # No other process writes meanwhile, so everything in the log is known here.
                last = self._database.changes.last()
        except BaseException:
            self._undo(pending)
            raise
        finally:
            self._pending = None
        self._database.changes.seen = last
        if pending:
            self.generation = generation
            self._dropped.clear()
        self._notify(pending)

    def _undo(self, changes: Sequence[Change]) -> None:
        """Return to what is on disk: the changes were not made."""
        if any(change.kind is ChangeKind.DELETED for change in changes):
            self._load()  # The order of the entities is lost.
            return
        for change in reversed(changes):
            if change.before is not None:
                self._entities.put(change.before)
            elif change.after is not None:
                self._entities.remove(change.after)
            else:
                self._read_policies(path_key(change.path))

    def refresh(self) -> list[Change]:
        """Read what other processes have written, and report it; returns the changes."""
        if not self._database.has_news():
            return []
        try:
            with self._database.snapshot():
                self._apply_fixed()
                new = self._database.changes.new_changes()
                changes = self._read_all_again() if new is None else self._read_new(new)
        except BaseException:
            self._database.look_again()
            raise
        self._notify(changes)
        return changes

    def _read_new(self, new: NewChanges) -> list[Change]:
        """Read what the log names; entities first, since their policies belong to them."""
        before = [r for r in map(self._entities.by_id, new.entity_ids) if r is not None]
        after = [r for number in new.entity_ids for r in self._read_entities(number)]
        changes = list(differences(before, after))
        for change in changes:
            if change.after is not None:
                self._entities.put(change.after)
            elif change.before is not None:
                self._forget(change.before)
        policies = {scope: dict(self._policies.of_scope(scope)) for scope in new.scopes}
        for scope in new.scopes:
            self._read_policies(scope)
        found = {scope: self._policies.of_scope(scope) for scope in new.scopes}
        if new.last != self._database.changes.seen:
            self._database.changes.seen = new.last
            self.generation = self._database.identity.generation()
        return [*changes, *policy_differences(policies, found)]

    def _read_all_again(self) -> list[Change]:
        """Compare everything: too much has changed since the last reading."""
        entities, policies = self._entities, self._policies
        self._read()
        return [
            *differences(entities.records, self._entities.records),
            *policy_differences(policies.scopes, self._policies.scopes),
        ]

    def _notify(self, changes: Iterable[Change]) -> None:
        for change in changes:
            for listener in tuple(self._listeners):
                listener(change)

    def _note(self, change: Change) -> None:
        assert self._pending is not None
        self._pending.append(change)

    def _put_record(self, change: Change) -> None:
        assert change.after is not None
        self._entities.put(change.after)
        self._note(change)

    def _forget(self, record: EntityRecord) -> None:
        """An entity was deleted, with its policies."""
        self._entities.remove(record)
        self._policies.replace(path_key(record.path), ())

    # --- loading ------------------------------------------------------------------------

    def _load(self) -> None:
        with self._database.snapshot():
            self._apply_fixed()
            self._read()

    def _read(self) -> None:
        self._entities = EntityIndex(self._read_entities())
        self._policies = PolicyIndex(self._database.policies())
        self._database.changes.seen = self._database.changes.last()
        self.generation = self._database.identity.generation()

    def _read_entities(self, wanted: int | None = None) -> Iterator[EntityRecord]:
        """Every entity on disk, oldest first, or one."""
        placements: dict[int, list[Placement]] = {}
        for entity_id, fragment_id, store in self._database.fragments(wanted):
            placements.setdefault(entity_id, []).append(Placement(fragment_id, store))
        for entity_id, path, kind, spec, created_ms, updated_ms in self._database.entities(wanted):
            record = EntityRecord(
                entity_id=entity_id,
                path=path,
                kind=kind,
                spec=spec,
                fragments=tuple(placements.get(entity_id, ())),
                created_ms=created_ms,
                updated_ms=updated_ms,
            )
            self._check_placement(record)
            yield record

    def _read_policies(self, scope: str) -> None:
        self._policies.replace(scope, self._database.policies_of(scope))

    def _check_placement(self, record: EntityRecord) -> None:
        for _, store in record.fragments:
            if store >= self.stores:
                where = f"The entity '{record.path}' has a fragment in store {store}, but"
                raise ConfigError(f"{where} the server has {self.stores}. Give it all its stores.")
