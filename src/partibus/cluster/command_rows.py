"""Every command as a row, and back.

Owns the form of a command that is sent to the process of its fragment: the fields of each, in
order, and incoming messages. Codes, answers and errors are those of `rows`. It must never send,
wait or decide; `remote` encodes and `hosting` decodes.
"""

from collections.abc import Callable
from typing import Any, Final

from partibus.cluster import transaction_rows, transfer_rows
from partibus.cluster.rows import (
    ASK,
    CANCEL_SCHEDULED,
    ENQUEUE,
    FIND_OLDEST_SESSION,
    GET_SESSION_STATE,
    LIST_SESSIONS,
    PEEK,
    PICK,
    PURGE,
    RECEIVE_DEFERRED,
    RENEW,
    RENEW_SESSION,
    SET_SESSION_STATE,
    SETTLE,
    Row,
    overlay_row,
)
from partibus.fragment.commands import (
    CancelScheduled,
    Command,
    Enqueue,
    FindOldestSession,
    GetSessionState,
    ListSessions,
    Outcome,
    Peek,
    Pick,
    Purge,
    Question,
    ReceiveDeferred,
    Renew,
    RenewSession,
    SetSessionState,
    Settle,
    SubQueueType,
)
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.outbox.commands import Fence, Transfer
from partibus.fragment.outbox.marks import Origin
from partibus.fragment.transactions.commands import (
    CheckLocks,
    EnqueueNumbered,
    ReserveNumbers,
    Transact,
)

Encode = Callable[[Any, int, int], Row]
Decode = Callable[[Row, Any], Command]
"""The port accepts any answer that the command may get."""


def message_row(message: NewMessage) -> Row:
    """An incoming message."""
    return (
        message.body,
        message.ttl_ms,
        message.scheduled_ms,
        message.session_id,
        message.partition_key,
        message.message_id,
    )


def _overlay(row: Row | None) -> Overlay | None:
    return None if row is None else Overlay(*row)


def _enqueue_row(command: Enqueue, number: int, fragment_id: int) -> Row:
    messages = [message_row(message) for message in command.messages]
    origin = None
    if command.origin is not None:
        origin = (command.origin.fragment_id, command.origin.numbers)
    size = command.byte_count
    return (ENQUEUE, number, fragment_id, messages, len(command.requests), size, origin)


def _to_enqueue(row: Row, port: Any) -> Command:
    # The sends are identified here by their index in the command; the other end has their
    # numbers.
    messages = [NewMessage(*message) for message in row[3]]
    origin = None if row[6] is None else Origin(*row[6])
    return Enqueue(port, messages, transfer_rows.request_places(row[4], messages), row[5], origin)


def _settle_row(command: Settle, number: int, fragment_id: int) -> Row:
    overlay = None if command.overlay is None else overlay_row(command.overlay)
    subqueue, outcome = int(command.subqueue), int(command.outcome)
    return (SETTLE, number, fragment_id, subqueue, command.tokens, outcome, overlay)


def _to_settle(row: Row, port: Any) -> Command:
    answer = port if row[1] else None
    return Settle(answer, None, SubQueueType(row[3]), row[4], Outcome(row[5]), _overlay(row[6]))


def _renew_row(command: Renew, number: int, fragment_id: int) -> Row:
    return (RENEW, number, fragment_id, int(command.subqueue), command.tokens)


def _to_renew(row: Row, port: Any) -> Command:
    return Renew(port, SubQueueType(row[3]), row[4])


def _cancel_row(command: CancelScheduled, number: int, fragment_id: int) -> Row:
    return (CANCEL_SCHEDULED, number, fragment_id, command.sequences)


def _to_cancel(row: Row, port: Any) -> Command:
    return CancelScheduled(port, row[3])


def _deferred_row(command: ReceiveDeferred, number: int, fragment_id: int) -> Row:
    return (
        RECEIVE_DEFERRED,
        number,
        fragment_id,
        int(command.subqueue),
        command.sequences,
        command.deletes,
        command.session_id,
        command.lock,
    )


def _to_deferred(row: Row, port: Any) -> Command:
    return ReceiveDeferred(port, SubQueueType(row[3]), row[4], row[5], row[6], row[7])


def _peek_row(command: Peek, number: int, fragment_id: int) -> Row:
    return (
        PEEK,
        number,
        fragment_id,
        int(command.subqueue),
        command.from_sequence,
        command.message_count_max,
        command.byte_count_max,
        command.session_id,
        command.only_waiting,
    )


def _to_peek(row: Row, port: Any) -> Command:
    return Peek(port, SubQueueType(row[3]), row[4], row[5], row[6], row[7], row[8])


def _pick_row(command: Pick, number: int, fragment_id: int) -> Row:
    return (PICK, number, fragment_id, int(command.subqueue), command.sequences)


def _to_pick(row: Row, port: Any) -> Command:
    return Pick(port, SubQueueType(row[3]), row[4])


def _purge_row(command: Purge, number: int, fragment_id: int) -> Row:
    return (
        PURGE,
        number,
        fragment_id,
        int(command.subqueue),
        command.message_count_max,
        command.before_ms,
        command.session_id,
    )


def _to_purge(row: Row, port: Any) -> Command:
    return Purge(port, SubQueueType(row[3]), row[4], row[5], row[6])


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
    Pick: _pick_row,
    Purge: _purge_row,
    Question: _question_row,
    FindOldestSession: _find_oldest_row,
    RenewSession: _renew_session_row,
    GetSessionState: _get_state_row,
    SetSessionState: _set_state_row,
    ListSessions: _list_sessions_row,
    Fence: transfer_rows.fence_row,
}
"""From a command, its number and its fragment to a row. Commands of a receiver are rows of a code,
the receiver's number and at most two fields; `remote` makes them."""

DECODERS: Final[dict[int, Decode]] = {
    ENQUEUE: _to_enqueue,
    SETTLE: _to_settle,
    RENEW: _to_renew,
    CANCEL_SCHEDULED: _to_cancel,
    RECEIVE_DEFERRED: _to_deferred,
    PEEK: _to_peek,
    PICK: _to_pick,
    PURGE: _to_purge,
    ASK: _to_question,
    FIND_OLDEST_SESSION: _to_find_oldest,
    RENEW_SESSION: _to_renew_session,
    GET_SESSION_STATE: _to_get_state,
    SET_SESSION_STATE: _to_set_state,
    LIST_SESSIONS: _to_list_sessions,
    transfer_rows.TRANSFER: transfer_rows.to_transfer,
    transfer_rows.FENCE: transfer_rows.to_fence,
}

ENCODERS.update(
    {
        Transfer: transfer_rows.transfer_encoder(message_row),
        Transact: transaction_rows.transact_encoder(ENCODERS),
        CheckLocks: transaction_rows.check_locks_row,
        ReserveNumbers: transaction_rows.reserve_row,
        EnqueueNumbered: transaction_rows.numbered_encoder(message_row),
    }
)
DECODERS.update(
    {
        transaction_rows.TRANSACT: transaction_rows.transact_decoder(DECODERS),
        transaction_rows.CHECK_LOCKS: transaction_rows.to_check_locks,
        transaction_rows.RESERVE_NUMBERS: transaction_rows.to_reserve,
        transaction_rows.ENQUEUE_NUMBERED: transaction_rows.to_numbered,
    }
)
