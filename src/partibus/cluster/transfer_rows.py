"""The commands of couriers and of transfers as rows.

Owns their codes and their form between workers; `rows` includes them in its own tables.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from partibus.fragment.commands import Command
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox.commands import Fence, Transfer

TRANSFER: Final = 14
FENCE: Final = 15

Row = Sequence[Any]
MessageRow = Callable[[NewMessage], Row]


def transfer_encoder(message_row: MessageRow) -> Callable[[Transfer, int, int], Row]:
    """How a transfer is encoded as a row, with the encoder for its messages."""

    def encode(command: Transfer, number: int, fragment_id: int) -> Row:
        messages = [message_row(message) for message in command.messages]
        count, size = len(command.requests), command.byte_count
        return (TRANSFER, number, fragment_id, messages, count, size, command.path)

    return encode


def request_places(count: int, messages: list[NewMessage]) -> list[int]:
    """The sends of a command by index; each has at least one message."""
    if count > max(1, len(messages)):
        raise ValueError(f"{count} sends are declared for {len(messages)} messages")
    return list(range(count))


def to_transfer(row: Row, port: Any) -> Command:
    """The transfer in a row."""
    messages = [NewMessage(*message) for message in row[3]]
    return Transfer(port, messages, request_places(row[4], messages), row[5], row[6])


def fence_row(command: Fence, number: int, fragment_id: int) -> Row:
    """A fence as a row."""
    return (FENCE, number, fragment_id, command.origin_id, command.number)


def to_fence(row: Row, port: Any) -> Command:
    """The fence in a row."""
    return Fence(port, row[3], row[4])
