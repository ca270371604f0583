"""How a definition is prepared for writing: canonical path, and the spec adapted to the profile.

Owns what depends on the rest of the namespace: a subscription belongs to a topic and has as many
fragments as it, and where the profile decides on partitioning, an existing entity keeps its own. It
reads records and must never change anything. Called by the catalog before it writes.
"""

from dataclasses import replace

from partibus.control.catalog.entity_index import EntityIndex
from partibus.control.catalog.record import EntityRecord
from partibus.domain.address import parse_address, subscription_path
from partibus.domain.admission import admit, refuse_immutable_change
from partibus.domain.entity import EntitySpec, SubscriptionSpec, TopicSpec
from partibus.domain.errors import ArgumentError, EntityNotFound
from partibus.domain.limits import Profile
from partibus.domain.names import admit_path, admit_subscription_name
from partibus.rules.check import check_rule


def admit_new(
    index: EntityIndex, path: str, spec: EntitySpec, profile: Profile
) -> tuple[str, EntitySpec]:
    """The path in its canonical spelling, and the spec adapted to the profile."""
    if not isinstance(spec, SubscriptionSpec):
        admit_path(path, profile)
        return path, admit(spec, profile)
    address = parse_address(path)
    topic = index.find(address.entity.lower())
    if topic is None:
        raise EntityNotFound.named(address.entity)
    is_path = address.subscription is not None and path == path.strip("/")
    if not isinstance(topic.spec, TopicSpec) or not is_path:
        raise ArgumentError(f"'{path}' is not the path of a subscription of a topic.")
    assert address.subscription is not None
    admit_subscription_name(address.subscription, profile)
    spec = replace(spec, fragments=topic.spec.fragments)
    for rule in spec.rules:
        check_rule(rule)
    return subscription_path(topic.path, address.subscription), admit(spec, profile)


def admit_update(
    index: EntityIndex, before: EntityRecord, spec: EntitySpec, profile: Profile
) -> EntitySpec:
    """The new spec of an existing entity; fixed properties must stay (PRP-2)."""
    wanted = _without_wish(before.spec, spec, profile)
    _, admitted = admit_new(index, before.path, wanted, profile)
    admitted = _keep_fragments(before.spec, admitted, profile)
    refuse_immutable_change(before.spec, admitted)
    return admitted


def _without_wish(before: EntitySpec, after: EntitySpec, profile: Profile) -> EntitySpec:
    """An update repeats what an entity has, which the profile may no longer allow."""
    if (
        profile.partitioning == "per-entity"
        or isinstance(before, SubscriptionSpec)
        or isinstance(after, SubscriptionSpec)
        or (before.enable_partitioning, before.fragments)
        != (after.enable_partitioning, after.fragments)
    ):
        return after
    return replace(after, enable_partitioning=False, fragments=1)


def _keep_fragments(before: EntitySpec, after: EntitySpec, profile: Profile) -> EntitySpec:
    """Where the profile decides on partitioning, older entities keep what they have."""
    if (
        profile.partitioning == "per-entity"
        or isinstance(before, SubscriptionSpec)
        or isinstance(after, SubscriptionSpec)
    ):
        return after
    return replace(
        after, enable_partitioning=before.enable_partitioning, fragments=before.fragments
    )
