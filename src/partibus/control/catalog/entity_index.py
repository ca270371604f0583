"""The entities of the namespace in memory, indexed.

Owns the records by path and by id, the subscriptions of each topic, and the counts that quotas and
placement need. Everything is updated record by record, so that the cost of a change does not depend
on the number of entities. It must never decide anything; only the catalog writes it.
"""

from collections.abc import Collection, Iterable, Mapping

from partibus.control.catalog.record import EntityRecord
from partibus.domain.address import parse_address, path_key
from partibus.domain.entity import SubscriptionSpec


class EntityIndex:
    """All entities, oldest first."""

    __slots__ = (
        "_by_id",
        "_by_key",
        "_fragments",
        "_subscription_count",
        "_subscriptions",
        "partitioned_count",
    )

    def __init__(self, records: Iterable[EntityRecord] = ()) -> None:
        self._by_key: dict[str, EntityRecord] = {}
        self._by_id: dict[int, EntityRecord] = {}
        self._subscriptions: dict[str, dict[str, EntityRecord]] = {}
        self._subscription_count = 0
        self._fragments: dict[int, int] = {}
        self.partitioned_count = 0
        """Queues and topics with partitions."""
        for record in records:
            self.put(record)

    # --- reading ----------------------------------------------------------------------------

    def find(self, key: str) -> EntityRecord | None:
        """The entity with that path in lower case."""
        return self._by_key.get(key)

    def by_id(self, entity_id: int) -> EntityRecord | None:
        """The entity with that id."""
        return self._by_id.get(entity_id)

    @property
    def records(self) -> Collection[EntityRecord]:
        """Every entity, oldest first."""
        return self._by_key.values()

    def subscriptions(self, topic: str) -> Collection[EntityRecord]:
        """The subscriptions of a topic, oldest first."""
        return self._subscriptions.get(path_key(topic), {}).values()

    @property
    def main_count(self) -> int:
        """How many queues and topics there are."""
        return len(self._by_key) - self._subscription_count

    @property
    def fragments_of_stores(self) -> Mapping[int, int]:
        """How many fragments each store has; a store without any may be missing."""
        return self._fragments

    # --- writing ----------------------------------------------------------------------------

    def put(self, record: EntityRecord) -> None:
        """A new entity, or a new record of an existing one."""
        key = path_key(record.path)
        before = self._by_key.get(key)
        if before is not None:
            self._count(before, -1)
        self._by_key[key] = record
        self._by_id[record.entity_id] = record
        if isinstance(record.spec, SubscriptionSpec):
            self._subscriptions.setdefault(_topic_key(record), {})[key] = record
        self._count(record, 1)

    def remove(self, record: EntityRecord) -> None:
        """An entity was deleted."""
        key = path_key(record.path)
        del self._by_key[key]
        del self._by_id[record.entity_id]
        if isinstance(record.spec, SubscriptionSpec):
            topic = _topic_key(record)
            of_topic = self._subscriptions[topic]
            del of_topic[key]
            if not of_topic:
                del self._subscriptions[topic]
        self._count(record, -1)

    def _count(self, record: EntityRecord, step: int) -> None:
        for placement in record.fragments:
            store = placement.store
            self._fragments[store] = self._fragments.get(store, 0) + step
        spec = record.spec
        if isinstance(spec, SubscriptionSpec):
            self._subscription_count += step
        elif spec.enable_partitioning:
            self.partitioned_count += step


def _topic_key(record: EntityRecord) -> str:
    return path_key(parse_address(record.path).entity)
