"""Rows between processes, plain tuples for any serialiser: their codes, and the answers.

Owns the form in which a fragment is addressed from another process: the code of every row, outgoing
messages, errors, and how an answer is passed to the port of its command. The commands themselves
are in `command_rows`. A row begins with its code and a number that pairs answer and request.
Messages are nested rows, one tuple each, since there are many of them. It must never send, wait or
decide; `remote` and `hosting` are the two ends.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from partibus.cluster.transaction_rows import RESERVE_NUMBERS, RESERVED, TRANSACT, numbers_reserved
from partibus.cluster.transfer_rows import FENCE
from partibus.domain import errors
from partibus.domain.errors import BusError, StoreCorrupt
from partibus.fragment.commands import (
    Enqueue,
)
from partibus.fragment.message import Held, MessageState, Overlay
from partibus.fragment.outbox.commands import Transfer

Row = Sequence[Any]
"""A code, a number, and the fields of one command or answer."""
VERSION: Final = 3
"""The version of the rows."""
VERSION_MIN: Final = 1
"""Nodes are upgraded one after the other, so the rows of the previous release are supported too."""
_ERROR_FIELDS_SINCE: Final = 3
StoreFacts = Sequence[int]
"""The state of a store: its number and its live bytes."""


class PeerWriter(Protocol):
    """Where rows for the far process go: the sending side of a connection to it."""

    @property
    def is_full(self) -> bool:
        """The far process does not read: send it no more messages for now."""
        ...

    def post(self, row: Row, byte_count: int) -> None:
        """Send a row, with others of this turn."""
        ...


# --- codes: requests -----------------------------------------------------------------------------

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
PICK: Final = 24
REQUEST_CODE_MAX: Final = FENCE
"""Codes up to here get exactly one answer, unless their number is 0; so do PICK and those of
`transaction_rows`."""
OPEN: Final = 16
"""A receiver; later rows refer to it by its number."""
DEMAND: Final = 17
INTEREST: Final = 18
DETACH: Final = 19
PING: Final = 20
QUIET: Final = 23
"""The process sends no more requests: it is about to stop."""
OPEN_SESSION: Final = 21
"""A receiver of one session; identified by its number like any other."""
ACCEPT: Final = 22

# --- codes: answers ------------------------------------------------------------------------------

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

ROW_BYTES: Final = 256
"""The size of a row besides its messages: about its size in memory."""


# --- messages and errors -------------------------------------------------------------------------


def held_row(held: Held) -> Row:
    """An outgoing message, without its body; fields that only its owner needs are left out."""
    return (
        held.sequence,
        held.length,
        held.enqueued_ms,
        held.expires_ms,
        held.delivery_count,
        held.token,
        held.locked_until_ms,
        held.state,
        None if held.overlay is None else overlay_row(held.overlay),
    )


def to_held(row: Row) -> Held:
    """The message as the gateway needs it."""
    sequence, length, enqueued_ms, expires_ms, count, token, until_ms, state, overlay = row
    held = Held(sequence, 0, length, enqueued_ms, expires_ms, count, None)
    held.token = token
    held.locked_until_ms = until_ms
    if state:
        held.state = MessageState(state)
    if overlay is not None:
        held.overlay = Overlay(*overlay)
    return held


def overlay_row(overlay: Overlay) -> Row:
    """The overlay of a message."""
    return (overlay.properties, overlay.reason, overlay.description)


def error_row(error: BusError, version: int = VERSION) -> Row:
    """An error by the name of its class in the taxonomy, with every field, as far as a peer of
    that version reads them; its tracking id stays the same on both sides."""
    kind = next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)
    row = (kind.__name__, error.text, error.tracking_id)
    if version < _ERROR_FIELDS_SINCE:
        return row
    return (*row, error.entity_path, error.place if isinstance(error, StoreCorrupt) else "")


def to_error(row: Row) -> BusError:
    """The error from its row; a name that this release does not know is a plain `BusError`."""
    name, text, tracking_id, *fields = row
    kind = getattr(errors, name, BusError)
    error: BusError = kind(text) if issubclass(kind, BusError) else BusError(text)
    error.tracking_id = tracking_id
    error.entity_path, place = fields or ("", "")
    if isinstance(error, StoreCorrupt):
        error.place = place
    return error


# --- answers: from a row to the port of the command that it answers -------------------------------


def _confirmed(command: Any, row: Row) -> None:
    command.port.confirmed(_requests(command, row[3]), row[2], row[4])


def _refused(command: Any, row: Row) -> None:
    command.port.refused(_requests(command, row[3]), to_error(row[2]))


def _requests(command: Enqueue | Transfer, places: Sequence[int] | None) -> list[int]:
    """The sends that an answer concerns; None means all of the command."""
    requests = command.requests
    return requests if places is None else [requests[place] for place in places]


def _settled(command: Any, row: Row) -> None:
    error = None if row[3] is None else to_error(row[3])
    command.port.settled(command.request, row[2], error)


def _renewed(command: Any, row: Row) -> None:
    command.port.renewed(row[2])


def _done(command: Any, row: Row) -> None:
    command.port.done(row[2])


def _found(command: Any, row: Row) -> None:
    command.port.found([to_held(held) for held in row[2]], row[3])


def _failed(command: Any, row: Row) -> None:
    command.port.failed(to_error(row[2]))


def _answered(command: Any, row: Row) -> None:
    command.port.answered(row[2])


def _state_found(command: Any, row: Row) -> None:
    command.port.state_found(row[2])


def _listed(command: Any, row: Row) -> None:
    command.port.listed(row[2], row[3])


ANSWERS: Final[dict[int, Callable[[Any, Row], None]]] = {
    CONFIRMED: _confirmed,
    REFUSED: _refused,
    SETTLED: _settled,
    RENEWED: _renewed,
    DONE: _done,
    FOUND: _found,
    FAILED: _failed,
    ANSWERED: _answered,
    STATE_FOUND: _state_found,
    LISTED: _listed,
    RESERVED: numbers_reserved,
}


def is_request(row: Row) -> bool:
    """Whether a row gets an answer under its number."""
    code: int = row[0]
    return code <= REQUEST_CODE_MAX or code == PICK or TRANSACT <= code <= RESERVE_NUMBERS
