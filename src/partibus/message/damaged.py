"""What is returned instead of a message whose stored bytes failed their checksum.

Owns the text. A peek skips nothing: the number and the times of the message are known, and its body
says what happened. A receive of deferred messages leaves a damaged one out; if there is no other,
that is an error. Called by the operations that peek and that receive deferred messages.
"""

from collections.abc import Sequence
from typing import Final

from partibus.amqp.codec.encode import encode_binary
from partibus.amqp.codec.section_walk import DATA
from partibus.amqp.codec.sections import (
    MessageProperties,
    encode_application_properties,
    encode_properties,
)
from partibus.domain.errors import StoreCorrupt
from partibus.message.envelope import to_stored

DAMAGED_PROPERTY: Final = "PartibusDamaged"
"""The application property by which a program recognises such a message."""
NUMBERS_SHOWN_MAX: Final = 10


def all_damaged(sequences: Sequence[int]) -> StoreCorrupt:
    """The error when none of the requested messages can be read."""
    numbers = ", ".join(map(str, sequences[:NUMBERS_SHOWN_MAX]))
    return StoreCorrupt(
        f"Every stored message that was asked for failed its checksum: {numbers}. The server's log"
        " names the places. Restore them from a backup."
    )


def damaged_message(sequence: int) -> bytes:
    """A message in stored form that represents a damaged one."""
    text = (
        f"The stored message {sequence} failed its checksum and cannot be shown; the server's log"
        " names the place. Restore it from a backup."
    )
    properties = MessageProperties(message_id=f"damaged-{sequence}", subject="Damaged message")
    payload = b"".join(
        (
            encode_properties(properties),
            encode_application_properties({DAMAGED_PROPERTY: True}),
            bytes((0x00, 0x53, DATA)),
            encode_binary(text.encode()),
        )
    )
    return to_stored(payload).body
