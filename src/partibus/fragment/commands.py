"""What every fragment can be asked to do, as data; features add commands of their own.

Commands are batches where traffic is heavy: one `Enqueue` carries all that one read of a socket
brought, one `Settle` a whole range of deliveries. Answers go to the port named in the command,
messages to a `Receiver`; both may be in this process or at the other end of a socket.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from partibus.domain.errors import BusError
from partibus.fragment.message import Held, NewMessage, Overlay
from partibus.fragment.outbox.marks import Origin
from partibus.fragment.ports import (
    AnswerPort,
    FailurePort,
    MessagesPort,
    QuestionPort,
    RenewPort,
    SendPort,
    SettlePort,
)
from partibus.fragment.upkeep.slices import Allowance


class SubQueueType(enum.IntEnum):
    """The sub-queues of a fragment (DLQ-1)."""

    MAIN = 0
    DEAD_LETTER = 1
    TRANSFER_DEAD_LETTER = 2


class Outcome(enum.IntEnum):
    """How a receiver settles a locked message (SEED-99 to SEED-102)."""

    COMPLETE = 0
    ABANDON = 1
    DEAD_LETTER = 2
    RELEASE = 3
    DEFER = 4


class Receiver(Protocol):
    """Where messages go: the other end of a receiving link."""

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """Messages for this receiver, in order, with their bodies."""
        ...

    def drained(self) -> None:
        """The drain has ended: no more messages for this demand."""
        ...

    def available(self) -> None:
        """Messages are waiting, after an `Interest`; called once."""
        ...

    def interrupted(self) -> None:
        """The fragment is unreachable: demand and interest are void, locks may be lost."""
        ...

    def resumed(self) -> None:
        """The fragment is reachable again and has no demand of this receiver: send it again."""
        ...


class Consumer:
    """A receiver as the machine sees it: how many messages it got and how many it may get."""

    __slots__ = (
        "consuming",
        "deletes",
        "draining",
        "fragment_id",
        "gone",
        "limit",
        "receiver",
        "sent",
        "subqueue",
        "waiting",
    )

    def __init__(
        self, fragment_id: int, receiver: Receiver, subqueue: SubQueueType, deletes: bool
    ) -> None:
        self.fragment_id = fragment_id
        self.receiver = receiver
        self.subqueue = subqueue
        self.deletes = deletes
        """Receive-and-delete: a message is gone once it is handed over (SEED-93)."""
        self.sent = 0
        """Messages delivered since the beginning."""
        self.limit = 0
        """How many messages it may get in all; a running total, so that no credit is counted twice
        whatever is in flight."""
        self.waiting = False
        self.draining = False
        self.consuming = 0
        """Messages taken for it whose removal is not durable yet."""
        self.gone = False
        """The receiver has left; deliveries that are not yet made go back."""


class Command:
    """Base of all commands."""

    __slots__ = ()

    def refuse(self, error: BusError) -> None:
        """Report that it is not carried out to whoever waits for its answer: here nobody does."""


class AnsweredCommand(Command):
    """A command whose `port` gets one answer, or the failure; each declares the type of it."""

    __slots__ = ()

    def refuse(self, error: BusError) -> None:
        # A compiled class cannot give an attribute of its base a narrower type.
        port: FailurePort = getattr(self, "port")  # noqa: B009
        port.failed(error)


class Enqueue(Command):
    """Store messages and confirm the given send numbers once they are durable."""

    __slots__ = ("byte_count", "messages", "origin", "port", "requests")

    def __init__(
        self,
        port: SendPort,
        messages: list[NewMessage],
        requests: list[int],
        byte_count: int,
        origin: Origin | None = None,
    ) -> None:
        self.port = port
        self.messages = messages
        self.requests = requests
        self.byte_count = byte_count
        self.origin = origin
        """The origin of parcels that another entity hands over (TXN-17)."""

    def refuse(self, error: BusError) -> None:
        self.port.refused(self.requests, error)


class Demand(Command):
    """A receiver may now have `limit` messages in all; with `drain` an end is reported."""

    __slots__ = ("consumer", "drain", "limit")

    def __init__(self, consumer: Consumer, limit: int, drain: bool) -> None:
        self.consumer = consumer
        self.limit = limit
        self.drain = drain

    def refuse(self, error: BusError) -> None:
        if self.drain:
            self.consumer.receiver.drained()


class Interest(Command):
    """A receiver without demand wants to be notified when messages wait.

    A receiver of several fragments sends demand only to those that have messages: its credit is
    never used twice, and no message is locked without room for it (PRE-5).
    """

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer


@dataclass(eq=False)
class Detach(Command):
    """A receiver leaves; its locks stay until they lapse (LCK-7)."""

    consumer: Consumer


class Settle(Command):
    """Settle locked messages by their tokens."""

    __slots__ = ("outcome", "overlay", "port", "request", "subqueue", "tokens")

    def __init__(
        self,
        port: SettlePort | None,
        request: object,
        subqueue: SubQueueType,
        tokens: list[int],
        outcome: Outcome,
        overlay: Overlay | None = None,
    ) -> None:
        self.port = port
        self.request = request
        self.subqueue = subqueue
        self.tokens = tokens
        self.outcome = outcome
        self.overlay = overlay

    def refuse(self, error: BusError) -> None:
        if self.port is not None:
            self.port.settled(self.request, (), error)


@dataclass(eq=False)
class Renew(AnsweredCommand):
    """Extend locks by the entity's lock duration from now (LCK-3)."""

    port: RenewPort
    subqueue: SubQueueType
    tokens: list[int]


class DropLocks(Command):
    """Let every lock lapse at once, as if the memory of locks were lost (SEED-107)."""

    __slots__ = ()


@dataclass(eq=False)
class CancelScheduled(AnsweredCommand):
    """Remove scheduled messages before their time, all or none (SCH-3)."""

    port: AnswerPort
    sequences: list[int]


@dataclass(eq=False)
class ReceiveDeferred(AnsweredCommand):
    """Receive deferred messages by their numbers, all or none (DEF-2, DEF-3)."""

    port: MessagesPort
    subqueue: SubQueueType
    sequences: list[int]
    deletes: bool
    session_id: str | None = None
    """The session that they are in, where the entity requires sessions (DEF-7)."""
    lock: int = 0
    """The number of the session's lock."""


@dataclass(eq=False)
class Peek(AnsweredCommand):
    """Look at messages from a number on, whatever their state (PEK-1)."""

    port: MessagesPort
    subqueue: SubQueueType
    from_sequence: int
    message_count_max: int
    byte_count_max: int
    session_id: str | None = None
    """Only the messages of this session; None for all (PEK-3, PEK-10)."""
    only_waiting: bool = False
    """Only messages that could be delivered now (JMS-7)."""


@dataclass(eq=False)
class Pick(AnsweredCommand):
    """Lock messages by their numbers, as many of them as still wait (JMS-5)."""

    port: MessagesPort
    subqueue: SubQueueType
    sequences: list[int]


@dataclass(eq=False)
class Purge(AnsweredCommand):
    """Delete waiting messages that were enqueued before a time, oldest first (BAT-6)."""

    port: AnswerPort
    subqueue: SubQueueType
    message_count_max: int
    before_ms: int
    session_id: str | None = None
    """Only the messages of this session; None for all."""


@dataclass(eq=False)
class Question(AnsweredCommand):
    """An administrative question to the process that runs a fragment, not to the fragment."""

    port: QuestionPort
    name: str
    payload: bytes
    """An object in JSON."""


@dataclass(eq=False)
class Undelivered(Command):
    """Messages could not be delivered: they were damaged, or the store is down."""

    consumer: Consumer
    messages: list[Held]
    damaged: bool


class Suspend(Command):
    """The store is down: deliver nothing until `Resume`."""

    __slots__ = ()


class Resume(Command):
    """The store answers again."""

    __slots__ = ()


class Tick(Command):
    """Time has passed: let locks lapse and messages expire, as many as are allowed."""

    __slots__ = ("allowance",)

    def __init__(self, allowance: Allowance | None = None) -> None:
        self.allowance = allowance if allowance is not None else Allowance()
