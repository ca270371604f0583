"""The requested properties of an entity: frozen specs with the vendor's defaults (PRP-1).

Owns the specs of queues, topics, subscriptions and rules. `domain.entity_properties` has the names
that files and clients use, `domain.admission` checks the values, the catalog stores them. Field
names are the vendor's in snake case, with the unit last where the vendor writes a duration.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from partibus.domain.duration import DURATION_MAX_MS
from partibus.domain.limits import KILOBYTE, MINUTE_MS, SECOND_MS, Profile
from partibus.domain.property_value import PropertyValue

MEGABYTE: Final = 1024 * KILOBYTE
DEFAULT_LOCK_DURATION_MS: Final = MINUTE_MS
DEFAULT_MAX_DELIVERY_COUNT: Final = 10
DEFAULT_SIZE_MEGABYTES: Final = 1024
DEFAULT_DUPLICATE_WINDOW_MS: Final = 600 * SECOND_MS
DEFAULT_RULE_NAME: Final = "$Default"


class EntityKind(Enum):
    """The kind of entity at a path."""

    QUEUE = "queue"
    TOPIC = "topic"
    SUBSCRIPTION = "subscription"


class EntityStatus(Enum):
    """What an entity allows (STS-1); the last five only the system sets (STS-4)."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"
    CREATING = "Creating"
    DELETING = "Deleting"
    RENAMING = "Renaming"
    RESTORING = "Restoring"
    UNKNOWN = "Unknown"

    @property
    def allows_send(self) -> bool:
        """Whether messages may be sent to the entity."""
        return self in (EntityStatus.ACTIVE, EntityStatus.RECEIVE_DISABLED)

    @property
    def allows_receive(self) -> bool:
        """Whether messages may be received from the entity."""
        return self in (EntityStatus.ACTIVE, EntityStatus.SEND_DISABLED)


class FilterType(Enum):
    """The kinds of filter of a rule (FLT-7)."""

    SQL = "Sql"
    CORRELATION = "Correlation"
    TRUE = "True"
    FALSE = "False"


@dataclass(slots=True, frozen=True, kw_only=True)
class CorrelationFilter:
    """Equality conditions, all of which must hold (COR-1)."""

    content_type: str | None = None
    correlation_id: str | None = None
    label: str | None = None
    message_id: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    session_id: str | None = None
    to: str | None = None
    properties: dict[str, PropertyValue] = field(default_factory=dict)


@dataclass(slots=True, frozen=True, kw_only=True)
class RuleSpec:
    """A named filter with an optional action (FLT-1), and the values of their @names (SQL-12)."""

    name: str = DEFAULT_RULE_NAME
    filter_type: FilterType = FilterType.TRUE
    sql_expression: str = "1=1"
    correlation: CorrelationFilter | None = None
    action: str = ""
    parameters: dict[str, PropertyValue] = field(default_factory=dict)
    action_parameters: dict[str, PropertyValue] = field(default_factory=dict)


@dataclass(slots=True, frozen=True, kw_only=True)
class QueueSpec:
    """A queue as requested by its owner."""

    lock_duration_ms: int = DEFAULT_LOCK_DURATION_MS
    max_delivery_count: int = DEFAULT_MAX_DELIVERY_COUNT
    max_size_in_megabytes: int = DEFAULT_SIZE_MEGABYTES
    max_message_size_in_kilobytes: int | None = None  # None: the profile's default
    default_message_time_to_live_ms: int = DURATION_MAX_MS
    dead_lettering_on_message_expiration: bool = False
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window_ms: int = DEFAULT_DUPLICATE_WINDOW_MS
    requires_session: bool = False
    enable_partitioning: bool = False
    fragments: int = 1
    auto_delete_on_idle_ms: int = DURATION_MAX_MS
    enable_batched_operations: bool = True
    enable_express: bool = False
    forward_to: str = ""
    forward_dead_lettered_messages_to: str = ""
    status: EntityStatus = EntityStatus.ACTIVE
    user_metadata: str = ""


@dataclass(slots=True, frozen=True, kw_only=True)
class TopicSpec:
    """A topic as requested by its owner."""

    max_size_in_megabytes: int = DEFAULT_SIZE_MEGABYTES
    max_message_size_in_kilobytes: int | None = None  # None: the profile's default
    default_message_time_to_live_ms: int = DURATION_MAX_MS
    requires_duplicate_detection: bool = False
    duplicate_detection_history_time_window_ms: int = DEFAULT_DUPLICATE_WINDOW_MS
    enable_partitioning: bool = False
    fragments: int = 1
    auto_delete_on_idle_ms: int = DURATION_MAX_MS
    enable_batched_operations: bool = True
    enable_express: bool = False
    enable_filtering_messages_before_publishing: bool = False
    support_ordering: bool = True
    status: EntityStatus = EntityStatus.ACTIVE
    user_metadata: str = ""

    @property
    def requires_session(self) -> bool:
        """Always False: sessions belong to subscriptions (SES-19)."""
        return False


@dataclass(slots=True, frozen=True, kw_only=True)
class SubscriptionSpec:
    """A subscription as requested by its owner; `fragments` follows its topic."""

    lock_duration_ms: int = DEFAULT_LOCK_DURATION_MS
    max_delivery_count: int = DEFAULT_MAX_DELIVERY_COUNT
    default_message_time_to_live_ms: int = DURATION_MAX_MS
    dead_lettering_on_message_expiration: bool = False
    dead_lettering_on_filter_evaluation_exceptions: bool = True
    requires_session: bool = False
    fragments: int = 1
    auto_delete_on_idle_ms: int = DURATION_MAX_MS
    enable_batched_operations: bool = True
    forward_to: str = ""
    forward_dead_lettered_messages_to: str = ""
    status: EntityStatus = EntityStatus.ACTIVE
    user_metadata: str = ""
    rules: tuple[RuleSpec, ...] = (RuleSpec(),)  # FLT-2

    @property
    def requires_duplicate_detection(self) -> bool:
        """Always False: duplicates are detected where messages enter, at the topic (DUP-7)."""
        return False


EntitySpec = QueueSpec | TopicSpec | SubscriptionSpec
SPECS: Final[dict[EntityKind, type[EntitySpec]]] = {
    EntityKind.QUEUE: QueueSpec,
    EntityKind.TOPIC: TopicSpec,
    EntityKind.SUBSCRIPTION: SubscriptionSpec,
}


def kind_of(spec: EntitySpec) -> EntityKind:
    """The kind of entity that a spec describes."""
    if isinstance(spec, QueueSpec):
        return EntityKind.QUEUE
    return EntityKind.TOPIC if isinstance(spec, TopicSpec) else EntityKind.SUBSCRIPTION


def forwards(spec: EntitySpec) -> bool:
    """Whether arriving messages are forwarded at once: then nothing expires there (FWD-12), and the
    entity is never idle (IDL-3), whatever its properties say."""
    return not isinstance(spec, TopicSpec) and bool(spec.forward_to)


def rules_by_name(spec: SubscriptionSpec) -> list[RuleSpec]:
    """The rules in the order in which they are listed (FLT-12)."""
    return sorted(spec.rules, key=lambda rule: rule.name.lower())


def duplicate_window_ms(spec: QueueSpec | TopicSpec) -> int:
    """How long the entity remembers a MessageId (DUP-4); 0 when it detects no duplicates."""
    if not spec.requires_duplicate_detection:
        return 0
    return spec.duplicate_detection_history_time_window_ms


def message_bytes_max(spec: QueueSpec | TopicSpec, profile: Profile) -> int:
    """The largest message that the entity accepts (QTA-6)."""
    if spec.max_message_size_in_kilobytes is None:
        return profile.message_bytes_default
    return spec.max_message_size_in_kilobytes * KILOBYTE


def fragment_bytes_max(spec: QueueSpec | TopicSpec, profile: Profile) -> int:
    """The size limit of a fragment: the requested size each, or its share in Premium (SEED-19,
    CON-17)."""
    size = spec.max_size_in_megabytes * MEGABYTE
    return size if profile.size_is_per_fragment else size // spec.fragments


def _shows_total(profile: Profile) -> bool:
    """Whether clients are shown the size of all fragments together (SEED-19, SEED-24).

    Where any size is allowed, a total could not be distinguished from a requested size.
    """
    return profile.size_is_per_fragment and profile.entity_megabytes is not None


def shown_megabytes(spec: QueueSpec | TopicSpec, profile: Profile) -> int:
    """The maximum size as the administration shows it: in most tiers times the fragments."""
    size = spec.max_size_in_megabytes
    return size * spec.fragments if _shows_total(profile) else size


def asked_megabytes(size: int, fragments: int, profile: Profile) -> int:
    """The maximum size that a client requests: it may send back what it was shown."""
    sizes = profile.entity_megabytes
    if sizes is None or size in sizes or not _shows_total(profile):
        return size
    asked, rest = divmod(size, fragments)
    return asked if not rest and asked in sizes else size
