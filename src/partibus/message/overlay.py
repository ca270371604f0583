"""Changes to a stored message, applied when it is delivered.

Owns the encoding of changed properties (an `Overlay` of the fragment) and how they, the dead-letter
reason and the times of a message get into its sections. The stored body is never changed. Called by
`envelope`, and by those who copy a message.
"""

from partibus.amqp.codec.decode import decode_value
from partibus.amqp.codec.encode import encode_value
from partibus.amqp.codec.sections import (
    decode_application_properties,
    decode_properties,
    encode_application_properties,
    encode_properties,
    parse_sections,
)
from partibus.domain.annotations import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON
from partibus.fragment.message import Overlay
from partibus.message import lifetime


def changed(
    bare: bytes, overlay: Overlay | None, life_ms: int = lifetime.FOREVER, enqueued_ms: int = 0
) -> bytes:
    """The bare message with its times set and changed properties applied."""
    sections = parse_sections(bare)
    properties = decode_properties(bare, sections)
    if life_ms >= 0:
        lifetime.set_times(properties, life_ms, enqueued_ms)
    out = encode_properties(properties)
    application = decode_application_properties(bare, sections)
    if overlay is not None:
        lay_over(application, overlay)
    if application:
        out += encode_application_properties(application)
    rest = max(sections.properties_end, sections.application_end, 0)
    return out + bare[rest:]


def lay_over(application: dict[str, object], overlay: Overlay) -> None:
    """Apply changed properties, then the dead-letter reason (LCK-10, DLQ-5)."""
    at = 0
    end = len(overlay.properties)
    while at < end:
        key, at = decode_value(overlay.properties, at, end)
        value, at = decode_value(overlay.properties, at, end)
        application[str(key)] = value
    if overlay.reason is not None:
        application[DEAD_LETTER_REASON] = overlay.reason
    if overlay.description is not None:
        application[DEAD_LETTER_DESCRIPTION] = overlay.description


def overlay_pairs(properties: dict[str, object]) -> bytes:
    """Changed properties in the encoding that `lay_over` reads."""
    return b"".join(encode_value(str(k)) + encode_value(v) for k, v in properties.items())
