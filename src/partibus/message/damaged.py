"""What is shown in the place of a message whose stored bytes failed their checksum.

Owns the words. A peek passes over nothing: the number and the times of the message are known, and
its body says what happened. Called by the operation that peeks.
"""

from typing import Final

from partibus.amqp.codec.encode import encode_binary
from partibus.amqp.codec.section_walk import DATA
from partibus.amqp.codec.sections import (
    MessageProperties,
    encode_application_properties,
    encode_properties,
)
from partibus.message.envelope import to_stored

DAMAGED_PROPERTY: Final = "PartibusDamaged"
"""The application property by which a program knows such a message."""


def damaged_message(sequence: int) -> bytes:
    """A message, in the form in which messages are stored, that stands for a damaged one."""
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
