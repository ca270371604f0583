"""The error conditions that travel in AMQP `error` fields [2.8.14-2.8.18, 3.5.11, 4.5.8].

Owns the spelling of every symbol, so that a condition is written once. Must never decide
which one applies: the engine picks its own, and the gateway translates the bus's errors.
"""

from typing import Final

# --- amqp-error [2.8.14] ----------------------------------------------------------------------

INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
RESOURCE_LOCKED: Final = "amqp:resource-locked"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
RESOURCE_DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL: Final = "amqp:frame-size-too-small"

# --- connection-error [2.8.15] ----------------------------------------------------------------

CONNECTION_FORCED: Final = "amqp:connection:forced"
CONNECTION_FRAMING_ERROR: Final = "amqp:connection:framing-error"
CONNECTION_REDIRECT: Final = "amqp:connection:redirect"

# --- session-error [2.8.16] -------------------------------------------------------------------

SESSION_WINDOW_VIOLATION: Final = "amqp:session:window-violation"
SESSION_ERRANT_LINK: Final = "amqp:session:errant-link"
SESSION_HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
SESSION_UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"

# --- link-error [2.8.17] ----------------------------------------------------------------------

LINK_DETACH_FORCED: Final = "amqp:link:detach-forced"
LINK_TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
LINK_MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
LINK_REDIRECT: Final = "amqp:link:redirect"
LINK_STOLEN: Final = "amqp:link:stolen"

# --- transaction-error [4.5.8] ----------------------------------------------------------------

TRANSACTION_UNKNOWN_ID: Final = "amqp:transaction:unknown-id"
TRANSACTION_ROLLBACK: Final = "amqp:transaction:rollback"
TRANSACTION_TIMEOUT: Final = "amqp:transaction:timeout"

# --- the vendor's own, as its clients recognise them ------------------------------------------

MICROSOFT_ADDRESS_ALREADY_IN_USE: Final = "com.microsoft:address-already-in-use"
MICROSOFT_ARGUMENT_ERROR: Final = "com.microsoft:argument-error"
MICROSOFT_ARGUMENT_OUT_OF_RANGE: Final = "com.microsoft:argument-out-of-range"
MICROSOFT_AUTH_FAILED: Final = "com.microsoft:auth-failed"
MICROSOFT_ENTITY_ALREADY_EXISTS: Final = "com.microsoft:entity-already-exists"
MICROSOFT_ENTITY_DISABLED: Final = "com.microsoft:entity-disabled"
MICROSOFT_MESSAGE_LOCK_LOST: Final = "com.microsoft:message-lock-lost"
MICROSOFT_MESSAGE_NOT_FOUND: Final = "com.microsoft:message-not-found"
MICROSOFT_NO_MATCHING_SUBSCRIPTION: Final = "com.microsoft:no-matching-subscription"
MICROSOFT_OPERATION_CANCELLED: Final = "com.microsoft:operation-cancelled"
MICROSOFT_PARTITION_NOT_OWNED: Final = "com.microsoft:partition-not-owned"
MICROSOFT_PRECONDITION_FAILED: Final = "com.microsoft:precondition-failed"
MICROSOFT_PUBLISHER_REVOKED: Final = "com.microsoft:publisher-revoked"
MICROSOFT_RELAY_NOT_FOUND: Final = "com.microsoft:relay-not-found"
MICROSOFT_SERVER_BUSY: Final = "com.microsoft:server-busy"
MICROSOFT_SESSION_CANNOT_BE_LOCKED: Final = "com.microsoft:session-cannot-be-locked"
MICROSOFT_SESSION_LOCK_LOST: Final = "com.microsoft:session-lock-lost"
MICROSOFT_STORE_LOCK_LOST: Final = "com.microsoft:store-lock-lost"
MICROSOFT_TIMEOUT: Final = "com.microsoft:timeout"
