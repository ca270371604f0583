"""Everything a fragment can be asked to do, as data.

Commands are batches where traffic is heavy: one `Enqueue` carries all that one read of a
socket brought, one `Settle` a whole range of deliveries. Answers go to the port named in
the command, messages to a `Receiver`; both may live here or at the far end of a socket.
"""

import enum
from collections.abc import Sequence
from typing import Protocol

from partibus.domain.errors import BusError
from partibus.fragment.message import Held, NewMessage, Overlay


class Lane(enum.IntEnum):
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


class SendPort(Protocol):
    """Where the answers to sends go."""

    def confirmed(self, requests: Sequence[int], first_sequence: int) -> None:
        """The sends with these numbers are durable; their messages are numbered on from here."""
        ...

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """The sends with these numbers were not stored."""
        ...


class SettlePort(Protocol):
    """Where the answers to settlements go."""

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """A settlement ended: `lost` are the tokens that held no lock, `error` failed all."""
        ...


class RenewPort(Protocol):
    """Where the answers to renewals go."""

    def renewed(self, until_ms: Sequence[int]) -> None:
        """Locks were renewed until these times, in the order asked; 0 for a lost lock."""
        ...

    def failed(self, error: BusError) -> None:
        """It is not known whether they were: the fragment is out of reach."""
        ...


class AnswerPort(Protocol):
    """Where an operation that simply ends is answered."""

    def done(self, count: int) -> None:
        """It is durable; so many messages were concerned."""
        ...

    def failed(self, error: BusError) -> None:
        """Nothing was changed."""
        ...


class MessagesPort(Protocol):
    """Where messages go that were asked for apart from a receiving link."""

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """The messages, in order, with their bodies."""
        ...

    def failed(self, error: BusError) -> None:
        """They cannot be had."""
        ...


class Receiver(Protocol):
    """Where messages go: the far end of a receiving link."""

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        """Messages for this receiver, in order, with their bodies."""
        ...

    def drained(self) -> None:
        """Nothing more is there for the demand that was to be drained."""
        ...

    def available(self) -> None:
        """Messages wait, after interest in them was shown; told once."""
        ...

    def interrupted(self) -> None:
        """The fragment is out of reach: demand and interest are void, locks may be lost."""
        ...

    def resumed(self) -> None:
        """The fragment can be reached again and knows nothing of this receiver: ask anew."""
        ...


class Consumer:
    """A receiver as the machine sees it: how much it was given and how much it may have."""

    __slots__ = (
        "consuming",
        "deletes",
        "draining",
        "fragment_id",
        "gone",
        "lane",
        "limit",
        "receiver",
        "sent",
        "waiting",
    )

    def __init__(self, fragment_id: int, receiver: Receiver, lane: Lane, deletes: bool) -> None:
        self.fragment_id = fragment_id
        self.receiver = receiver
        self.lane = lane
        self.deletes = deletes
        """Receive-and-delete: a message is gone once it is handed over (SEED-93)."""
        self.sent = 0
        """Messages given since the beginning."""
        self.limit = 0
        """Messages it may have been given in all; a running total, so that no credit is
        counted twice whatever is under way."""
        self.waiting = False
        self.draining = False
        self.consuming = 0
        """Messages taken for it whose removal is not durable yet."""
        self.gone = False
        """The receiver has left; what is still on its way to it goes back."""


class Command:
    """Base of all commands."""

    __slots__ = ()


class Enqueue(Command):
    """Store messages and confirm the given send numbers once they are durable."""

    __slots__ = ("byte_count", "messages", "port", "requests")

    def __init__(
        self, port: SendPort, messages: list[NewMessage], requests: list[int], byte_count: int
    ) -> None:
        self.port = port
        self.messages = messages
        self.requests = requests
        self.byte_count = byte_count


class Demand(Command):
    """A receiver may now have `limit` messages in all; `drain` asks for an end."""

    __slots__ = ("consumer", "drain", "limit")

    def __init__(self, consumer: Consumer, limit: int, drain: bool) -> None:
        self.consumer = consumer
        self.limit = limit
        self.drain = drain


class Interest(Command):
    """A receiver without demand wants to hear when messages wait.

    A receiver of several fragments asks those that have something: its credit is never
    given out twice, and no message is locked that it has no room for (PRE-5)."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer


class Detach(Command):
    """A receiver leaves; its locks stay until they lapse (LCK-7)."""

    __slots__ = ("consumer",)

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer


class Settle(Command):
    """Settle locked messages by their tokens."""

    __slots__ = ("lane", "outcome", "overlay", "port", "request", "tokens")

    def __init__(
        self,
        port: SettlePort | None,
        request: object,
        lane: Lane,
        tokens: list[int],
        outcome: Outcome,
        overlay: Overlay | None = None,
    ) -> None:
        self.port = port
        self.request = request
        self.lane = lane
        self.tokens = tokens
        self.outcome = outcome
        self.overlay = overlay


class Renew(Command):
    """Extend locks by the entity's lock duration from now (LCK-3)."""

    __slots__ = ("lane", "port", "tokens")

    def __init__(self, port: RenewPort, lane: Lane, tokens: list[int]) -> None:
        self.port = port
        self.lane = lane
        self.tokens = tokens


class DropLocks(Command):
    """Let every lock lapse at once, as after the loss of the locks' own memory (SEED-107)."""

    __slots__ = ()


class CancelScheduled(Command):
    """Remove scheduled messages before their time, all or none (SCH-3)."""

    __slots__ = ("port", "sequences")

    def __init__(self, port: AnswerPort, sequences: list[int]) -> None:
        self.port = port
        self.sequences = sequences


class ReceiveDeferred(Command):
    """Receive deferred messages by their numbers, all or none (DEF-2, DEF-3)."""

    __slots__ = ("deletes", "lane", "port", "sequences")

    def __init__(self, port: MessagesPort, lane: Lane, sequences: list[int], deletes: bool) -> None:
        self.port = port
        self.lane = lane
        self.sequences = sequences
        self.deletes = deletes


class Peek(Command):
    """Look at messages from a number on, whatever their state (PEK-1)."""

    __slots__ = ("byte_count_max", "from_sequence", "lane", "message_count_max", "port")

    def __init__(
        self,
        port: MessagesPort,
        lane: Lane,
        from_sequence: int,
        message_count_max: int,
        byte_count_max: int,
    ) -> None:
        self.port = port
        self.lane = lane
        self.from_sequence = from_sequence
        self.message_count_max = message_count_max
        self.byte_count_max = byte_count_max


class Purge(Command):
    """Delete waiting messages that were enqueued before a time, oldest first (BAT-6)."""

    __slots__ = ("before_ms", "lane", "message_count_max", "port")

    def __init__(
        self, port: AnswerPort, lane: Lane, message_count_max: int, before_ms: int
    ) -> None:
        self.port = port
        self.lane = lane
        self.message_count_max = message_count_max
        self.before_ms = before_ms


class QuestionPort(Protocol):
    """Where the answer to a question goes."""

    def answered(self, payload: bytes) -> None:
        """What the process says, in JSON."""
        ...

    def failed(self, error: BusError) -> None:
        """It gave no answer."""
        ...


class Question(Command):
    """An administrative question to the process that runs a fragment, not to the fragment."""

    __slots__ = ("name", "payload", "port")

    def __init__(self, port: QuestionPort, name: str, payload: bytes) -> None:
        self.port = port
        self.name = name
        self.payload = payload
        """An object in JSON."""


class Undelivered(Command):
    """Messages could not be handed over: they were damaged, or the store is down."""

    __slots__ = ("consumer", "damaged", "messages")

    def __init__(self, consumer: Consumer, messages: list[Held], damaged: bool) -> None:
        self.consumer = consumer
        self.messages = messages
        self.damaged = damaged


class Suspend(Command):
    """The store is down: hand nothing out until `Resume`."""

    __slots__ = ()


class Resume(Command):
    """The store answers again."""

    __slots__ = ()


class Tick(Command):
    """Time has passed: let locks lapse and messages expire."""

    __slots__ = ()
