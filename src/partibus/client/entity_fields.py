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
    form: Form
    help: str
    is_fixed: bool = False
    element_name: str = ""

    @property
    def element(self) -> str:
        """Its name in the management API: that of the key in Pascal case, except for one."""
        return self.element_name or "".join(word.capitalize() for word in self.key.split("_"))


_LOCK: Final = EntityField("lock_duration", "duration", "How long a received message is locked.")
_SIZE: Final = EntityField("max_size_in_megabytes", "integer", "Its maximum size.")
_DUPLICATES: Final = EntityField(
    "requires_duplicate_detection",
    "boolean",
    "Drop messages whose id was already received.",
    is_fixed=True,
)
_SESSIONS: Final = EntityField(
    "requires_session", "boolean", "Every message belongs to a session.", is_fixed=True
)
_TTL: Final = EntityField(
    "default_message_time_to_live",
    "duration",
    "How long a message lives, unless it has a shorter time to live.",
)
_EXPIRED: Final = EntityField(
    "dead_lettering_on_message_expiration",
    "boolean",
    "Dead-letter messages that expire instead of dropping them.",
)
_FILTER_ERRORS: Final = EntityField(
    "dead_lettering_on_filter_evaluation_exceptions",
    "boolean",
    "Dead-letter messages on which a filter fails.",
)
_WINDOW: Final = EntityField(
    "duplicate_detection_history_time_window", "duration", "How long ids are remembered."
)
_DELIVERIES: Final = EntityField(
    "max_delivery_count", "integer", "Dead-letter after this many deliveries."
)
_BATCHED: Final = EntityField(
    "enable_batched_operations", "boolean", "Kept for the vendor's clients; has no effect here."
)
_EARLY_FILTER: Final = EntityField(
    "enable_filtering_messages_before_publishing",
    "boolean",
    "Refuse messages that no subscription selects.",
    element_name="FilteringMessagesBeforePublishing",
)
_STATUS: Final = EntityField("status", "text", "Active, Disabled, SendDisabled or ReceiveDisabled.")
_TOPIC_STATUS: Final = EntityField("status", "text", "Active, Disabled or SendDisabled.")
_SUBSCRIPTION_STATUS: Final = EntityField("status", "text", "Active, Disabled or ReceiveDisabled.")
_ORDERING: Final = EntityField("support_ordering", "boolean", "Kept for the vendor's clients.")
_IDLE: Final = EntityField(
    "auto_delete_on_idle", "duration", "Delete it when unused for this long."
)
_PARTITIONING: Final = EntityField(
    "enable_partitioning", "boolean", "Spread it over fragments.", True
)
_EXPRESS: Final = EntityField("enable_express", "boolean", "Kept for the vendor's clients.")
_FORWARD: Final = EntityField("forward_to", "text", "Forward every message to this queue or topic.")
_METADATA: Final = EntityField("user_metadata", "text", "A note of up to 1024 characters.")
_FORWARD_DEAD: Final = EntityField(
    "forward_dead_lettered_messages_to", "text", "Forward dead letters to this queue or topic."
)
_MESSAGE_SIZE: Final = EntityField(
    "max_message_size_in_kilobytes", "integer", "The largest message it accepts."
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
