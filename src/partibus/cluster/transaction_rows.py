"""The commands of transactions as rows, and the one answer that only they have.

Owns their codes and their form between workers. A transaction's parts are nested in its row, as the
rows they would be alone; `rows` provides the tables for those and includes these in its own.
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
"""The number of a row inside a transaction: it has a port, but gets no answer."""


def transact_encoder(encoders: Mapping[type[Command], Encode]) -> Encode:
    """How a transaction is encoded as a row, with the encoders for its parts."""

    def encode(command: Transact, number: int, fragment_id: int) -> Row:
        parts = [encoders[type(part)](part, _PART, place) for place, part in command.work]
        return (TRANSACT, number, fragment_id, parts, command.byte_count)

    return encode


def transact_decoder(decoders: Mapping[int, Decode]) -> Decode:
    """How a row is decoded to a transaction; its parts get no answers."""

    def decode(row: Row, port: Any) -> Command:
        work = [(part[2], decoders[part[0]](part, SILENT)) for part in row[3]]
        return Transact(port, work, row[4])

    return decode


def check_locks_row(command: CheckLocks, number: int, fragment_id: int) -> Row:
    """A check of locks as a row."""
    subqueue, outcome = int(command.subqueue), int(command.outcome)
    return (CHECK_LOCKS, number, fragment_id, subqueue, command.tokens, outcome)


def to_check_locks(row: Row, port: Any) -> Command:
    """The check of locks in a row."""
    return CheckLocks(port, SubQueueType(row[3]), row[4], Outcome(row[5]))


def reserve_row(command: ReserveNumbers, number: int, fragment_id: int) -> Row:
    """A reservation of numbers as a row."""
    return (RESERVE_NUMBERS, number, fragment_id, command.count)


def to_reserve(row: Row, port: Any) -> Command:
    """The reservation of numbers in a row."""
    return ReserveNumbers(port, row[3])


def numbered_encoder(message_row: Callable[[NewMessage], Row]) -> Encode:
    """How messages with numbers are encoded as a row."""

    def encode(command: EnqueueNumbered, number: int, fragment_id: int) -> Row:
        messages = [message_row(message) for message in command.messages]
        size, first = command.byte_count, command.first_sequence
        row = (ENQUEUE_NUMBERED, number, fragment_id, messages, size, first)
        return (*row, command.incarnation)

    return encode


def to_numbered(row: Row, port: Any) -> Command:
    """The messages with numbers in a row."""
    messages = [NewMessage(*message) for message in row[3]]
    return EnqueueNumbered(port, messages, row[4], row[5], row[6])


def numbers_reserved(command: Any, row: Row) -> None:
    """Report the reserved numbers to the port of the request."""
    command.port.reserved(row[2], row[3])
