"""Time to live: messages that nobody received in time.

Owns what happens to expired messages: dropped, or dead-lettered when the entity says so (TTL-6).
Locked messages do not expire while locked (TTL-5), deferred ones not until they are asked for
(TTL-10), dead letters never (TTL-9).
"""

from typing import Final

from partibus.fragment.changes import DeadLettering, Removal
from partibus.fragment.commands import SubQueueType
from partibus.fragment.effects import Effects
from partibus.fragment.message import Held, Overlay
from partibus.fragment.outbox.departures import number_departure
from partibus.fragment.outbox.state import Purpose
from partibus.fragment.queue.delivery import removal
from partibus.fragment.records import DEAD_LETTERED, pack_overlay, pack_sequences
from partibus.fragment.state import State
from partibus.store.record import Record

SWEEP_INTERVAL_MS: Final = 1000
"""Expired messages that nobody receives are removed within this time (TTL-7)."""

EXPIRED: Final = Overlay(
    reason="TTLExpiredException", description="The message expired and was dead-lettered."
)


def expire(state: State, expired: list[Held], out: Effects) -> None:
    """Drop or dead-letter messages of the main subqueue that are out of its tables."""
    state.tally.expired += len(expired)
    state.main.leave(expired)
    if state.spec.dead_letter_on_expiry:
        dead_letter(state, expired, EXPIRED, False, out)
    else:
        out.changes.append(Removal([removal(state, expired)], SubQueueType.MAIN, expired))


def dead_letter(
    state: State, held: list[Held], overlay: Overlay, counted: bool, out: Effects
) -> None:
    """Prepare the move of messages to the dead-letter subqueue, and on from there (FWD-5)."""
    sequences = [message.sequence for message in held]
    meta = bytes((counted,)) + pack_overlay(overlay) + pack_sequences(sequences)
    record = Record(state.fragment_id, DEAD_LETTERED, meta, b"")
    change = DeadLettering([record], held, overlay, counted)
    path = state.spec.forward_dead_letters_to
    if path:
        purpose = Purpose.DEAD_LETTER
        change.first_number, departure = number_departure(state, sequences, purpose, path)
        change.onward = path
        change.records.append(departure)
    out.changes.append(change)


def next_sweep_ms(state: State) -> int | None:
    """When to look for expired messages."""
    floor_ms = state.main.ready.next_expiry_ms()
    if floor_ms is None:
        return None
    return (floor_ms // SWEEP_INTERVAL_MS + 1) * SWEEP_INTERVAL_MS
