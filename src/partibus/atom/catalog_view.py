"""Reading: entities and rules as entries, single or in pages.

Owns the conversion of the catalog's records to entries, and the paging. It must never change
anything or check rights. Counts are requested once per answer, for the entities in it. Called by
the application, and by the operations for what they answer.
"""

from collections.abc import Sequence
from typing import TypeVar

from partibus.atom.counts import EMPTY, CountsSource, EntityCounts
from partibus.atom.descriptions import write_description
from partibus.atom.documents import Caller, Entry, Page, entry_document, feed_document
from partibus.atom.facts import common_facts, namespace_description, sized_facts, topic_facts
from partibus.atom.resource import Resource, ResourceKind, rule_path
from partibus.atom.rules import write_rule
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.address import parse_address
from partibus.domain.clock import Clock
from partibus.domain.entity import EntityKind, RuleSpec, SubscriptionSpec, TopicSpec, rules_by_name
from partibus.domain.errors import EntityNotFound
from partibus.domain.quantities import moment_text

_Item = TypeVar("_Item")


class CatalogView:
    """Read access to the namespace."""

    def __init__(self, catalog: Catalog, counts: CountsSource, clock: Clock) -> None:
        self._catalog = catalog
        self._counts = counts
        self._clock = clock

    # --- finding --------------------------------------------------------------------------

    def entity(self, resource: Resource) -> EntityRecord:
        """The queue, topic or subscription of a path; a missing one is an error (ERR-1)."""
        return self._catalog.entity(resource.entity_path)

    def topic(self, resource: Resource) -> EntityRecord:
        """The topic whose subscriptions are requested."""
        record = self._catalog.entity(resource.entity)
        if record.kind is not EntityKind.TOPIC:
            raise EntityNotFound.named(resource.path)
        return record

    def subscription(self, resource: Resource) -> tuple[EntityRecord, SubscriptionSpec]:
        """The subscription whose rules are requested."""
        record = self._catalog.entity(resource.entity_path)
        assert isinstance(record.spec, SubscriptionSpec)
        return record, record.spec

    # --- one ------------------------------------------------------------------------------

    async def show(self, resource: Resource, caller: Caller) -> str:
        """One resource as a document."""
        if resource.kind is ResourceKind.NAMESPACE:
            return entry_document(self._namespace(caller.namespace_name), caller)
        if resource.kind is ResourceKind.RULE:
            record, spec = self.subscription(resource)
            rule = find_rule(spec, resource.rule)
            if rule is None:
                raise EntityNotFound.named(resource.path)
            return self.rule_document(record, rule, caller)
        record = self.entity(resource)
        counts = await self._counts.entity_counts([record])
        return self.document(record, caller, counts.get(record.entity_id, EMPTY))

    def document(self, record: EntityRecord, caller: Caller, counts: EntityCounts = EMPTY) -> str:
        """An entity as a document; a new one is empty."""
        return entry_document(self._entry(record, counts, caller), caller)

    def rule_document(self, record: EntityRecord, rule: RuleSpec, caller: Caller) -> str:
        """A rule as a document."""
        return entry_document(_rule_entry(record, rule), caller)

    def _entry(self, record: EntityRecord, counts: EntityCounts, caller: Caller) -> Entry:
        spec = record.spec
        facts = common_facts(record, counts, self._catalog.policies(record.path), caller)
        if not isinstance(spec, SubscriptionSpec):
            facts |= sized_facts(spec, self._catalog.profile, caller)
        if isinstance(spec, TopicSpec):
            facts |= topic_facts(spec, self._catalog.subscriptions(record.path), caller)
        description = write_description(spec, facts)
        title = parse_address(record.path).subscription or record.path
        return Entry(record.path, title, record.created_ms, record.updated_ms, description)

    def _namespace(self, name: str) -> Entry:
        records = self._catalog.entities()
        now_ms = self._clock.now_ms()
        created_ms = min((record.created_ms for record in records), default=now_ms)
        updated_ms = max((record.updated_ms for record in records), default=now_ms)
        description = namespace_description(self._catalog.profile, name, created_ms, updated_ms)
        return Entry("$namespaceinfo", name, created_ms, updated_ms, description)

    # --- many -----------------------------------------------------------------------------

    async def list(self, resource: Resource, page: Page, caller: Caller) -> str:
        """A page of a list: rules by name (FLT-12), entities in the order of creation."""
        if resource.kind is ResourceKind.RULES:
            record, spec = self.subscription(resource)
            shown_rules = _cut(rules_by_name(spec), page)
            entries = [_rule_entry(record, rule) for rule in shown_rules]
            has_more = len(spec.rules) > page.skip + page.top
        else:
            records = self._listed(resource)
            shown = _cut(records, page)
            counts = await self._counts.entity_counts(shown)
            entries = [
                self._entry(record, counts.get(record.entity_id, EMPTY), caller) for record in shown
            ]
            has_more = len(records) > page.skip + page.top
        return feed_document(resource.path, entries, page, has_more, caller, self._clock.now_ms())

    def _listed(self, resource: Resource) -> Sequence[EntityRecord]:
        if resource.kind is ResourceKind.SUBSCRIPTIONS:
            return self._catalog.subscriptions(self.topic(resource).path)
        kind = EntityKind.QUEUE if resource.kind is ResourceKind.QUEUES else EntityKind.TOPIC
        return self._catalog.entities(kind)


def find_rule(spec: SubscriptionSpec, name: str) -> RuleSpec | None:
    """The rule with that name, in any case."""
    for rule in spec.rules:
        if rule.name.lower() == name.lower():
            return rule
    return None


def _cut(items: Sequence[_Item], page: Page) -> Sequence[_Item]:
    return items[page.skip : page.skip + page.top]


def _rule_entry(record: EntityRecord, rule: RuleSpec) -> Entry:
    """Rules have no timestamps of their own: those of their subscription are used."""
    address = parse_address(record.path)
    assert address.subscription is not None
    path = rule_path(address.entity, address.subscription, rule.name)
    description = write_rule(rule, moment_text(record.created_ms))
    return Entry(path, rule.name, record.created_ms, record.updated_ms, description)
