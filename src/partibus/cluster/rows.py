"""Rows between processes, plain tuples for any serialiser: messages, errors and answers.

Owns the form in which a fragment is addressed from another process: outgoing messages, errors, and
how an answer is passed to the port of its command. The commands themselves are in `command_rows`. A
row begins with its code and a number that pairs answer and request. Messages are nested rows, one
tuple each, since there are many of them. It must never send, wait or decide; `remote` and `hosting`
are the two ends.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from partibus.cluster import codes
from partibus.domain import errors
from partibus.domain.errors import BusError, StoreCorrupt
from partibus.fragment.commands import Enqueue
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


def _reserved(command: Any, row: Row) -> None:
    command.port.reserved(row[2], row[3])


ANSWERS: Final[dict[int, Callable[[Any, Row], None]]] = {
    codes.CONFIRMED: _confirmed,
    codes.REFUSED: _refused,
    codes.SETTLED: _settled,
    codes.RENEWED: _renewed,
    codes.DONE: _done,
    codes.FOUND: _found,
    codes.FAILED: _failed,
    codes.ANSWERED: _answered,
    codes.STATE_FOUND: _state_found,
    codes.LISTED: _listed,
    codes.RESERVED: _reserved,
}


def is_request(row: Row) -> bool:
    """Whether a row gets an answer under its number."""
    code: int = row[0]
    if code <= codes.REQUEST_CODE_MAX or code == codes.PICK:
        return True
    return codes.TRANSACT <= code <= codes.RESERVE_NUMBERS
