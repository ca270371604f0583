"""How a declared namespace is applied to an existing one.

What is missing is created, what differs is updated, fixed properties must match, and nothing is
deleted; all of it becomes durable at once or not at all. Refusals of the catalog get the file, line
and path of the declaration. Called by the server at its start.
"""

from dataclasses import replace

from partibus.control.access.policies import AccessPolicy, new_key
from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.quotas import check_forwarding
from partibus.control.catalog.record import Change, ChangeKind, EntityRecord
from partibus.control.declared.definitions import Definitions, EntityDefinition, PolicyDefinition
from partibus.control.declared.source import DefinitionSource
from partibus.domain.admission import admit_rule
from partibus.domain.entity import EntitySpec, SubscriptionSpec
from partibus.domain.errors import BusError
from partibus.domain.refusal import PropertyRefused
from partibus.rules.check import check_rule


def apply_definitions(catalog: Catalog, definitions: Definitions) -> None:
    """Create what is missing and update what differs, all or nothing."""
    source = definitions.source
    with catalog.batch():
        placed = [(one, _apply_entity(catalog, source, one)) for one in definitions.entities]
        for entity, record in placed:
            _check_targets(catalog, source, entity, record)
        for policy in definitions.policies:
            _apply_policy(catalog, source, policy)


def _apply_entity(
    catalog: Catalog, source: DefinitionSource, entity: EntityDefinition
) -> EntityRecord:
    before = catalog.lookup(entity.path)
    if isinstance(entity.spec, SubscriptionSpec):
        for place, rule in zip(entity.rule_places, entity.spec.rules, strict=False):
            try:
                admit_rule(rule)
                check_rule(rule)
            except PropertyRefused as error:
                raise source.property_error(place, error.property_name, error.reason) from error
    try:
        if before is None:
            return catalog.create(entity.path, entity.spec)
        return catalog.update(entity.path, _with_rules_kept(entity, before))
    except PropertyRefused as error:
        raise source.property_error(entity.where, error.property_name, error.reason) from error
    except BusError as error:
        raise source.error(entity.where, error.text) from error


def _with_rules_kept(entity: EntityDefinition, before: EntityRecord) -> EntitySpec:
    """Rules added by clients stay where the file declares none (FLT-10)."""
    spec = entity.spec
    if not isinstance(spec, SubscriptionSpec) or entity.rule_places:
        return spec
    if not isinstance(before.spec, SubscriptionSpec):
        return spec
    return replace(spec, rules=before.spec.rules)


def _check_targets(
    catalog: Catalog, source: DefinitionSource, entity: EntityDefinition, record: EntityRecord
) -> None:
    """Forward destinations may be declared later in the file than their sources (FWD-2)."""
    try:
        check_forwarding([Change(ChangeKind.UPDATED, record.path, None, record)], catalog.lookup)
    except PropertyRefused as error:
        raise source.property_error(entity.where, error.property_name, error.reason) from error


def _apply_policy(catalog: Catalog, source: DefinitionSource, policy: PolicyDefinition) -> None:
    """Write a declared policy; an undeclared secondary key stays as it is, or is generated."""
    known = catalog.policy(policy.scope, policy.name)
    secondary_key = policy.secondary_key
    if secondary_key is None:
        secondary_key = known.secondary_key if known is not None else new_key()
    wanted = AccessPolicy(policy.name, policy.key, secondary_key, policy.rights)
    try:
        catalog.put_policy(policy.scope, wanted)
    except BusError as error:
        raise source.error(policy.where, error.text) from error
