"""Checks that need the whole namespace: room for one more entity, rule or forward.

Owns the counts of section 22 and EMU-8 against the profile, and whether forward destinations exist
and are valid. It reads records and must never change anything. Called by the catalog before it
writes.
"""

from collections.abc import Callable, Iterable
from typing import Final

from partibus.control.catalog.entity_index import EntityIndex
from partibus.control.catalog.record import Change, EntityRecord
from partibus.domain.address import parse_address, path_key
from partibus.domain.entity import (
    EntityKind,
    EntitySpec,
    FilterType,
    RuleSpec,
    SubscriptionSpec,
    TopicSpec,
)
from partibus.domain.errors import QuotaExceeded
from partibus.domain.limits import UNLIMITED, Profile
from partibus.domain.refusal import TargetNotFound

_SUBSCRIPTIONS: Final = 40503
_FILTERS: Final = {"SQL": 40501, "correlation": 40502}


class TopicFull(QuotaExceeded):
    """A topic has the maximum of subscriptions or filters; `sub_code` says which (ERR-20)."""

    def __init__(self, text: str, sub_code: int) -> None:
        self.sub_code = sub_code
        super().__init__(text)


def check_room(index: EntityIndex, path: str, spec: EntitySpec, profile: Profile) -> None:
    """Refuse a new entity beyond the limits of the profile (QTA-2, QTA-3, QTA-11)."""
    if isinstance(spec, SubscriptionSpec):
        _check_subscriptions(index, path, spec, profile)
        return
    if profile.entities_max == UNLIMITED:
        return
    if index.main_count >= profile.entities_max:
        raise QuotaExceeded(
            f"The namespace has {profile.entities_max} queues and topics, the maximum of the "
            f"{profile.name} profile; delete one, or choose another profile."
        )
    if not spec.enable_partitioning:
        return
    if index.partitioned_count >= profile.partitioned_entities_max:
        raise QuotaExceeded(
            f"The namespace has {profile.partitioned_entities_max} partitioned entities, the "
            f"maximum of the {profile.name} profile; create this one without partitioning."
        )


def _check_subscriptions(
    index: EntityIndex, path: str, spec: SubscriptionSpec, profile: Profile
) -> None:
    if profile.subscriptions_per_topic_max == UNLIMITED:
        return
    topic = parse_address(path).entity
    if len(index.subscriptions(topic)) >= profile.subscriptions_per_topic_max:
        raise TopicFull(
            f"The topic '{topic}' has {profile.subscriptions_per_topic_max} subscriptions, the "
            f"maximum of the {profile.name} profile; delete one first.",
            _SUBSCRIPTIONS,
        )
    check_filters(index, path, spec, profile)


def check_filters(index: EntityIndex, path: str, spec: EntitySpec, profile: Profile) -> None:
    """Refuse rules beyond the limit of a topic over all its subscriptions (QTA-12)."""
    if not isinstance(spec, SubscriptionSpec):
        return
    rules: list[RuleSpec] = list(spec.rules)
    for other in index.subscriptions(parse_address(path).entity):
        if path_key(other.path) != path_key(path) and isinstance(other.spec, SubscriptionSpec):
            rules += other.spec.rules
    correlations = sum(rule.filter_type is FilterType.CORRELATION for rule in rules)
    sqls = sum(rule.filter_type is FilterType.SQL for rule in rules)
    for count, most, kind in (
        (correlations, profile.correlation_filters_per_topic_max, "correlation"),
        (sqls, profile.sql_filters_per_topic_max, "SQL"),
    ):
        if count > most:
            raise TopicFull(
                f"A topic has at most {most} {kind} filters in the {profile.name} profile.",
                _FILTERS[kind],
            )


def check_forwarding(
    changes: Iterable[Change], lookup: Callable[[str], EntityRecord | None]
) -> None:
    """Destinations must exist when their source is created or updated (FWD-2).

    An entity may be its own destination, and entities may forward in a circle: the hop count ends
    such a loop (FWD-6).
    """
    for change in changes:
        if change.after is None or isinstance(change.after.spec, TopicSpec):
            continue
        spec = change.after.spec
        for name, target in (
            ("forward_to", spec.forward_to),
            ("forward_dead_lettered_messages_to", spec.forward_dead_lettered_messages_to),
        ):
            if target:
                _check_target(name, target, lookup(target))


def _check_target(name: str, target: str, record: EntityRecord | None) -> None:
    if record is None or record.kind is EntityKind.SUBSCRIPTION:
        raise TargetNotFound(name, f"there is no queue or topic named '{target}'; create it first.")
