"""The catalog: which entities and policies the namespace has, and who hears of changes.

Owns entity definitions, their numeric ids, the placement of fragments on stores, and the
change feed. Answers come from memory, writes go to SQLite first and are durable when a call
returns. It stands beside the data path and never in it: fragments hold messages, the
catalog only says that they exist. Called by the server, the gateway and the admin surfaces,
all on one thread.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from partibus.control.catalog_database import CatalogDatabase
from partibus.control.catalog_identity import CatalogIdentity
from partibus.control.differences import differences, policy_differences
from partibus.control.policies import AccessPolicy, check_policy
from partibus.control.quotas import check_filters, check_forwarding, check_room
from partibus.control.record import Change, ChangeKind, ChangeListener, EntityRecord, Placement
from partibus.domain.address import covers, parse_address, path_key, subscription_path
from partibus.domain.admission import admit, refuse_immutable_change
from partibus.domain.clock import Clock, SystemClock
from partibus.domain.entity import (
    EntityKind,
    EntitySpec,
    QueueSpec,
    SubscriptionSpec,
    TopicSpec,
    kind_of,
)
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    ConfigError,
    EntityExists,
    EntityNotFound,
    QuotaExceeded,
)
from partibus.domain.limits import SELFHOST, Profile, with_partitions
from partibus.domain.names import admit_path, admit_subscription_name
from partibus.rules.check import check_rule

PARTITIONS: Final = "partitions"
"""The setting that fixes the number of partitions of every entity."""

_log: Final = logging.getLogger(__name__)

__all__ = ["Catalog", "Change", "ChangeKind", "ChangeListener", "EntityRecord", "Placement"]


class Catalog:
    """The namespace's entities and policies, on disk (`file`) or in memory (`None`)."""

    def __init__(
        self,
        file: Path | None = None,
        *,
        profile: Profile = SELFHOST,
        stores: int = 1,
        clock: Clock | None = None,
    ) -> None:
        assert stores >= 1
        self.profile = profile
        self.stores = stores
        self._clock = clock if clock is not None else SystemClock()
        self._database = CatalogDatabase(file)
        self._records: dict[str, EntityRecord] = {}
        self._policies: dict[str, dict[str, AccessPolicy]] = {}
        self._by_policy_name: dict[str, list[tuple[str, AccessPolicy]]] | None = None
        self._listeners: list[ChangeListener] = []
        self._pending: list[Change] | None = None
        self._dropped: set[int] = set()
        """Fragments that their store has dropped: their tombstones go with the next write."""
        self.generation = 0
        """How many changes the namespace has seen, as far as this process knows."""
        try:
            self._database.has_news()
            self._load()
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Let go of the database; only tombstones may be waiting to be removed."""
        try:
            if self._dropped:
                with self._database.transaction():
                    self._remove_tombstones()
        except BusError:
            _log.info("tombstones remain in the catalog; the next start removes them")
        finally:
            self._database.close()

    # --- reading ------------------------------------------------------------------------

    def lookup(self, path: str) -> EntityRecord | None:
        """The entity of that path in any case; a subscription is `topic/Subscriptions/name`."""
        return self._records.get(path.lower())

    def entity(self, path: str) -> EntityRecord:
        """The entity of that path; a missing one is an error."""
        record = self.lookup(path)
        if record is None:
            raise EntityNotFound.named(path)
        return record

    def entities(self, kind: EntityKind | None = None) -> tuple[EntityRecord, ...]:
        """Every entity, or those of one kind, oldest first."""
        return tuple(r for r in self._records.values() if kind is None or r.kind is kind)

    def subscriptions(self, topic: str) -> tuple[EntityRecord, ...]:
        """The subscriptions of a topic, oldest first."""
        scope = f"{path_key(topic)}/subscriptions"
        return tuple(r for r in self._records.values() if covers(scope, path_key(r.path)))

    def policy(self, path: str, name: str) -> AccessPolicy | None:
        """The policy of that name on an entity, or on the namespace when `path` is ""."""
        return self._policies.get(path_key(path), {}).get(name)

    def policies(self, path: str = "") -> tuple[AccessPolicy, ...]:
        """The policies of an entity, or of the namespace when `path` is ""."""
        return tuple(self._policies.get(path_key(path), {}).values())

    def policies_named(self, name: str) -> tuple[tuple[str, AccessPolicy], ...]:
        """(scope in lower case, policy) wherever a policy of that name sits."""
        if self._by_policy_name is None:
            self._by_policy_name = self._index_policies()
        return tuple(self._by_policy_name.get(name, ()))

    # --- entities -----------------------------------------------------------------------

    def create(self, path: str, spec: EntitySpec) -> EntityRecord:
        """A new entity with its fragments; a used name is an error (ENT-9)."""
        with self.batch():
            path, admitted = self._admit(path, spec)
            if self.lookup(path) is not None:
                raise EntityExists(f"An entity named '{path}' exists already; choose another name.")
            check_room(self._records.values(), path, admitted, self.profile)
            now_ms = self._clock.now_ms()
            entity_id = self._database.insert_entity(
                path, path_key(path), kind_of(admitted), admitted, now_ms
            )
            record = EntityRecord(
                entity_id=entity_id,
                path=path,
                kind=kind_of(admitted),
                spec=admitted,
                fragments=self._place(entity_id, path, admitted),
                created_ms=now_ms,
                updated_ms=now_ms,
            )
            self._put_record(Change(ChangeKind.CREATED, path, None, record))
        return record

    def recover(self, path: str, spec: QueueSpec, fragment_id: int, store: int) -> EntityRecord:
        """A queue for a fragment that a store holds and no entity has; a used name is extended."""
        with self.batch():
            admitted = admit(spec, self.profile)
            name, count = path, 1
            while self.lookup(name) is not None:
                count += 1
                name = f"{path}-{count}"
            now_ms = self._clock.now_ms()
            kind = kind_of(admitted)
            entity_id = self._database.insert_entity(name, path_key(name), kind, admitted, now_ms)
            self._database.insert_known_fragment(entity_id, fragment_id, store)
            record = EntityRecord(
                entity_id=entity_id,
                path=name,
                kind=kind,
                spec=admitted,
                fragments=(Placement(fragment_id, store),),
                created_ms=now_ms,
                updated_ms=now_ms,
            )
            self._put_record(Change(ChangeKind.CREATED, name, None, record))
        return record

    def _place(self, entity_id: int, path: str, spec: EntitySpec) -> tuple[Placement, ...]:
        """Fragments on the stores in turn; those of a subscription with those of its topic,
        since a message is stored once for all who share it."""
        beside: list[int | None] = [None] * spec.fragments
        if isinstance(spec, SubscriptionSpec):
            topic = self.entity(parse_address(path).entity)
            beside = [placement.store for placement in topic.fragments]
        return tuple(
            Placement(*self._database.insert_fragment(entity_id, ordinal, self.stores, store))
            for ordinal, store in enumerate(beside)
        )

    def update(self, path: str, spec: EntitySpec) -> EntityRecord:
        """Put `spec` in the place of the entity's own; fixed properties must stay (PRP-2)."""
        with self.batch():
            before = self.entity(path)
            _, admitted = self._admit(before.path, self._without_wish(before.spec, spec))
            admitted = self._keep_fragments(before.spec, admitted)
            refuse_immutable_change(before.spec, admitted)
            if admitted == before.spec:
                return before
            check_filters(self._records.values(), before.path, admitted, self.profile)
            now_ms = self._clock.now_ms()
            after = replace(before, spec=admitted, updated_ms=now_ms)
            self._database.update_entity(before.entity_id, admitted, now_ms)
            self._put_record(Change(ChangeKind.UPDATED, before.path, before, after))
        return after

    def delete(self, path: str) -> EntityRecord:
        """Remove an entity; a topic takes its subscriptions with it."""
        with self.batch():
            record = self.entity(path)
            doomed = [record]
            if record.kind is EntityKind.TOPIC:
                doomed = [*self.subscriptions(record.path), record]
            for gone in doomed:
                key = path_key(gone.path)
                self._database.delete_entity(gone.entity_id, key)
                del self._records[key]
                self._policies.pop(key, None)
                self._by_policy_name = None
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
            level = self._policies.get(path_key(path), {})
            if level.get(policy.name) == policy:
                return
            if policy.name not in level and len(level) >= self.profile.policies_per_level_max:
                raise QuotaExceeded(
                    f"'{path or 'the namespace'}' has {len(level)} policies, which is the most."
                )
            self._database.put_policy(path_key(path), policy)
            self._policies.setdefault(path_key(path), {})[policy.name] = policy
            self._by_policy_name = None
            self._note(Change(ChangeKind.POLICIES, path))

    def delete_policy(self, path: str, name: str) -> None:
        """Remove a policy; a missing one is an error."""
        with self.batch():
            level = self._policies.get(path_key(path), {})
            if name not in level:
                raise EntityNotFound(f"There is no policy '{name}' on '{path or 'the namespace'}'.")
            self._database.delete_policy(path_key(path), name)
            del level[name]
            self._by_policy_name = None
            self._note(Change(ChangeKind.POLICIES, path))

    # --- what is fixed when the namespace is made -------------------------------------------

    def fix_partitions(self, wished: int | None) -> None:
        """Settle how many partitions every entity has, where the profile asks that (CON-1)."""
        if self.profile.partitioning != "namespace":
            if wished is not None:
                raise ConfigError(
                    f"[namespace] partitions: the {self.profile.name} profile has no partitioned "
                    "namespaces; leave it out, or choose the profile premium."
                )
            return
        fixed = self._database.setting(PARTITIONS)
        if fixed is None and self._records:
            fixed = "1"
        if fixed is None:
            with self._database.transaction():
                self._database.put_setting(PARTITIONS, str(wished or 1))
            self._apply_partitions(wished or 1)
        elif wished is not None and wished != int(fixed):
            raise ConfigError(
                f"[namespace] partitions: the namespace was made with {fixed} and cannot have "
                f"{wished}: it is fixed at creation. Put it back, or begin in an empty directory."
            )

    def _apply_partitions(self, partitions: int) -> None:
        if self.profile.partitioning == "namespace":
            self.profile = with_partitions(self.profile, partitions)

    # --- identity ---------------------------------------------------------------------------

    @property
    def identity(self) -> CatalogIdentity:
        """What the catalog says of itself; written to by `identify` and the offline verbs."""
        return self._database.identity

    @contextmanager
    def identify(self) -> Iterator[CatalogIdentity]:
        """Write about identity: all of the block is durable at its end, or nothing."""
        with self._database.transaction():
            yield self._database.identity
            self.generation = self._database.identity.generation()

    def keep_copy(self, file: Path) -> None:
        """Have a file beside hold what the catalog does, for the day on which this is damaged."""
        self._database.copy_to(file)

    def dropped(self, fragment_id: int) -> None:
        """A store has dropped a deleted fragment for good: nobody need remember it."""
        self._dropped.add(fragment_id)

    def _remove_tombstones(self) -> None:
        self._database.identity.unbury(self._dropped)

    # --- idle time ------------------------------------------------------------------------

    def idle_times(self) -> dict[int, int]:
        """By entity id, for how long nobody had used it as far as was written (IDL-1)."""
        return self._database.idle_times()

    def put_idle_times(self, idle_ms: Mapping[int, int]) -> None:
        """Write for how long entities have been idle; nobody is told."""
        with self._database.transaction():
            for entity_id, time_ms in idle_ms.items():
                self._database.put_idle_time(entity_id, time_ms)

    # --- change feed and batches ----------------------------------------------------------

    def subscribe(self, listener: ChangeListener) -> Callable[[], None]:
        """Call `listener` after each durable change; the answer ends that."""
        self._listeners.append(listener)

        def unsubscribe() -> None:
            self._listeners.remove(listener)

        return unsubscribe

    @contextmanager
    def batch(self) -> Iterator[None]:
        """All changes of the block become durable and heard of together, or none is made.

        The block sees what other processes have written before it, and they write nothing
        meanwhile."""
        if self._pending is not None:
            yield
            return
        pending: list[Change] = []
        try:
            with self._database.transaction():
                self.refresh()
                self._pending = pending
                yield
                check_forwarding(pending, self.lookup)
                if pending:
                    self.generation = self._database.identity.advance()
                    self._remove_tombstones()
        except BaseException:
            if pending:
                self._load()
            raise
        finally:
            self._pending = None
        if pending:
            self._dropped.clear()
        self._tell(pending)

    def refresh(self) -> list[Change]:
        """Take over what other processes have written, and tell of it; answers the changes."""
        if not self._database.has_news():
            return []
        records, policies = self._records, self._policies
        self._load()
        changes = [
            *differences(records, self._records),
            *policy_differences(policies, self._policies),
        ]
        self._tell(changes)
        return changes

    def _tell(self, changes: Iterable[Change]) -> None:
        for change in changes:
            for listener in tuple(self._listeners):
                listener(change)

    def _note(self, change: Change) -> None:
        assert self._pending is not None
        self._pending.append(change)

    def _put_record(self, change: Change) -> None:
        assert change.after is not None
        self._records[path_key(change.path)] = change.after
        self._note(change)

    # --- what only the whole namespace can tell -------------------------------------------

    def _admit(self, path: str, spec: EntitySpec) -> tuple[str, EntitySpec]:
        """The path in its canonical spelling, and the spec as the profile makes it."""
        if not isinstance(spec, SubscriptionSpec):
            admit_path(path, self.profile)
            return path, admit(spec, self.profile)
        address = parse_address(path)
        topic = self.entity(address.entity)
        is_path = address.subscription is not None and path == path.strip("/")
        if not isinstance(topic.spec, TopicSpec) or not is_path:
            raise ArgumentError(f"'{path}' is not the path of a subscription of a topic.")
        assert address.subscription is not None
        admit_subscription_name(address.subscription, self.profile)
        spec = replace(spec, fragments=topic.spec.fragments)
        for rule in spec.rules:
            check_rule(rule)
        return subscription_path(topic.path, address.subscription), admit(spec, self.profile)

    def _without_wish(self, before: EntitySpec, after: EntitySpec) -> EntitySpec:
        """An update hands back what an entity has, which the profile may not give any more."""
        if (
            self.profile.partitioning == "per-entity"
            or isinstance(before, SubscriptionSpec)
            or isinstance(after, SubscriptionSpec)
            or (before.enable_partitioning, before.fragments)
            != (after.enable_partitioning, after.fragments)
        ):
            return after
        return replace(after, enable_partitioning=False, fragments=1)

    def _keep_fragments(self, before: EntitySpec, after: EntitySpec) -> EntitySpec:
        """Where the profile decides on partitioning, older entities keep what they have."""
        if (
            self.profile.partitioning == "per-entity"
            or isinstance(before, SubscriptionSpec)
            or isinstance(after, SubscriptionSpec)
        ):
            return after
        return replace(
            after, enable_partitioning=before.enable_partitioning, fragments=before.fragments
        )

    # --- loading ------------------------------------------------------------------------

    def _load(self) -> None:
        with self._database.snapshot():
            # Another process may have fixed it since this one opened the file.
            self._apply_partitions(int(self._database.setting(PARTITIONS) or 1))
            self._read()

    def _read(self) -> None:
        placements: dict[int, list[Placement]] = {}
        for entity_id, fragment_id, store in self._database.fragments():
            placements.setdefault(entity_id, []).append(Placement(fragment_id, store))
        records: dict[str, EntityRecord] = {}
        for entity_id, path, kind, spec, created_ms, updated_ms in self._database.entities():
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
            records[path_key(path)] = record
        policies: dict[str, dict[str, AccessPolicy]] = {}
        for scope, policy in self._database.policies():
            policies.setdefault(scope, {})[policy.name] = policy
        self._records, self._policies = records, policies
        self.generation = self._database.identity.generation()
        self._by_policy_name = None

    def _check_placement(self, record: EntityRecord) -> None:
        for placement in record.fragments:
            if placement.store >= self.stores:
                raise ConfigError(
                    f"The entity '{record.path}' has a fragment in store {placement.store}, but "
                    f"the server has {self.stores} store(s), numbered from 0. Start it with all "
                    "the stores it had."
                )

    def _index_policies(self) -> dict[str, list[tuple[str, AccessPolicy]]]:
        index: dict[str, list[tuple[str, AccessPolicy]]] = {}
        for scope, level in self._policies.items():
            for policy in level.values():
                index.setdefault(policy.name, []).append((scope, policy))
        return index
