"""Entities as description elements, and description elements as specs.

Owns the order of elements, which the vendor's serializers require (amqp-contract 12.5), and which
element sets which field of a spec. `domain.admission` checks ranges, the catalog existence; rules
and policies have separate modules. Called by the operations.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from partibus.atom import reading
from partibus.atom.markup import INSTANCE, SERVICE_BUS, branch, leaf
from partibus.domain.duration import format_duration
from partibus.domain.entity import (
    IMMUTABLE_PROPERTIES,
    EntityKind,
    EntitySpec,
    QueueSpec,
    SubscriptionSpec,
    TopicSpec,
    kind_of,
)
from partibus.domain.errors import ArgumentError


class Form(NamedTuple):
    """How a value is read and written."""

    read: Callable[[str, str], object]
    write: Callable[[Any], str]


def write_boolean(value: bool) -> str:
    """true or false."""
    return "true" if value else "false"


TEXT: Final = Form(reading.read_text, str)
BOOLEAN: Final = Form(reading.read_boolean, write_boolean)
INTEGER: Final = Form(reading.read_integer, str)
DURATION: Final = Form(reading.read_duration, format_duration)
STATUS: Final = Form(reading.read_status, lambda status: str(status.value))


class Property(NamedTuple):
    """Which field of a spec an element sets."""

    field: str
    form: Form


_PROPERTIES: Final[Mapping[str, Property]] = {
    "LockDuration": Property("lock_duration_ms", DURATION),
    "MaxSizeInMegabytes": Property("max_size_in_megabytes", INTEGER),
    "RequiresDuplicateDetection": Property("requires_duplicate_detection", BOOLEAN),
    "RequiresSession": Property("requires_session", BOOLEAN),
    "DefaultMessageTimeToLive": Property("default_message_time_to_live_ms", DURATION),
    "DeadLetteringOnMessageExpiration": Property("dead_lettering_on_message_expiration", BOOLEAN),
    "DeadLetteringOnFilterEvaluationExceptions": Property(
        "dead_lettering_on_filter_evaluation_exceptions", BOOLEAN
    ),
    "DuplicateDetectionHistoryTimeWindow": Property(
        "duplicate_detection_history_time_window_ms", DURATION
    ),
    "MaxDeliveryCount": Property("max_delivery_count", INTEGER),
    "EnableBatchedOperations": Property("enable_batched_operations", BOOLEAN),
    "FilteringMessagesBeforePublishing": Property(
        "enable_filtering_messages_before_publishing", BOOLEAN
    ),
    "Status": Property("status", STATUS),
    "SupportOrdering": Property("support_ordering", BOOLEAN),
    "AutoDeleteOnIdle": Property("auto_delete_on_idle_ms", DURATION),
    "EnablePartitioning": Property("enable_partitioning", BOOLEAN),
    "EnableExpress": Property("enable_express", BOOLEAN),
    "ForwardTo": Property("forward_to", TEXT),
    "UserMetadata": Property("user_metadata", TEXT),
    "ForwardDeadLetteredMessagesTo": Property("forward_dead_lettered_messages_to", TEXT),
    "MaxMessageSizeInKilobytes": Property("max_message_size_in_kilobytes", INTEGER),
}
_ABSENT_WHEN_EMPTY: Final = ("ForwardTo", "ForwardDeadLetteredMessagesTo", "UserMetadata")

ORDER: Final[Mapping[EntityKind, tuple[str, ...]]] = {
    EntityKind.QUEUE: (
        "LockDuration",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DuplicateDetectionHistoryTimeWindow",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "SizeInBytes",
        "MessageCount",
        "IsAnonymousAccessible",
        "AuthorizationRules",
        "Status",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "SupportOrdering",
        "CountDetails",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "EntityAvailabilityStatus",
        "EnableExpress",
        "ForwardTo",
        "UserMetadata",
        "ForwardDeadLetteredMessagesTo",
        "MaxMessageSizeInKilobytes",
    ),
    EntityKind.TOPIC: (
        "DefaultMessageTimeToLive",
        "MaxSizeInMegabytes",
        "RequiresDuplicateDetection",
        "DuplicateDetectionHistoryTimeWindow",
        "EnableBatchedOperations",
        "SizeInBytes",
        "FilteringMessagesBeforePublishing",
        "IsAnonymousAccessible",
        "AuthorizationRules",
        "Status",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "SupportOrdering",
        "CountDetails",
        "SubscriptionCount",
        "SqlFilterCount",
        "CorrelationFilterCount",
        "AutoDeleteOnIdle",
        "EnablePartitioning",
        "EntityAvailabilityStatus",
        "EnableSubscriptionPartitioning",
        "EnableExpress",
        "UserMetadata",
        "MaxMessageSizeInKilobytes",
    ),
    EntityKind.SUBSCRIPTION: (
        "LockDuration",
        "RequiresSession",
        "DefaultMessageTimeToLive",
        "DeadLetteringOnMessageExpiration",
        "DeadLetteringOnFilterEvaluationExceptions",
        "MessageCount",
        "MaxDeliveryCount",
        "EnableBatchedOperations",
        "Status",
        "ForwardTo",
        "CreatedAt",
        "UpdatedAt",
        "AccessedAt",
        "CountDetails",
        "ForwardDeadLetteredMessagesTo",
        "AutoDeleteOnIdle",
        "EntityAvailabilityStatus",
        "UserMetadata",
    ),
}
NAMES: Final[Mapping[EntityKind, str]] = {
    EntityKind.QUEUE: "QueueDescription",
    EntityKind.TOPIC: "TopicDescription",
    EntityKind.SUBSCRIPTION: "SubscriptionDescription",
}
_KINDS: Final = {name: kind for kind, name in NAMES.items()}
_PLAIN: Final[Mapping[EntityKind, EntitySpec]] = {
    EntityKind.QUEUE: QueueSpec(),
    EntityKind.TOPIC: TopicSpec(),
    EntityKind.SUBSCRIPTION: SubscriptionSpec(),
}
DESCRIPTION_ATTRIBUTES: Final = {"xmlns": SERVICE_BUS, "xmlns:i": INSTANCE}


def described_kind(description: reading.Description, allowed: Iterable[EntityKind]) -> EntityKind:
    """The kind of entity that is described, which must fit the path."""
    kind = _KINDS.get(description.name)
    if kind is None or kind not in allowed:
        names = " or ".join(NAMES[kind] for kind in allowed)
        raise ArgumentError(f"The entry must hold a {names}, not '{description.name}'.")
    return kind


def read_spec(description: reading.Description, kind: EntityKind) -> EntitySpec:
    """A new entity's spec; missing elements have the vendor's default."""
    return _filled(_PLAIN[kind], description)


def read_update(description: reading.Description, before: EntitySpec) -> EntitySpec:
    """An updated spec: everything that can change is replaced (PRP-3), the rest is kept.

    Fixed properties are taken from the request, so that a change of them is refused (PRP-2).
    """
    plain = _PLAIN[kind_of(before)]
    kept: dict[str, Any] = {
        name: getattr(before, name)
        for name in IMMUTABLE_PROPERTIES
        if name in before.__dataclass_fields__
    }
    if isinstance(before, SubscriptionSpec):
        kept["rules"] = before.rules  # they have their own requests
    after = _filled(replace(plain, **kept), description)
    if isinstance(after, SubscriptionSpec) or after.enable_partitioning:
        return after
    return replace(after, fragments=1)


def _filled(spec: EntitySpec, description: reading.Description) -> EntitySpec:
    values: dict[str, Any] = {}
    for name in ORDER[kind_of(spec)]:
        known = property_of(spec, name)
        text = description.text_of(name) if known is not None else None
        if known is not None and text is not None:
            values[known.field] = known.form.read(name, text)
    return replace(spec, **values)


def property_of(spec: EntitySpec, name: str) -> Property | None:
    """The property for an element of this kind of entity, if there is one."""
    known = _PROPERTIES.get(name)
    return known if known is not None and known.field in spec.__dataclass_fields__ else None


def write_description(spec: EntitySpec, facts: Mapping[str, str]) -> str:
    """The description element; `facts` are the elements that are not properties, as markup."""
    kind = kind_of(spec)
    return branch(NAMES[kind], _elements(spec, kind, facts), DESCRIPTION_ATTRIBUTES)


def _elements(spec: EntitySpec, kind: EntityKind, facts: Mapping[str, str]) -> Iterable[str]:
    for name in ORDER[kind]:
        known = property_of(spec, name)
        if name in facts:
            yield facts[name]
        elif known is not None:
            value = getattr(spec, known.field)
            if value is None or (value == "" and name in _ABSENT_WHEN_EMPTY):
                continue
            yield leaf(name, known.form.write(value))
