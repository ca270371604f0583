"""The commands of transactions as rows, and the one answer that is theirs alone.

Owns their codes and their form between workers. A transaction's parts travel inside its row
as the rows they would be alone; `rows` gives the tables of those and has these in its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from partibus.fragment.commands import Command, Outcome, SubQueueType
from partibus.fragment.message import NewMessage
from partibus.fragment.transactions.commands import (
    SILENT,
    CheckLocks,
    EnqueueNumbered,
    ReserveNumbers,
    Transact,
)

TRANSACT: Final = 64
CHECK_LOCKS: Final = 65
RESERVE_NUMBERS: Final = 66
ENQUEUE_NUMBERED: Final = 67
"""Only within a transaction."""
RESERVED: Final = 72

Row = Sequence[Any]
Encode = Callable[[Any, int, int], Row]
Decode = Callable[[Row, Any], Command]

_PART: Final = 1
"""The number of a row inside a transaction: it has a port, and nothing is answered to it."""


def transact_encoder(encoders: Mapping[type[Command], Encode]) -> Encode:
    """How a transaction becomes a row, with the means for its parts."""

    def encode(command: Transact, number: int, fragment_id: int) -> Row:
        parts = [encoders[type(part)](part, _PART, place) for place, part in command.work]
        return (TRANSACT, number, fragment_id, parts, command.byte_count)

    return encode


def transact_decoder(decoders: Mapping[int, Decode]) -> Decode:
    """How a row becomes a transaction; its parts are answered to nobody."""

    def decode(row: Row, port: Any) -> Command:
        work = [(part[2], decoders[part[0]](part, SILENT)) for part in row[3]]
        return Transact(port, work, row[4])

    return decode


def check_locks_row(command: CheckLocks, number: int, fragment_id: int) -> Row:
    """A look at locks."""
    subqueue, outcome = int(command.subqueue), int(command.outcome)
    return (CHECK_LOCKS, number, fragment_id, subqueue, command.tokens, outcome)


def to_check_locks(row: Row, port: Any) -> Command:
    """A look at locks, again."""
    return CheckLocks(port, SubQueueType(row[3]), row[4], Outcome(row[5]))


def reserve_row(command: ReserveNumbers, number: int, fragment_id: int) -> Row:
    """A wish for numbers."""
    return (RESERVE_NUMBERS, number, fragment_id, command.count)


def to_reserve(row: Row, port: Any) -> Command:
    """A wish for numbers, again."""
    return ReserveNumbers(port, row[3])


def numbered_encoder(message_row: Callable[[NewMessage], Row]) -> Encode:
    """How messages with numbers become a row."""

    def encode(command: EnqueueNumbered, number: int, fragment_id: int) -> Row:
        messages = [message_row(message) for message in command.messages]
        size, first = command.byte_count, command.first_sequence
        row = (ENQUEUE_NUMBERED, number, fragment_id, messages, size, first)
        return (*row, command.incarnation)

    return encode


def to_numbered(row: Row, port: Any) -> Command:
    """Messages with numbers, again."""
    messages = [NewMessage(*message) for message in row[3]]
    return EnqueueNumbered(port, messages, row[4], row[5], row[6])


def numbers_reserved(command: Any, row: Row) -> None:
    """Tell the port of a wish for numbers which it got."""
    command.port.reserved(row[2], row[3])
