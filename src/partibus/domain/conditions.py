"""The names of error conditions, as the bus reports them and as its clients recognise them.

Owns the spelling of each. Must never decide which one applies: `errors` gives each error of the bus
its condition. The AMQP engine knows no bus and has its own list, of what it reports by itself.
"""

from typing import Final

# --- of AMQP [2.8.14 - 2.8.17, 4.5.8] ----------------------------------------------------------

INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
CONNECTION_FORCED: Final = "amqp:connection:forced"
LINK_DETACH_FORCED: Final = "amqp:link:detach-forced"
LINK_TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
LINK_MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
TRANSACTION_UNKNOWN_ID: Final = "amqp:transaction:unknown-id"
TRANSACTION_ROLLBACK: Final = "amqp:transaction:rollback"
TRANSACTION_TIMEOUT: Final = "amqp:transaction:timeout"

# --- the vendor's, as its clients recognise them -----------------------------------------------

MICROSOFT_ARGUMENT_ERROR: Final = "com.microsoft:argument-error"
MICROSOFT_AUTH_FAILED: Final = "com.microsoft:auth-failed"
MICROSOFT_DEAD_LETTER: Final = "com.microsoft:dead-letter"
MICROSOFT_ENTITY_DISABLED: Final = "com.microsoft:entity-disabled"
MICROSOFT_ENTITY_EXISTS: Final = "com.microsoft:entity-already-exists"
MICROSOFT_MESSAGE_LOCK_LOST: Final = "com.microsoft:message-lock-lost"
MICROSOFT_MESSAGE_NOT_FOUND: Final = "com.microsoft:message-not-found"
MICROSOFT_NO_MATCHING_SUBSCRIPTION: Final = "com.microsoft:no-matching-subscription"
MICROSOFT_OPERATION_CANCELLED: Final = "com.microsoft:operation-cancelled"
MICROSOFT_PRECONDITION_FAILED: Final = "com.microsoft:precondition-failed"
MICROSOFT_SERVER_BUSY: Final = "com.microsoft:server-busy"
MICROSOFT_SESSION_CANNOT_BE_LOCKED: Final = "com.microsoft:session-cannot-be-locked"
MICROSOFT_SESSION_LOCK_LOST: Final = "com.microsoft:session-lock-lost"
MICROSOFT_TIMEOUT: Final = "com.microsoft:timeout"

# --- our own -----------------------------------------------------------------------------------

PARTIBUS_CLAIM_FENCED: Final = "partibus:claim-fenced"
PARTIBUS_CLAIM_LOST: Final = "partibus:claim-lost"
PARTIBUS_STAGE_FENCED: Final = "partibus:stage-fenced"
PARTIBUS_STAGE_LOST: Final = "partibus:stage-lost"
PARTIBUS_UNREACHABLE: Final = "partibus:unreachable"
"""No bus reports it: the Spark connector does, of a bus that it cannot reach."""
