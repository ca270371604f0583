"""What the fragments of an entity must know of it, taken from the catalog.

Owns the translation of queues, topics and subscriptions into the spec that a fragment's machine
uses. Reads the catalog and must never change it. Called by the node, when an entity is started and
when it changes.
"""

from dataclasses import replace

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.address import parse_address
from partibus.domain.duration import DURATION_MAX_MS
from partibus.domain.entity import (
    EntitySpec,
    QueueSpec,
    SubscriptionSpec,
    TopicSpec,
    duplicate_window_ms,
    forwards,
    fragment_bytes_max,
)
from partibus.fragment.spec import FragmentSpec


def fragment_spec(record: EntityRecord, catalog: Catalog) -> FragmentSpec:
    """The entity's properties as each of its fragments applies them."""
    spec, path = record.spec, record.path
    if isinstance(spec, TopicSpec):
        return _of_topic(path, spec, catalog)
    if isinstance(spec, SubscriptionSpec):
        # Its messages count for its topic (ENT-5); the state of its sessions counts here.
        topic = catalog.entity(parse_address(path).entity).spec
        assert isinstance(topic, TopicSpec)
        return _of_receivable(path, spec, topic, catalog)
    own = _of_receivable(path, spec, spec, catalog)
    return replace(own, duplicate_window_ms=duplicate_window_ms(spec))


def _of_topic(path: str, spec: TopicSpec, catalog: Catalog) -> FragmentSpec:
    return FragmentSpec(
        lock_duration_ms=0,
        max_delivery_count=0,
        default_ttl_ms=_default_ttl_ms(spec),
        size_bytes_max=fragment_bytes_max(spec, catalog.profile),
        duplicate_window_ms=duplicate_window_ms(spec),
        is_partitioned=spec.enable_partitioning,
        requires_match=spec.enable_filtering_messages_before_publishing,
        path=path,
    )


def _of_receivable(
    path: str, spec: QueueSpec | SubscriptionSpec, sized: QueueSpec | TopicSpec, catalog: Catalog
) -> FragmentSpec:
    """A queue or a subscription; `sized` has its size limit and its partitions."""
    return FragmentSpec(
        lock_duration_ms=spec.lock_duration_ms,
        max_delivery_count=spec.max_delivery_count,
        counts_dead_letters=catalog.profile.counts_dead_letters,
        default_ttl_ms=_default_ttl_ms(spec),
        dead_letter_on_expiry=spec.dead_lettering_on_message_expiration,
        size_bytes_max=fragment_bytes_max(sized, catalog.profile),
        is_partitioned=sized.enable_partitioning,
        requires_session=spec.requires_session,
        forward_to=spec.forward_to,
        forward_dead_letters_to=spec.forward_dead_lettered_messages_to,
        path=path,
    )


def _default_ttl_ms(spec: EntitySpec) -> int:
    ttl_ms = spec.default_message_time_to_live_ms
    return 0 if ttl_ms >= DURATION_MAX_MS or forwards(spec) else ttl_ms
