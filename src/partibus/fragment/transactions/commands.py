"""What a transaction asks of fragments.

Owns the commands of transactions: one that carries out the whole work of one as a single
store entry, and those that look or set aside beforehand and change nothing durable. Made by
the gateway; the first is the broker's to carry out, the others are a fragment's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from partibus.domain.errors import BusError
from partibus.fragment.commands import Command, Outcome, SubQueueType
from partibus.fragment.message import NewMessage
from partibus.fragment.ports import AnswerPort, SendPort


class NumbersPort(Protocol):
    """Where numbers go that were set aside."""

    def reserved(self, first_sequence: int, incarnation: int) -> None:
        """The first of them, and the incarnation of the fragment's process that reserved them."""
        ...

    def failed(self, error: BusError) -> None:
        """There are none."""
        ...


class SilentPort:
    """The port of the single parts of a transaction: only the whole is answered."""

    __slots__ = ()

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        """Messages are durable, with all else."""

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """Messages were not stored; the transaction failed."""

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """A settlement ended, with all else."""

    def done(self, count: int) -> None:
        """A part is durable, with all else."""

    def failed(self, error: BusError) -> None:
        """Nothing was changed; the transaction failed."""


SILENT: Final = SilentPort()


@dataclass(eq=False)
class Transact(Command):
    """Carry out all of this, in order and in one store entry, or nothing of it (TXN-2).

    Each part names its fragment, which must be in the store of the fragment that this is
    submitted to. The parts are ordinary commands whose port is `SILENT`."""

    port: AnswerPort
    work: list[tuple[int, Command]]
    byte_count: int
    """The bytes of all messages that it carries."""


@dataclass(eq=False)
class CheckLocks(Command):
    """Tell whether all these locks are held and may be settled so; nothing is changed."""

    port: AnswerPort
    subqueue: SubQueueType
    tokens: list[int]
    outcome: Outcome


@dataclass(eq=False)
class ReserveNumbers(Command):
    """Set sequence numbers aside for messages that are to come.

    What is scheduled in a transaction has its number before the transaction ends (SCH-7).
    Numbers of a transaction that fails are never used."""

    port: NumbersPort
    count: int


@dataclass(eq=False)
class EnqueueNumbered(Command):
    """Store messages that wait for their time under numbers that were set aside for them."""

    port: SendPort
    messages: list[NewMessage]
    byte_count: int
    first_sequence: int
    incarnation: int
    """The incarnation of the fragment's process in which the numbers were set aside."""
