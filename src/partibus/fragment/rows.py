"""Commands and their answers as rows: plain tuples that any serialiser takes.

Owns the form in which a fragment is spoken to from another process: for every command how it
becomes a row and a command again, and for every answer the same. A row begins with its code
and a number that pairs answer and request. Messages travel as rows of their own inside, one
tuple each, since they are what is many. Nothing here sends, waits or decides; `remote` and
`hosting` are the two ends.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from partibus.domain import errors
from partibus.domain.errors import BusError
from partibus.fragment.commands import (
    CancelScheduled,
    Command,
    Enqueue,
    FindOldestSession,
    GetSessionState,
    Lane,
    ListSessions,
    Outcome,
    Peek,
    Purge,
    Question,
    ReceiveDeferred,
    Renew,
    RenewSession,
    SetSessionState,
    Settle,
)
from partibus.fragment.marks import Origin
from partibus.fragment.message import Held, MessageState, NewMessage, Overlay
from partibus.fragment.transaction_commands import (
    CheckLocks,
    EnqueueNumbered,
    ReserveNumbers,
    Transact,
)
from partibus.fragment.transaction_rows import (
    CHECK_LOCKS,
    ENQUEUE_NUMBERED,
    RESERVE_NUMBERS,
    RESERVED,
    TRANSACT,
    check_locks_row,
    numbered_encoder,
    numbers_reserved,
    reserve_row,
    to_check_locks,
    to_numbered,
    to_reserve,
    transact_decoder,
    transact_encoder,
)
from partibus.fragment.transfer_commands import Seal, Transfer
from partibus.fragment.transfer_rows import (
    SEAL,
    TRANSFER,
    seal_row,
    to_seal,
    to_transfer,
    transfer_encoder,
)

Row = Sequence[Any]
"""A code, a number, and the fields of one command or answer."""

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
REQUEST_CODE_MAX: Final = SEAL
"""Codes up to here await exactly one answer, unless their number is 0; so do those of
`transaction_rows`."""
OPEN: Final = 16
"""A receiver; its number stands for it in all that follows."""
DEMAND: Final = 17
INTEREST: Final = 18
DETACH: Final = 19
PING: Final = 20
OPEN_SESSION: Final = 21
"""A receiver of one session; known by its number like any other."""
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
"""Nothing more comes for this receiver."""
PONG: Final = 52
STORES_DOWN: Final = 53
"""Which stores of the process do not answer, whenever that changes."""
ACCEPTED: Final = 54
NOT_ACCEPTED: Final = 55
SESSION_LOST: Final = 56

ROW_BYTES: Final = 256
"""What a row is counted as beside its messages: about its size in memory."""


# --- messages and errors -------------------------------------------------------------------------


def message_row(message: NewMessage) -> Row:
    """A message on its way in."""
    return (
        message.body,
        message.ttl_ms,
        message.scheduled_ms,
        message.session_id,
        message.partition_key,
        message.message_id,
    )


def held_row(held: Held) -> Row:
    """A message on its way out, without its body; what only its owner needs stays there."""
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
    """What was changed about a message."""
    return (overlay.properties, overlay.reason, overlay.description)


def _overlay(row: Row | None) -> Overlay | None:
    return None if row is None else Overlay(*row)


def error_row(error: BusError) -> Row:
    """An error by its name in the taxonomy; its tracking id stays the same on both sides."""
    return (type(error).__name__, error.text, error.tracking_id)


def to_error(row: Row) -> BusError:
    """The error again; a name that this release does not know is a plain `BusError`."""
    name, text, tracking_id = row
    kind = getattr(errors, name, BusError)
    error: BusError = kind(text) if issubclass(kind, BusError) else BusError(text)
    error.tracking_id = tracking_id
    return error


# --- commands ------------------------------------------------------------------------------------

Encode = Callable[[Any, int, int], Row]
Decode = Callable[[Row, Any], Command]
"""The port takes whichever answer the command may get."""


def _enqueue_row(command: Enqueue, number: int, fragment_id: int) -> Row:
    messages = [message_row(message) for message in command.messages]
    origin = None
    if command.origin is not None:
        origin = (command.origin.fragment_id, command.origin.numbers)
    size = command.byte_count
    return (ENQUEUE, number, fragment_id, messages, len(command.requests), size, origin)


def _to_enqueue(row: Row, port: Any) -> Command:
    # The sends are known here by their places in the command; the far end has their numbers.
    messages = [NewMessage(*message) for message in row[3]]
    origin = None if row[6] is None else Origin(*row[6])
    return Enqueue(port, messages, list(range(row[4])), row[5], origin)


def _settle_row(command: Settle, number: int, fragment_id: int) -> Row:
    overlay = None if command.overlay is None else overlay_row(command.overlay)
    lane, outcome = int(command.lane), int(command.outcome)
    return (SETTLE, number, fragment_id, lane, command.tokens, outcome, overlay)


def _to_settle(row: Row, port: Any) -> Command:
    answer = port if row[1] else None
    return Settle(answer, None, Lane(row[3]), row[4], Outcome(row[5]), _overlay(row[6]))


def _renew_row(command: Renew, number: int, fragment_id: int) -> Row:
    return (RENEW, number, fragment_id, int(command.lane), command.tokens)


def _to_renew(row: Row, port: Any) -> Command:
    return Renew(port, Lane(row[3]), row[4])


def _cancel_row(command: CancelScheduled, number: int, fragment_id: int) -> Row:
    return (CANCEL_SCHEDULED, number, fragment_id, command.sequences)


def _to_cancel(row: Row, port: Any) -> Command:
    return CancelScheduled(port, row[3])


def _deferred_row(command: ReceiveDeferred, number: int, fragment_id: int) -> Row:
    return (
        RECEIVE_DEFERRED,
        number,
        fragment_id,
        int(command.lane),
        command.sequences,
        command.deletes,
        command.session_id,
        command.lock,
    )


def _to_deferred(row: Row, port: Any) -> Command:
    return ReceiveDeferred(port, Lane(row[3]), row[4], row[5], row[6], row[7])


def _peek_row(command: Peek, number: int, fragment_id: int) -> Row:
    return (
        PEEK,
        number,
        fragment_id,
        int(command.lane),
        command.from_sequence,
        command.message_count_max,
        command.byte_count_max,
        command.session_id,
    )


def _to_peek(row: Row, port: Any) -> Command:
    return Peek(port, Lane(row[3]), row[4], row[5], row[6], row[7])


def _purge_row(command: Purge, number: int, fragment_id: int) -> Row:
    return (
        PURGE,
        number,
        fragment_id,
        int(command.lane),
        command.message_count_max,
        command.before_ms,
        command.session_id,
    )


def _to_purge(row: Row, port: Any) -> Command:
    return Purge(port, Lane(row[3]), row[4], row[5], row[6])


def _question_row(command: Question, number: int, fragment_id: int) -> Row:
    return (ASK, number, fragment_id, command.name, command.payload)


def _to_question(row: Row, port: Any) -> Command:
    return Question(port, row[3], row[4])


def _find_oldest_row(command: FindOldestSession, number: int, fragment_id: int) -> Row:
    return (FIND_OLDEST_SESSION, number, fragment_id)


def _to_find_oldest(row: Row, port: Any) -> Command:
    return FindOldestSession(port)


def _renew_session_row(command: RenewSession, number: int, fragment_id: int) -> Row:
    return (RENEW_SESSION, number, fragment_id, command.session_id, command.lock)


def _to_renew_session(row: Row, port: Any) -> Command:
    return RenewSession(port, row[3], row[4])


def _get_state_row(command: GetSessionState, number: int, fragment_id: int) -> Row:
    return (GET_SESSION_STATE, number, fragment_id, command.session_id, command.lock)


def _to_get_state(row: Row, port: Any) -> Command:
    return GetSessionState(port, row[3], row[4])


def _set_state_row(command: SetSessionState, number: int, fragment_id: int) -> Row:
    session_id, lock = command.session_id, command.lock
    return (SET_SESSION_STATE, number, fragment_id, session_id, lock, command.state)


def _to_set_state(row: Row, port: Any) -> Command:
    return SetSessionState(port, row[3], row[4], row[5])


def _list_sessions_row(command: ListSessions, number: int, fragment_id: int) -> Row:
    after_ms, skip = command.updated_after_ms, command.skip
    return (LIST_SESSIONS, number, fragment_id, after_ms, skip, command.count_max)


def _to_list_sessions(row: Row, port: Any) -> Command:
    return ListSessions(port, row[3], row[4], row[5])


ENCODERS: Final[dict[type[Command], Encode]] = {
    Enqueue: _enqueue_row,
    Settle: _settle_row,
    Renew: _renew_row,
    CancelScheduled: _cancel_row,
    ReceiveDeferred: _deferred_row,
    Peek: _peek_row,
    Purge: _purge_row,
    Question: _question_row,
    FindOldestSession: _find_oldest_row,
    RenewSession: _renew_session_row,
    GetSessionState: _get_state_row,
    SetSessionState: _set_state_row,
    ListSessions: _list_sessions_row,
    Seal: seal_row,
}
"""From a command, its number and its fragment to a row. Commands about a receiver are rows of
a code, the receiver's number and at most two fields; `remote` makes them."""

DECODERS: Final[dict[int, Decode]] = {
    ENQUEUE: _to_enqueue,
    SETTLE: _to_settle,
    RENEW: _to_renew,
    CANCEL_SCHEDULED: _to_cancel,
    RECEIVE_DEFERRED: _to_deferred,
    PEEK: _to_peek,
    PURGE: _to_purge,
    ASK: _to_question,
    FIND_OLDEST_SESSION: _to_find_oldest,
    RENEW_SESSION: _to_renew_session,
    GET_SESSION_STATE: _to_get_state,
    SET_SESSION_STATE: _to_set_state,
    LIST_SESSIONS: _to_list_sessions,
    TRANSFER: to_transfer,
    SEAL: to_seal,
}

ENCODERS.update(
    {
        Transfer: transfer_encoder(message_row),
        Transact: transact_encoder(ENCODERS),
        CheckLocks: check_locks_row,
        ReserveNumbers: reserve_row,
        EnqueueNumbered: numbered_encoder(message_row),
    }
)
DECODERS.update(
    {
        TRANSACT: transact_decoder(DECODERS),
        CHECK_LOCKS: to_check_locks,
        RESERVE_NUMBERS: to_reserve,
        ENQUEUE_NUMBERED: to_numbered,
    }
)

# --- answers: from a row to the port of the command that it answers -------------------------------


def _confirmed(command: Any, row: Row) -> None:
    command.port.confirmed(_requests(command, row[3]), row[2], row[4])


def _refused(command: Any, row: Row) -> None:
    command.port.refused(_requests(command, row[3]), to_error(row[2]))


def _requests(command: Enqueue | Transfer, places: Sequence[int] | None) -> list[int]:
    """The sends that an answer is about; None means all of the command."""
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


WITH_FAILURE: Final = (
    Renew,
    CancelScheduled,
    ReceiveDeferred,
    Peek,
    Purge,
    Question,
    FindOldestSession,
    RenewSession,
    GetSessionState,
    SetSessionState,
    ListSessions,
    Transact,
    CheckLocks,
    ReserveNumbers,
    Seal,
)
"""Commands whose port hears a failure as `failed`."""


def is_request(row: Row) -> bool:
    """Whether a row awaits an answer under its number."""
    code: int = row[0]
    return code <= REQUEST_CODE_MAX or TRANSACT <= code <= RESERVE_NUMBERS


def fail(command: Command, error: BusError) -> None:
    """Tell the port of a command that it cannot be carried out."""
    if isinstance(command, Enqueue | Transfer):
        command.port.refused(command.requests, error)
    elif isinstance(command, Settle):
        if command.port is not None:
            command.port.settled(command.request, (), error)
    elif isinstance(command, WITH_FAILURE):
        command.port.failed(error)
