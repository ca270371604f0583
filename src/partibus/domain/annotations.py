"""The vendor's names on the wire besides those of conditions, as clients and the bus write them.

Owns the names of annotations, of properties and filters of links, and of what a dead letter says
about itself; nothing else: which of them a sender may set, and how they are encoded, is decided by
`message` and `client`.
"""

from typing import Final

SEQUENCE_NUMBER: Final = "x-opt-sequence-number"
ENQUEUE_SEQUENCE_NUMBER: Final = "x-opt-enqueue-sequence-number"
ENQUEUED_TIME: Final = "x-opt-enqueued-time"
LOCKED_UNTIL: Final = "x-opt-locked-until"
MESSAGE_STATE: Final = "x-opt-message-state"
PARTITION_ID: Final = "x-opt-partition-id"
PARTITION_KEY: Final = "x-opt-partition-key"
VIA_PARTITION_KEY: Final = "x-opt-via-partition-key"
SCHEDULED_TIME: Final = "x-opt-scheduled-enqueue-time"
DEAD_LETTER_SOURCE: Final = "x-opt-deadletter-source"
LOCK_TOKEN: Final = "x-opt-lock-token"  # noqa: S105 - a name

# --- application properties of a dead letter (DLQ-5) -------------------------------------------

DEAD_LETTER_REASON: Final = "DeadLetterReason"
DEAD_LETTER_DESCRIPTION: Final = "DeadLetterErrorDescription"

# --- properties and filters of a link ----------------------------------------------------------

BATCH_SIZE_PROPERTY: Final = "com.microsoft:max-message-batch-size"
LOCKED_UNTIL_PROPERTY: Final = "com.microsoft:locked-until-utc"
TIMEOUT_PROPERTY: Final = "com.microsoft:timeout"
SESSION_FILTER: Final = "com.microsoft:session-filter"

# --- types -------------------------------------------------------------------------------------

TIMESPAN: Final = "com.microsoft:timespan"
"""How .NET marks a duration, which is a number of ticks (amqp-contract 8)."""
