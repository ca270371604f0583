"""The error conditions that travel in AMQP `error` fields [2.8.14-2.8.17].

Owns the spelling of the symbols that the engine and our client name, so that each is written
once. Must never decide which one applies: the engine picks its own, and the gateway translates
the bus's errors.
"""

from typing import Final

# --- amqp-error [2.8.14] ----------------------------------------------------------------------

INTERNAL_ERROR: Final = "amqp:internal-error"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
ILLEGAL_STATE: Final = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL: Final = "amqp:frame-size-too-small"

# --- connection-error [2.8.15] ----------------------------------------------------------------

CONNECTION_FORCED: Final = "amqp:connection:forced"
CONNECTION_FRAMING_ERROR: Final = "amqp:connection:framing-error"

# --- session-error [2.8.16] -------------------------------------------------------------------

SESSION_HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
SESSION_UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"

# --- link-error [2.8.17] ----------------------------------------------------------------------

LINK_DETACH_FORCED: Final = "amqp:link:detach-forced"
LINK_TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
LINK_MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
LINK_STOLEN: Final = "amqp:link:stolen"

# --- the vendor's own, as its clients recognise them ------------------------------------------

MICROSOFT_MESSAGE_LOCK_LOST: Final = "com.microsoft:message-lock-lost"
MICROSOFT_OPERATION_CANCELLED: Final = "com.microsoft:operation-cancelled"
MICROSOFT_SERVER_BUSY: Final = "com.microsoft:server-busy"
MICROSOFT_TIMEOUT: Final = "com.microsoft:timeout"
