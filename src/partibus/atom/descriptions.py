"""Entities as description elements, and description elements as specs.

Owns the order of elements, which the vendor's serializers require (amqp-contract 12.5), and their
text; `domain.entity_properties` has which element sets which field of a spec. `domain.admission`
checks ranges, the catalog existence; rules and policies have separate modules. Called by the
operations.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from partibus.atom import reading
from partibus.atom.markup import INSTANCE, SERVICE_BUS, branch, leaf
from partibus.domain.duration import format_duration
from partibus.domain.entity import SPECS, EntityKind, EntitySpec, SubscriptionSpec, kind_of
from partibus.domain.entity_properties import DESCRIPTIONS, FIXED_FIELDS, PROPERTIES, Form
from partibus.domain.errors import ArgumentError


class Text(NamedTuple):
    """How a value is read from the text of an element, and written."""

    read: Callable[[str, str], object]
    write: Callable[[Any], str]


def write_boolean(value: bool) -> str:
    """true or false."""
    return "true" if value else "false"


_TEXTS: Final[Mapping[Form, Text]] = {
    "text": Text(reading.read_text, str),
    "boolean": Text(reading.read_boolean, write_boolean),
    "integer": Text(reading.read_integer, str),
    "duration": Text(reading.read_duration, format_duration),
    "status": Text(reading.read_status, lambda status: str(status.value)),
}
_PROPERTIES: Final = {
    (EntityKind(kind), known.element): known for kind, all_ in PROPERTIES.items() for known in all_
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
NAMES: Final = {EntityKind(kind): name for kind, name in DESCRIPTIONS.items()}
_KINDS: Final = {name: kind for kind, name in NAMES.items()}
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
    return _filled(SPECS[kind](), description)


def read_update(description: reading.Description, before: EntitySpec) -> EntitySpec:
    """An updated spec: everything that can change is replaced (PRP-3), the rest is kept.

    Fixed properties are taken from the request, so that a change of them is refused (PRP-2).
    """
    plain = SPECS[kind_of(before)]()
    kept: dict[str, Any] = {
        name: getattr(before, name) for name in FIXED_FIELDS if name in before.__dataclass_fields__
    }
    if isinstance(before, SubscriptionSpec):
        kept["rules"] = before.rules  # they have their own requests
    after = _filled(replace(plain, **kept), description)
    if isinstance(after, SubscriptionSpec) or after.enable_partitioning:
        return after
    return replace(after, fragments=1)


def _filled(spec: EntitySpec, description: reading.Description) -> EntitySpec:
    kind = kind_of(spec)
    values: dict[str, Any] = {}
    for name in ORDER[kind]:
        known = _PROPERTIES.get((kind, name))
        text = description.text_of(name) if known is not None else None
        if known is not None and text is not None:
            values[known.field] = _TEXTS[known.form].read(name, text)
    return replace(spec, **values)


def write_description(spec: EntitySpec, facts: Mapping[str, str]) -> str:
    """The description element; `facts` are the elements that are not properties, as markup."""
    kind = kind_of(spec)
    return branch(NAMES[kind], _elements(spec, kind, facts), DESCRIPTION_ATTRIBUTES)


def _elements(spec: EntitySpec, kind: EntityKind, facts: Mapping[str, str]) -> Iterable[str]:
    for name in ORDER[kind]:
        known = _PROPERTIES.get((kind, name))
        if name in facts:
            yield facts[name]
        elif known is not None:
            value = getattr(spec, known.field)
            if value is None or (value == "" and name in _ABSENT_WHEN_EMPTY):
                continue
            yield leaf(name, _TEXTS[known.form].write(value))
