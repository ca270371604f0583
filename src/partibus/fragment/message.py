"""A message as a fragment knows it: numbers and a reference, never its body.

Owns the shapes that pass between gateway and machine: what arrives (`NewMessage`), what is
held while in flight (`Held`) and what was changed about it since (`Overlay`). A queued
message is not an object but a row of columns (see `table`); it becomes a `Held` when
it leaves its table. Bodies stay in the store, bytes of properties are opaque here.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

NEVER_MS: Final = 0
"""In `expires_ms`: the message does not expire."""


class NewMessage:
    """An arriving message: its encoded form and what the machine must know of it."""

    __slots__ = ("body", "message_id", "partition_key", "scheduled_ms", "session_id", "ttl_ms")

    def __init__(
        self,
        body: bytes,
        ttl_ms: int,
        scheduled_ms: int = 0,
        session_id: str | None = None,
        partition_key: str | None = None,
        message_id: str | None = None,
    ) -> None:
        self.body = body
        self.session_id = session_id
        self.partition_key = partition_key
        self.ttl_ms = ttl_ms
        """Time to live asked for by the sender; -1 when none was."""
        self.scheduled_ms = scheduled_ms
        """When it is to become active; 0 at once (SCH-1)."""
        self.message_id = message_id
        """The sender's id where duplicates are detected; None elsewhere (SEED-37), and when the
        sender gave none."""


def key_of(message: NewMessage) -> str | None:
    """The partition key of a message, by order of precedence (SEED-30, SEED-32, SEED-35)."""
    if message.session_id is not None:
        return message.session_id
    return message.partition_key if message.partition_key is not None else message.message_id


@dataclass(eq=False)
class Overlay:
    """What has been changed about a stored message since it was written.

    Settlements may add properties (LCK-10) and dead-lettering gives a reason (DLQ-5). The
    stored body is never rewritten; the gateway lays these over it when it delivers.
    `properties` is a run of encoded key/value pairs in the gateway's encoding, later pairs
    winning over earlier ones.
    """

    properties: bytes = b""
    reason: str | None = None
    description: str | None = None

    def merged(self, newer: "Overlay") -> "Overlay":
        """This overlay with a newer one laid on top."""
        return Overlay(
            self.properties + newer.properties,
            newer.reason if newer.reason is not None else self.reason,
            newer.description if newer.description is not None else self.description,
        )


class MessageState(enum.IntEnum):
    """The values of `x-opt-message-state` (MSG-2)."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


class Held:
    """A message out of the backlog: locked by a receiver, or come back and waiting again."""

    __slots__ = (
        "busy",
        "deferred",
        "delivery_count",
        "enqueued_ms",
        "expires_ms",
        "length",
        "locked_until_ms",
        "overlay",
        "position",
        "sequence",
        "state",
        "token",
    )

    def __init__(
        self,
        sequence: int,
        position: int,
        length: int,
        enqueued_ms: int,
        expires_ms: int,
        delivery_count: int,
        overlay: Overlay | None,
    ) -> None:
        self.sequence = sequence
        self.position = position
        self.length = length
        self.enqueued_ms = enqueued_ms
        self.expires_ms = expires_ms
        self.delivery_count = delivery_count
        self.overlay = overlay
        self.token = 0
        self.locked_until_ms = 0
        self.state = MessageState.ACTIVE
        """The state that its receiver sees: deferred when it was received by its number, scheduled
        when it was before it became active (SCH-4). A peek shows where it is now."""
        self.deferred = False
        """It was received by its number; if released, it goes back to the deferred messages."""
        self.busy = False
        """A settlement of this message is being made durable; no other may begin."""

    def copy_as(self, sequence: int) -> "Held":
        """The same stored message under a number, unlocked."""
        return Held(
            sequence,
            self.position,
            self.length,
            self.enqueued_ms,
            self.expires_ms,
            self.delivery_count,
            self.overlay,
        )

    def lay_over(self, overlay: Overlay | None) -> None:
        """Merge an overlay into what the message already carries."""
        if overlay is not None:
            self.overlay = overlay if self.overlay is None else self.overlay.merged(overlay)


def as_many_as_fit(messages: Iterable[Held], count_max: int, byte_count_max: int) -> list[Held]:
    """The first of some messages within both limits; one is always within that of bytes."""
    found: list[Held] = []
    byte_count = 0
    for held in messages:
        byte_count += held.length
        if len(found) >= count_max or (found and byte_count > byte_count_max):
            break
        found.append(held)
    return found
