"""The properties of queues, topics and subscriptions, by their names in files and on the wire.

Owns the table: the name in snake case, the element of the management API, the form of the
value, and whether it can change later. The order is that of the elements, on which the
vendor's service insists (amqp-contract 12.5). Used by the management client and by tools.
"""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["queue", "topic", "subscription"]
Form = Literal["duration", "integer", "boolean", "text"]


@dataclass(slots=True, frozen=True)
class EntityField:
    """One property; `help` is a short sentence for people."""

    key: str
    element: str
    form: Form
    help: str
    is_fixed: bool = False


_LOCK: Final = EntityField(
    "lock_duration", "LockDuration", "duration", "How long a received message is locked."
)
_SIZE: Final = EntityField(
    "max_size_in_megabytes", "MaxSizeInMegabytes", "integer", "How much it may hold."
)
_DUPLICATES: Final = EntityField(
    "requires_duplicate_detection",
    "RequiresDuplicateDetection",
    "boolean",
    "Drop messages whose id came before.",
    is_fixed=True,
)
_SESSIONS: Final = EntityField(
    "requires_session", "RequiresSession", "boolean", "Messages come in sessions.", is_fixed=True
)
_TTL: Final = EntityField(
    "default_message_time_to_live",
    "DefaultMessageTimeToLive",
    "duration",
    "Messages expire after so long, unless they say less.",
)
_EXPIRED: Final = EntityField(
    "dead_lettering_on_message_expiration",
    "DeadLetteringOnMessageExpiration",
    "boolean",
    "Dead-letter what expires instead of dropping it.",
)
_FILTER_ERRORS: Final = EntityField(
    "dead_lettering_on_filter_evaluation_exceptions",
    "DeadLetteringOnFilterEvaluationExceptions",
    "boolean",
    "Dead-letter what a filter fails on.",
)
_WINDOW: Final = EntityField(
    "duplicate_detection_history_time_window",
    "DuplicateDetectionHistoryTimeWindow",
    "duration",
    "How long ids are remembered.",
)
_DELIVERIES: Final = EntityField(
    "max_delivery_count", "MaxDeliveryCount", "integer", "Dead-letter after so many deliveries."
)
_BATCHED: Final = EntityField(
    "enable_batched_operations",
    "EnableBatchedOperations",
    "boolean",
    "Kept for the vendor's clients; has no effect here.",
)
_EARLY_FILTER: Final = EntityField(
    "enable_filtering_messages_before_publishing",
    "FilteringMessagesBeforePublishing",
    "boolean",
    "Refuse what no subscription takes.",
)
_STATUS: Final = EntityField(
    "status", "Status", "text", "Active, Disabled, SendDisabled or ReceiveDisabled."
)
_TOPIC_STATUS: Final = EntityField("status", "Status", "text", "Active, Disabled or SendDisabled.")
_SUBSCRIPTION_STATUS: Final = EntityField(
    "status", "Status", "text", "Active, Disabled or ReceiveDisabled."
)
_ORDERING: Final = EntityField(
    "support_ordering", "SupportOrdering", "boolean", "Kept for the vendor's clients."
)
_IDLE: Final = EntityField(
    "auto_delete_on_idle", "AutoDeleteOnIdle", "duration", "Delete it when unused for so long."
)
_PARTITIONING: Final = EntityField(
    "enable_partitioning", "EnablePartitioning", "boolean", "Spread it over fragments.", True
)
_EXPRESS: Final = EntityField(
    "enable_express", "EnableExpress", "boolean", "Kept for the vendor's clients."
)
_FORWARD: Final = EntityField(
    "forward_to", "ForwardTo", "text", "Hand every message on to this queue or topic."
)
_METADATA: Final = EntityField(
    "user_metadata", "UserMetadata", "text", "A note of up to 1024 characters."
)
_FORWARD_DEAD: Final = EntityField(
    "forward_dead_lettered_messages_to",
    "ForwardDeadLetteredMessagesTo",
    "text",
    "Hand dead letters on to this queue or topic.",
)
_MESSAGE_SIZE: Final = EntityField(
    "max_message_size_in_kilobytes",
    "MaxMessageSizeInKilobytes",
    "integer",
    "The largest message it takes.",
)

FIELDS: Final[dict[Kind, tuple[EntityField, ...]]] = {
    "queue": (
        _LOCK,
        _SIZE,
        _DUPLICATES,
        _SESSIONS,
        _TTL,
        _EXPIRED,
        _WINDOW,
        _DELIVERIES,
        _BATCHED,
        _STATUS,
        _FORWARD,
        _METADATA,
        _IDLE,
        _PARTITIONING,
        _FORWARD_DEAD,
        _EXPRESS,
        _MESSAGE_SIZE,
    ),
    "topic": (
        _TTL,
        _SIZE,
        _DUPLICATES,
        _WINDOW,
        _BATCHED,
        _EARLY_FILTER,
        _TOPIC_STATUS,
        _METADATA,
        _ORDERING,
        _IDLE,
        _PARTITIONING,
        _EXPRESS,
        _MESSAGE_SIZE,
    ),
    "subscription": (
        _LOCK,
        _SESSIONS,
        _TTL,
        _EXPIRED,
        _FILTER_ERRORS,
        _DELIVERIES,
        _BATCHED,
        _SUBSCRIPTION_STATUS,
        _FORWARD,
        _METADATA,
        _FORWARD_DEAD,
        _IDLE,
    ),
}
DESCRIPTIONS: Final[dict[Kind, str]] = {
    "queue": "QueueDescription",
    "topic": "TopicDescription",
    "subscription": "SubscriptionDescription",
}
