"""The error conditions of AMQP that the engine reports by itself [2.8.14-2.8.17].

Owns their spelling. Must never contain a condition of the bus: those are in
`partibus.domain.conditions`, which the engine does not know.
"""

from typing import Final

# --- amqp-error [2.8.14] ----------------------------------------------------------------------

UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
ILLEGAL_STATE: Final = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL: Final = "amqp:frame-size-too-small"

# --- connection-error [2.8.15] ----------------------------------------------------------------

CONNECTION_FRAMING_ERROR: Final = "amqp:connection:framing-error"

# --- session-error [2.8.16] -------------------------------------------------------------------

SESSION_HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
SESSION_UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"

# --- link-error [2.8.17] ----------------------------------------------------------------------

LINK_TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
LINK_MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
LINK_STOLEN: Final = "amqp:link:stolen"
