"""The changes that a publication makes: at the topic, and in each subscription.

Owns their shapes. One publication is one `Publication` of the topic's fragment and one
`Copies` for each subscription that gets something; all their records go to the store as one
entry, so that every subscription has its copy or none has.
"""

from partibus.fragment.changes import Change, DuplicateCheck
from partibus.fragment.commands import Enqueue
from partibus.fragment.message import Held, NewMessage, Overlay
from partibus.fragment.outbox.marks import Mark
from partibus.store.record import Record


class Copy:
    """One message for one subscription."""

    __slots__ = ("expires_ms", "length", "overlay", "sequence", "session_id", "source")

    def __init__(
        self,
        source: Record | Held,
        length: int,
        sequence: int,
        expires_ms: int,
        session_id: str | None,
        overlay: Overlay | None,
    ) -> None:
        self.source = source
        """Where the body is, once the entry is written; others may share it."""
        self.length = length
        self.sequence = sequence
        self.expires_ms = expires_ms
        self.session_id = session_id
        self.overlay = overlay
        """Why it goes to the dead letters; None for the main subqueue."""


class Copies(Change):
    """Messages of a topic arrive in one subscription."""

    __slots__ = ("byte_count", "copies", "enqueued_ms", "were_scheduled")

    def __init__(self, enqueued_ms: int, were_scheduled: bool) -> None:
        self.records = []
        self.copies: list[Copy] = []
        self.byte_count = 0
        self.enqueued_ms = enqueued_ms
        self.were_scheduled = were_scheduled


class Publication(Change):
    """Messages were numbered by a topic, and wait there or went to its subscriptions."""

    __slots__ = (
        "check",
        "command",
        "due",
        "enqueued_ms",
        "first_sequence",
        "mark",
        "next_sequence",
        "published",
        "scheduled",
    )

    def __init__(
        self, records: list[Record], first_sequence: int, next_sequence: int, enqueued_ms: int
    ) -> None:
        self.records = records
        self.first_sequence = first_sequence
        self.next_sequence = next_sequence
        self.enqueued_ms = enqueued_ms
        self.command: Enqueue | None = None
        """The sender to be answered."""
        self.check: DuplicateCheck | None = None
        self.mark: Mark | None = None
        """What has been taken from the origin of forwarded messages."""
        self.published: list[Record] = []
        """Records whose bodies are in the log for the subscriptions."""
        self.scheduled: list[tuple[int, NewMessage, Record]] = []
        self.due: list[Held] = []
        """Scheduled messages that were published by this."""
