"""What is shown in the place of a damaged message."""

from partibus.amqp.codec.sections import (
    decode_application_properties,
    decode_properties,
    parse_sections,
)
from partibus.fragment.message import Held
from partibus.message.damaged import DAMAGED_PROPERTY, damaged_message
from partibus.message.envelope import to_peeked


def test_it_has_the_number_of_the_message_and_says_what_happened() -> None:
    held = Held(7, 100, 50, 1_700_000_000_000, 0, 0, None)
    payload = to_peeked(damaged_message(7), held, 7)
    sections = parse_sections(payload)
    assert decode_properties(payload, sections).message_id == "damaged-7"
    assert decode_application_properties(payload, sections) == {DAMAGED_PROPERTY: True}
    assert b"The stored message 7 failed its checksum" in payload
