"""The names of the vendor's message annotations, as clients and the bus write them.

Owns the names and nothing else: which of them a sender may set, and how they are encoded, is
decided by `message` and `client`.
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
