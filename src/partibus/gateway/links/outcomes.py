"""What a client's settlement requests: delivery states as outcomes and overlays.

Owns the reading of dispositions (AMQ-2, CON-27) and of the properties that a settlement may
change. Used by receiving links and by settlement through the management node.
"""

from typing import Final

from partibus.amqp import delivery
from partibus.amqp.codec.text import text_of
from partibus.domain.annotations import DEAD_LETTER_DESCRIPTION, DEAD_LETTER_REASON
from partibus.domain.errors import ArgumentError
from partibus.domain.limits import HEADER_BYTES_MAX
from partibus.fragment.commands import Outcome
from partibus.fragment.message import Overlay
from partibus.message.overlay import overlay_pairs

HEADER_SIZE_EXCEEDED: Final = Overlay(
    reason="HeaderSizeExceeded",
    description="The size quota for the header and properties of this message was exceeded.",
)
"""System reason: properties added by settlements pushed a message over the limit (DLQ-6)."""
TEXT_CHARS_MAX: Final = 4096
"""Longer reasons and descriptions are cut, not refused (DLQ-11)."""


def outcome_of(state: delivery.DeliveryState | None) -> tuple[Outcome, Overlay | None, bytes]:
    """What a delivery state asks for, and the state to confirm it with."""
    if isinstance(state, delivery.Accepted):
        return Outcome.COMPLETE, None, delivery.ACCEPTED
    if isinstance(state, delivery.Modified):
        changed = changed_properties(state.annotations)
        if state.undeliverable_here:
            return Outcome.DEFER, changed, delivery.MODIFIED_UNDELIVERABLE
        return Outcome.ABANDON, changed, delivery.MODIFIED
    if isinstance(state, delivery.Rejected):
        info = dict(state.error.info or {}) if state.error is not None else {}
        reason = info.pop(DEAD_LETTER_REASON, None)
        description = info.pop(DEAD_LETTER_DESCRIPTION, None)
        return (
            Outcome.DEAD_LETTER,
            dead_letter_overlay(reason, description, info),
            delivery.REJECTED,
        )
    if isinstance(state, delivery.TransactionalState):
        raise ArgumentError("A transactional state must hold an outcome, not another state.")
    # `released`, and a settlement without a state: unlock without counting a delivery.
    return Outcome.RELEASE, None, delivery.RELEASED


def changed_properties(properties: dict[str, object]) -> Overlay | None:
    """Properties to modify, as an overlay (LCK-10)."""
    if not properties:
        return None
    pairs = overlay_pairs(properties)
    if len(pairs) > HEADER_BYTES_MAX:
        raise ArgumentError(
            f"The properties to modify take {len(pairs)} bytes; the limit is {HEADER_BYTES_MAX}."
        )
    return Overlay(pairs)


def dead_letter_overlay(
    reason: object, description: object, properties: dict[str, object]
) -> Overlay:
    """Reason, description and further properties of a dead-letter settlement (SEED-101)."""
    changed = changed_properties(properties)
    return Overlay(
        changed.properties if changed is not None else b"",
        _cut(text_of(reason)),
        _cut(text_of(description)),
    )


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:TEXT_CHARS_MAX]


def outgrows(header_bytes: int, outcome: Outcome, overlay: Overlay) -> bool:
    """Whether a settlement would make a message's header exceed its limit (MSG-4)."""
    if outcome not in (Outcome.ABANDON, Outcome.DEFER):
        return False
    return header_bytes + len(overlay.properties) > HEADER_BYTES_MAX
