"""A fragment as the gateway addresses it, wherever it lives.

Owns the one interface to a fragment and its in-process form. The gateway submits commands
and hands out its receivers; it never sees the machine or the store behind the handle.
"""

from typing import Final, Protocol

from partibus.fragment.broker import Broker
from partibus.fragment.commands import Command, Consumer, Receiver, SubQueueType
from partibus.fragment.machine import Machine
from partibus.fragment.sessions.commands import SessionConsumer, SessionReceiver
from partibus.store.interface import StoreState

STORE_DOWN: Final = "its store is down. It is probed until it answers; try again."


class Fragment(Protocol):
    """One fragment of an entity."""

    fragment_id: int
    index: int
    """Its number within the entity: the top 16 bits of sequence numbers (SEQ-4)."""

    def submit(self, command: Command) -> None:
        """Submit a command; answers come to the ports named in it."""
        ...

    def consumer(self, receiver: Receiver, subqueue: SubQueueType, deletes: bool) -> Consumer:
        """A receiver of this fragment, without demand yet."""
        ...

    def session_consumer(self, receiver: SessionReceiver, deletes: bool) -> SessionConsumer:
        """A receiver of one session of this fragment, without a session yet."""
        ...

    @property
    def local(self) -> "LocalFragment | None":
        """The fragment itself, when a broker of this process runs it."""
        ...

    @property
    def is_available(self) -> bool:
        """Whether its store answers."""
        ...

    @property
    def obstacle(self) -> str:
        """Why it is not available, as the middle of a sentence and what follows from it."""
        ...


class LocalFragment:
    """A fragment run by a broker of this process."""

    __slots__ = ("_broker", "fragment_id", "index", "machine")

    def __init__(self, broker: Broker, machine: Machine, index: int) -> None:
        self._broker = broker
        self.machine = machine
        self.fragment_id = machine.state.fragment_id
        self.index = index

    def submit(self, command: Command) -> None:
        self._broker.submit(self.machine, command)

    def consumer(self, receiver: Receiver, subqueue: SubQueueType, deletes: bool) -> Consumer:
        return Consumer(self.fragment_id, receiver, subqueue, deletes)

    def session_consumer(self, receiver: SessionReceiver, deletes: bool) -> SessionConsumer:
        return SessionConsumer(self.fragment_id, receiver, deletes)

    @property
    def local(self) -> "LocalFragment | None":
        return self

    @property
    def is_available(self) -> bool:
        return self._broker.store.state is not StoreState.DOWN

    @property
    def obstacle(self) -> str:
        return STORE_DOWN
