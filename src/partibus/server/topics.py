"""Topics in this process: their fragments, joined with those of their subscriptions.

Owns the selectors, one for each topic, and which subscription's fragment belongs to which topic's.
Both are in the same store, so both are here or neither is. It follows the catalog changes that the
node reports and must never touch messages. Called only by the node.
"""

from collections.abc import Callable, Iterable

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.address import parse_address, path_key
from partibus.domain.entity import EntityKind
from partibus.fragment.machine import Machine
from partibus.fragment.topics.state import Topic
from partibus.gateway.selection import TopicSelector


class Topics:
    """The topics that this process has fragments of."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._selectors: dict[str, TopicSelector] = {}
        self._fragments: dict[tuple[str, int], Topic] = {}

    def topic(self, record: EntityRecord, index: int) -> Topic | None:
        """What the fragment of a topic needs besides its state; None for other entities."""
        if record.kind is not EntityKind.TOPIC:
            return None
        key = path_key(record.path)
        selector = self._selectors.get(key)
        if selector is None:
            selector = self._selectors[key] = TopicSelector(self._subscriptions(record.path))
        topic = self._fragments[key, index] = Topic(index, selector)
        return topic

    def _subscriptions(self, path: str) -> Callable[[], Iterable[EntityRecord]]:
        return lambda: self._catalog.subscriptions(path)

    def join(self, record: EntityRecord, index: int, machine: Machine) -> None:
        """A fragment of a subscription is served: its topic fills it from now on (ENT-3)."""
        if record.kind is EntityKind.SUBSCRIPTION:
            topic = self._fragments[_topic_key(record), index]
            topic.subscriptions[record.entity_id] = machine.state

    def part(self, record: EntityRecord, index: int) -> None:
        """A fragment is no longer served here: its lane has moved."""
        key = _topic_key(record)
        if record.kind is EntityKind.TOPIC:
            self._fragments.pop((key, index), None)
        elif (key, index) in self._fragments:
            self._fragments[key, index].subscriptions.pop(record.entity_id, None)

    def changed(self, record: EntityRecord) -> None:
        """A subscription was created, changed or deleted: its topic selects by the new rules."""
        selector = self._selectors.get(_topic_key(record))
        if record.kind is EntityKind.SUBSCRIPTION and selector is not None:
            selector.changed()

    def leave(self, record: EntityRecord) -> None:
        """An entity was deleted: a subscription gets no more copies."""
        key = _topic_key(record)
        for index in range(len(record.fragments)):
            self.part(record, index)
        if record.kind is EntityKind.TOPIC:
            self._selectors.pop(key, None)
        self.changed(record)


def _topic_key(record: EntityRecord) -> str:
    return path_key(parse_address(record.path).entity)
