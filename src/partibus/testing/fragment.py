"""A fragment on a memory store, driven by hand: for tests of the machine and its broker.

Owns a broker with one fragment, a manual clock, and ports that remember what they were told.
Shipped, because whoever extends the machine needs the same bench.
"""

from collections.abc import Sequence

from partibus.domain.errors import BusError
from partibus.fragment.broker import Broker
from partibus.fragment.commands import (
    Consumer,
    Demand,
    Detach,
    Enqueue,
    Lane,
    Outcome,
    Renew,
    Settle,
)
from partibus.fragment.message import Held, NewMessage, Overlay
from partibus.fragment.spec import FragmentSpec
from partibus.store.interface import Store
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler


class Ports:
    """Remembers every answer."""

    def __init__(self) -> None:
        self.confirmations: list[int] = []
        self.refusals: list[tuple[int, BusError]] = []
        self.settlements: list[tuple[object, list[int], BusError | None]] = []
        self.renewals: list[list[int]] = []

    def confirmed(self, requests: Sequence[int], first_sequence: int) -> None:
        self.confirmations.extend(requests)

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.refusals.extend((request, error) for request in requests)

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        self.settlements.append((request, list(lost), error))

    def renewed(self, until_ms: Sequence[int]) -> None:
        self.renewals.append(list(until_ms))


class Delivered:
    """One delivery as it was at the moment it came."""

    __slots__ = ("body", "delivery_count", "locked_until_ms", "overlay", "sequence", "token")

    def __init__(self, held: Held, body: bytes) -> None:
        self.sequence = held.sequence
        self.token = held.token
        self.delivery_count = held.delivery_count
        self.locked_until_ms = held.locked_until_ms
        self.overlay = held.overlay
        self.body = body


class Inbox:
    """A receiver that remembers what it was given."""

    def __init__(self) -> None:
        self.messages: list[Delivered] = []
        self.drained_count = 0

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        self.messages += [Delivered(h, b) for h, b in zip(messages, bodies, strict=True)]

    def drained(self) -> None:
        self.drained_count += 1

    def take(self) -> list[Delivered]:
        """Everything since the last time."""
        taken, self.messages = self.messages, []
        return taken


class FragmentBench:
    """One fragment, its broker, its store and its clock."""

    def __init__(self, spec: FragmentSpec, store: Store | None = None) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.store = store or MemoryStore(notify=self.scheduler.call_soon, replayable=True)
        self.spec = spec
        self.ports = Ports()
        self._request = 0
        self.start()

    def start(self) -> None:
        """Open the store and recover, as a new process would."""
        self.broker = Broker(self.store, self.clock, self.scheduler)
        self.broker.open()
        self.machine = self.broker.add(1, self.spec)
        self.state = self.machine.state

    def run(self) -> None:
        """Let everything happen that is due."""
        self.scheduler.run()

    def send(self, *bodies: bytes, ttl_ms: int = -1) -> list[int]:
        """Send messages, each its own request; answers the request numbers."""
        requests = []
        for body in bodies:
            self._request += 1
            requests.append(self._request)
        messages = [NewMessage(body, ttl_ms) for body in bodies]
        size = sum(len(body) for body in bodies)
        self.broker.submit(self.machine, Enqueue(self.ports, messages, requests, size))
        self.run()
        return requests

    def receiver(self, lane: Lane = Lane.MAIN, deletes: bool = False) -> tuple[Inbox, Consumer]:
        """A receiver without demand."""
        inbox = Inbox()
        return inbox, Consumer(1, inbox, lane, deletes)

    def demand(self, consumer: Consumer, more: int, drain: bool = False) -> None:
        """Let a receiver have so many more."""
        self.broker.submit(self.machine, Demand(consumer, consumer.sent + more, drain))
        self.run()

    def receive(
        self, count: int, lane: Lane = Lane.MAIN, deletes: bool = False
    ) -> list[Delivered]:
        """Receive what is there right now, up to `count`, and leave."""
        inbox, consumer = self.receiver(lane, deletes)
        self.demand(consumer, count, drain=True)
        self.broker.submit(self.machine, Detach(consumer))
        self.run()
        return inbox.take()

    def settle(
        self,
        tokens: Sequence[int],
        outcome: Outcome = Outcome.COMPLETE,
        lane: Lane = Lane.MAIN,
        overlay: Overlay | None = None,
    ) -> tuple[list[int], BusError | None]:
        """Settle; answers the lost tokens and the error."""
        command = Settle(self.ports, None, lane, list(tokens), outcome, overlay)
        self.broker.submit(self.machine, command)
        self.run()
        _, lost, error = self.ports.settlements.pop()
        return lost, error

    def renew(self, tokens: Sequence[int], lane: Lane = Lane.MAIN) -> list[int]:
        """Renew locks; answers the new times, 0 for a lost lock."""
        self.broker.submit(self.machine, Renew(self.ports, lane, list(tokens)))
        self.run()
        return self.ports.renewals.pop()
