"""What a transaction asks of fragments.

Owns the commands of transactions: one that carries out a whole transaction as a single store entry,
and those that check or reserve beforehand and change nothing durable. Made by the gateway; the
broker carries out the first, a fragment the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import AnsweredCommand, Command, Outcome, SubQueueType
from partibus.fragment.message import NewMessage
from partibus.fragment.ports import AnswerPort, FailurePort, SendPort


class NumbersPort(FailurePort, Protocol):
    """Where reserved numbers go."""

    def reserved(self, first_sequence: int, incarnation: int) -> None:
        """The first of them, and the incarnation of the fragment's process that reserved them."""
        ...


class SilentPort:
    """The port of the single parts of a transaction: only the whole is answered."""

    __slots__ = ()

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """Messages are durable, with everything else."""

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """Messages were not stored; the transaction failed."""

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """A settlement ended, with everything else."""

    def done(self, count: int) -> None:
        """A part is durable, with everything else."""

    def failed(self, error: BusError) -> None:
        """Nothing was changed; the transaction failed."""


SILENT: Final = SilentPort()


@dataclass(eq=False)
class Transact(AnsweredCommand):
    """Carry out all parts, in order and in one store entry, or none (TXN-2).

    Each part names its fragment, which must be in the store of the fragment that this is
    submitted to. The parts are ordinary commands whose port is `SILENT`.
    """

    port: AnswerPort
    work: list[tuple[int, Command]]
    byte_count: int
    """The bytes of all messages that it carries."""


@dataclass(eq=False)
class CheckLocks(AnsweredCommand):
    """Check that all these locks are held and allow this settlement; nothing is changed."""

    port: AnswerPort
    subqueue: SubQueueType
    tokens: list[int]
    outcome: Outcome


@dataclass(eq=False)
class ReserveNumbers(AnsweredCommand):
    """Reserve sequence numbers for later messages.

    What is scheduled in a transaction has its number before the transaction ends (SCH-7).
    Numbers of a transaction that fails are never used.
    """

    port: NumbersPort
    count: int


@dataclass(eq=False)
class EnqueueNumbered(Command):
    """Store scheduled messages under numbers that were reserved for them."""

    port: SendPort
    messages: list[NewMessage]
    byte_count: int
    first_sequence: int
    incarnation: int
    """The incarnation of the fragment's process that reserved the numbers."""

    def refuse(self, error: BusError) -> None:
        self.port.refused((0,), error)
