"""Changes of state that wait for their records to become durable.

A fragment's state is made of durable facts: a command only prepares a `Change`, and the
machine carries it out when the store has its records, or undoes it when the store
failed. So nothing is acknowledged, or seen by a receiver, before it is on disk.
"""

from dataclasses import dataclass

from partibus.fragment.commands import Consumer, Enqueue, Settle, SubQueueType
from partibus.fragment.message import Held, Overlay
from partibus.fragment.outbox.marks import Mark
from partibus.fragment.ports import AnswerPort, MessagesPort
from partibus.store.record import Record


@dataclass(eq=False)
class Change:
    """Base of all changes; `records` are appended together."""

    records: list[Record]


@dataclass(eq=False)
class DuplicateCheck:
    """Which messages of one command are duplicates."""

    identities: list[bytes]
    """Of the messages that are kept, where their senders set ids."""
    dropped: list[int]
    """The indexes of the duplicates in the command."""
    latest: str
    """The MessageId of the last duplicate."""
    seen_ms: int
    stepped_ms: int
    """By how much the clock had been set at that time."""


class Arrival(Change):
    """New messages, with the sequence number of the first."""

    __slots__ = (
        "check",
        "command",
        "enqueued_ms",
        "expires_ms",
        "first_number",
        "first_sequence",
        "mark",
        "onward",
    )

    def __init__(
        self,
        records: list[Record],
        command: Enqueue,
        first_sequence: int,
        enqueued_ms: int,
        expires_ms: list[int],
        check: DuplicateCheck | None = None,
    ) -> None:
        self.records = records
        self.command = command
        self.first_sequence = first_sequence
        self.enqueued_ms = enqueued_ms
        self.expires_ms = expires_ms
        self.check = check
        """Which of them are duplicates, on an entity that detects them."""
        self.onward = ""
        """Where the entity forwards, when the messages enter its outbox at once (FWD-1)."""
        self.mark: Mark | None = None
        """What was taken from their origin with them, when they have one."""
        self.first_number = 0
        """The first of their outbox numbers in that case."""


@dataclass(eq=False)
class Activation(Change):
    """Scheduled messages become active under new numbers (SCH-4)."""

    messages: list[Held]
    first_sequence: int
    activated_ms: int
    expires_ms: list[int]


@dataclass(eq=False)
class Cancellation(Change):
    """Scheduled messages leave before their time."""

    messages: list[Held]
    port: AnswerPort


class Removal(Change):
    """Messages leave a subqueue for good: settled, expired or purged."""

    __slots__ = ("messages", "port", "subqueue")

    def __init__(
        self,
        records: list[Record],
        subqueue: SubQueueType,
        messages: list[Held],
        port: AnswerPort | None = None,
    ) -> None:
        self.records = records
        self.subqueue = subqueue
        self.messages = messages
        self.port = port


class Consumption(Change):
    """Messages leave the queue for a receive-and-delete receiver."""

    __slots__ = ("consumer", "messages")

    def __init__(self, records: list[Record], consumer: Consumer, messages: list[Held]) -> None:
        self.records = records
        self.consumer = consumer
        self.messages = messages


@dataclass(eq=False)
class DeferredConsumption(Change):
    """Deferred messages are consumed by a receiver that asked for their numbers."""

    subqueue: SubQueueType
    messages: list[Held]
    port: MessagesPort


@dataclass(eq=False)
class Return(Change):
    """Messages go back to their place, as a rule with one more delivery counted (DLV-1)."""

    subqueue: SubQueueType
    messages: list[Held]
    overlay: Overlay | None
    counted: bool


@dataclass(eq=False)
class Deferral(Change):
    """Messages leave the active flow and keep their numbers (DEF-1)."""

    subqueue: SubQueueType
    messages: list[Held]
    overlay: Overlay | None
    counted: bool
    """The delivery that ends this way is counted (DLV-3)."""


@dataclass(eq=False)
class DeadLettering(Change):
    """Messages move from the main subqueue to the dead-letter subqueue (DLQ-4)."""

    messages: list[Held]
    overlay: Overlay
    counted: bool
    """The move ends a delivery that counts (abandon, lapse): the count is raised."""
    onward: str = ""
    """Where the entity forwards its dead letters (FWD-5)."""
    first_number: int = 0
    """The first of their outbox numbers in that case."""


class Answer(Change):
    """No change of its own: a reply that must wait for what was prepared before it."""

    __slots__ = ("command", "lost")

    def __init__(self, command: Settle, lost: list[int]) -> None:
        self.records = []
        self.command = command
        self.lost = lost
