"""The code of each row between processes, the first of its fields.

Owns the numbers, which nodes of different releases must agree on. It must never hold anything else:
the form of a row is in `command_rows` and `rows`.
"""

from typing import Final

# --- requests ------------------------------------------------------------------------------------

ENQUEUE: Final = 1
SETTLE: Final = 2
RENEW: Final = 3
CANCEL_SCHEDULED: Final = 4
RECEIVE_DEFERRED: Final = 5
PEEK: Final = 6
PURGE: Final = 7
ASK: Final = 8
"""A question to the process, not to a fragment."""
FIND_OLDEST_SESSION: Final = 9
RENEW_SESSION: Final = 10
GET_SESSION_STATE: Final = 11
SET_SESSION_STATE: Final = 12
LIST_SESSIONS: Final = 13
TRANSFER: Final = 14
FENCE: Final = 15
REQUEST_CODE_MAX: Final = FENCE
"""Codes up to here get exactly one answer, unless their number is 0; so do PICK and the
requests of transactions."""
OPEN: Final = 16
"""A receiver; later rows refer to it by its number."""
DEMAND: Final = 17
INTEREST: Final = 18
DETACH: Final = 19
PING: Final = 20
OPEN_SESSION: Final = 21
"""A receiver of one session; identified by its number like any other."""
ACCEPT: Final = 22
QUIET: Final = 23
"""The process sends no more requests: it is about to stop."""
PICK: Final = 24
TRANSACT: Final = 64
CHECK_LOCKS: Final = 65
RESERVE_NUMBERS: Final = 66
ENQUEUE_NUMBERED: Final = 67
"""Only within a transaction."""

# --- answers -------------------------------------------------------------------------------------

CONFIRMED: Final = 32
REFUSED: Final = 33
SETTLED: Final = 34
RENEWED: Final = 35
DONE: Final = 36
FOUND: Final = 37
FAILED: Final = 38
ANSWERED: Final = 39
STATE_FOUND: Final = 40
LISTED: Final = 41
DELIVERED: Final = 48
DRAINED: Final = 49
AVAILABLE: Final = 50
DETACHED: Final = 51
"""Nothing more will be sent to this receiver."""
PONG: Final = 52
STORES_DOWN: Final = 53
"""Which stores of the process are down, whenever that changes."""
ACCEPTED: Final = 54
NOT_ACCEPTED: Final = 55
SESSION_LOST: Final = 56
UNSENDABLE: Final = 57
"""The answer to a request exists but cannot be encoded; an error replaces it."""
LANES: Final = 58
"""Which lanes the node serves, with their epochs; on change, and first after the greeting."""
RESERVED: Final = 72
"""The numbers for scheduled messages of a transaction."""
