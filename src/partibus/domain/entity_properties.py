"""The properties of queues, topics and subscriptions that administrators set, once for everybody.

Owns the table: the name in files, the element of the management API, the field of the spec, the
form of the value, and whether it can change later; and the conditions of correlation filters. The
management API, files, clients and the command line are built from it, and must never declare a
property again. The order is that of the elements as clients send them, on which the vendor's
service insists (amqp-contract 12.5). `domain.admission` checks the values.
"""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["queue", "topic", "subscription"]
Form = Literal["duration", "integer", "boolean", "text", "status"]


def pascal_case(key: str) -> str:
    """A name as the management API writes it."""
    return "".join(word.capitalize() for word in key.split("_"))


@dataclass(slots=True, frozen=True)
class EntityProperty:
    """One property; `help` is a short sentence for people."""

    key: str
    form: Form
    help: str
    is_fixed: bool = False
    element_name: str = ""

    @property
    def element(self) -> str:
        """Its name in the management API: that of the key in Pascal case, except for one."""
        return self.element_name or pascal_case(self.key)

    @property
    def field(self) -> str:
        """Its name in a spec, where a duration ends with its unit."""
        return f"{self.key}_ms" if self.form == "duration" else self.key


_LOCK: Final = EntityProperty("lock_duration", "duration", "How long a received message is locked.")
_SIZE: Final = EntityProperty("max_size_in_megabytes", "integer", "Its maximum size.")
_DUPLICATES: Final = EntityProperty(
    "requires_duplicate_detection",
    "boolean",
    "Drop messages whose id was already received.",
    is_fixed=True,
)
_SESSIONS: Final = EntityProperty(
    "requires_session", "boolean", "Every message belongs to a session.", is_fixed=True
)
_TTL: Final = EntityProperty(
    "default_message_time_to_live",
    "duration",
    "How long a message lives, unless it has a shorter time to live.",
)
_EXPIRED: Final = EntityProperty(
    "dead_lettering_on_message_expiration",
    "boolean",
    "Dead-letter messages that expire instead of dropping them.",
)
_FILTER_ERRORS: Final = EntityProperty(
    "dead_lettering_on_filter_evaluation_exceptions",
    "boolean",
    "Dead-letter messages on which a filter fails.",
)
_WINDOW: Final = EntityProperty(
    "duplicate_detection_history_time_window", "duration", "How long ids are remembered."
)
_DELIVERIES: Final = EntityProperty(
    "max_delivery_count", "integer", "Dead-letter after this many deliveries."
)
_BATCHED: Final = EntityProperty(
    "enable_batched_operations", "boolean", "Kept for the vendor's clients; has no effect here."
)
_EARLY_FILTER: Final = EntityProperty(
    "enable_filtering_messages_before_publishing",
    "boolean",
    "Refuse messages that no subscription selects.",
    element_name="FilteringMessagesBeforePublishing",
)
_STATUS: Final = EntityProperty(
    "status", "status", "Active, Disabled, SendDisabled or ReceiveDisabled."
)
_TOPIC_STATUS: Final = EntityProperty("status", "status", "Active, Disabled or SendDisabled.")
_SUBSCRIPTION_STATUS: Final = EntityProperty(
    "status", "status", "Active, Disabled or ReceiveDisabled."
)
_ORDERING: Final = EntityProperty("support_ordering", "boolean", "Kept for the vendor's clients.")
_IDLE: Final = EntityProperty(
    "auto_delete_on_idle", "duration", "Delete it when unused for this long."
)
_PARTITIONING: Final = EntityProperty(
    "enable_partitioning", "boolean", "Spread it over fragments.", True
)
_EXPRESS: Final = EntityProperty("enable_express", "boolean", "Kept for the vendor's clients.")
_FORWARD: Final = EntityProperty(
    "forward_to", "text", "Forward every message to this queue or topic."
)
_METADATA: Final = EntityProperty("user_metadata", "text", "A note of up to 1024 characters.")
_FORWARD_DEAD: Final = EntityProperty(
    "forward_dead_lettered_messages_to", "text", "Forward dead letters to this queue or topic."
)
_MESSAGE_SIZE: Final = EntityProperty(
    "max_message_size_in_kilobytes", "integer", "The largest message it accepts."
)

PROPERTIES: Final[dict[Kind, tuple[EntityProperty, ...]]] = {
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
"""The element of the management API that holds the properties."""
CONDITIONS: Final = (
    "correlation_id",
    "message_id",
    "to",
    "reply_to",
    "label",
    "session_id",
    "reply_to_session_id",
    "content_type",
)
"""The fields of a correlation filter that hold a text, in the order of the vendor's lists."""
FIXED_FIELDS: Final = (
    *dict.fromkeys(known.field for all_ in PROPERTIES.values() for known in all_ if known.is_fixed),
    "fragments",
)
"""What cannot change after creation (PRP-1, PRP-2, SEED-16), by the names of a spec. The number of
fragments is not part of the management API: only files set it."""
