"""Every command as a row, and back.

Owns the form of a command that is sent to the process of its fragment: the fields of each, in
order, and incoming messages. The codes are those of `codes`; answers and errors are in `rows`. It
must never send, wait or decide; `remote` encodes and `hosting` decodes.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from partibus.cluster import codes
from partibus.cluster.rows import Row, overlay_row
from partibus.fragment import commands
from partibus.fragment.commands import Command, Enqueue, Outcome, Settle, SubQueueType
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.outbox.commands import Fence, Transfer
from partibus.fragment.outbox.marks import Origin
from partibus.fragment.sessions import commands as sessions
from partibus.fragment.transactions import commands as transactions

Encode = Callable[[Any, int, int], Row]
"""From a command, its number and its fragment to a row."""
Decode = Callable[[Row, Any], Command]
"""The port accepts any answer that the command may get."""

_FIRST_FIELD: Final = 3
_PART: Final = 1
"""The number of a row inside a transaction: it has a port, but gets no answer."""


# --- commands that carry the traffic: written out, because they run for every message -------------


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


def _request_places(count: int, messages: list[NewMessage]) -> list[int]:
    """The sends of a command by index, since only the other end has their numbers; each has at
    least one message."""
    if count > max(1, len(messages)):
        raise ValueError(f"{count} sends are declared for {len(messages)} messages")
    return list(range(count))


def _enqueue_row(command: Enqueue, number: int, fragment_id: int) -> Row:
    messages = [message_row(message) for message in command.messages]
    origin = None
    if command.origin is not None:
        origin = (command.origin.fragment_id, command.origin.numbers)
    size = command.byte_count
    return (codes.ENQUEUE, number, fragment_id, messages, len(command.requests), size, origin)


def _to_enqueue(row: Row, port: Any) -> Command:
    messages = [NewMessage(*message) for message in row[3]]
    origin = None if row[6] is None else Origin(*row[6])
    return Enqueue(port, messages, _request_places(row[4], messages), row[5], origin)


def _settle_row(command: Settle, number: int, fragment_id: int) -> Row:
    overlay = None if command.overlay is None else overlay_row(command.overlay)
    subqueue, outcome = int(command.subqueue), int(command.outcome)
    return (codes.SETTLE, number, fragment_id, subqueue, command.tokens, outcome, overlay)


def _to_settle(row: Row, port: Any) -> Command:
    answer = port if row[1] else None
    overlay = None if row[6] is None else Overlay(*row[6])
    return Settle(answer, None, SubQueueType(row[3]), row[4], Outcome(row[5]), overlay)


def _transfer_row(command: Transfer, number: int, fragment_id: int) -> Row:
    messages = [message_row(message) for message in command.messages]
    count, size = len(command.requests), command.byte_count
    return (codes.TRANSFER, number, fragment_id, messages, count, size, command.path)


def _to_transfer(row: Row, port: Any) -> Command:
    messages = [NewMessage(*message) for message in row[3]]
    return Transfer(port, messages, _request_places(row[4], messages), row[5], row[6])


# --- transactions: their parts are nested, as the rows that they would be alone -------------------


def _transact_row(command: transactions.Transact, number: int, fragment_id: int) -> Row:
    parts = [ENCODERS[type(part)](part, _PART, place) for place, part in command.work]
    return (codes.TRANSACT, number, fragment_id, parts, command.byte_count)


def _to_transact(row: Row, port: Any) -> Command:
    work = [(part[2], DECODERS[part[0]](part, transactions.SILENT)) for part in row[3]]
    return transactions.Transact(port, work, row[4])


def _numbered_row(command: transactions.EnqueueNumbered, number: int, fragment_id: int) -> Row:
    messages = [message_row(message) for message in command.messages]
    numbers = (command.first_sequence, command.incarnation)
    return (codes.ENQUEUE_NUMBERED, number, fragment_id, messages, command.byte_count, *numbers)


def _to_numbered(row: Row, port: Any) -> Command:
    messages = [NewMessage(*message) for message in row[3]]
    return transactions.EnqueueNumbered(port, messages, row[4], row[5], row[6])


# --- rare commands: their fields in order ---------------------------------------------------------

_FIELDS: Final[dict[type[Command], tuple[int, tuple[str, ...]]]] = {
    commands.Renew: (codes.RENEW, ("subqueue", "tokens")),
    commands.CancelScheduled: (codes.CANCEL_SCHEDULED, ("sequences",)),
    commands.ReceiveDeferred: (
        codes.RECEIVE_DEFERRED,
        ("subqueue", "sequences", "deletes", "session_id", "lock"),
    ),
    commands.Peek: (
        codes.PEEK,
        (
            "subqueue",
            "from_sequence",
            "message_count_max",
            "byte_count_max",
            "session_id",
            "only_waiting",
        ),
    ),
    commands.Pick: (codes.PICK, ("subqueue", "sequences")),
    commands.Purge: (codes.PURGE, ("subqueue", "message_count_max", "before_ms", "session_id")),
    commands.Question: (codes.ASK, ("name", "payload")),
    sessions.FindOldestSession: (codes.FIND_OLDEST_SESSION, ()),
    sessions.RenewSession: (codes.RENEW_SESSION, ("session_id", "lock")),
    sessions.GetSessionState: (codes.GET_SESSION_STATE, ("session_id", "lock")),
    sessions.SetSessionState: (codes.SET_SESSION_STATE, ("session_id", "lock", "state")),
    sessions.ListSessions: (codes.LIST_SESSIONS, ("updated_after_ms", "skip", "count_max")),
    Fence: (codes.FENCE, ("origin_id", "number")),
    transactions.CheckLocks: (codes.CHECK_LOCKS, ("subqueue", "tokens", "outcome")),
    transactions.ReserveNumbers: (codes.RESERVE_NUMBERS, ("count",)),
}
"""The code of each, and the fields after its port, in the order of its parameters."""
_ENUMERATIONS: Final[dict[str, Callable[[int], object]]] = {
    "subqueue": SubQueueType,
    "outcome": Outcome,
}


def _encoder(code: int, fields: Sequence[str]) -> Encode:
    def encode(command: Any, number: int, fragment_id: int) -> Row:
        return (code, number, fragment_id, *[getattr(command, name) for name in fields])

    return encode


def _decoder(kind: Callable[..., Command], fields: Sequence[str]) -> Decode:
    places = [(at, _ENUMERATIONS.get(name)) for at, name in enumerate(fields, _FIRST_FIELD)]

    def decode(row: Row, port: Any) -> Command:
        return kind(port, *[row[at] if made is None else made(row[at]) for at, made in places])

    return decode


ENCODERS: Final[dict[type[Command], Encode]] = {
    Enqueue: _enqueue_row,
    Settle: _settle_row,
    Transfer: _transfer_row,
    transactions.Transact: _transact_row,
    transactions.EnqueueNumbered: _numbered_row,
    **{kind: _encoder(code, fields) for kind, (code, fields) in _FIELDS.items()},
}
"""Commands of a receiver are rows of a code, the receiver's number and at most two fields; `remote`
makes them."""

DECODERS: Final[dict[int, Decode]] = {
    codes.ENQUEUE: _to_enqueue,
    codes.SETTLE: _to_settle,
    codes.TRANSFER: _to_transfer,
    codes.TRANSACT: _to_transact,
    codes.ENQUEUE_NUMBERED: _to_numbered,
    **{code: _decoder(kind, fields) for kind, (code, fields) in _FIELDS.items()},
}
