"""A topic's fragment and those of its subscriptions on one store, driven by hand.

Owns a broker with one topic, a selector that a test fills in, and the crash of it all.
"""

from collections.abc import Callable, Sequence

from partibus.fragment.broker import Broker
from partibus.fragment.commands import (
    Command,
    Consumer,
    Demand,
    Detach,
    Enqueue,
    Outcome,
    Settle,
    SubQueueType,
)
from partibus.fragment.machine import Machine
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.topics.selection import Selection
from partibus.fragment.topics.state import Topic
from partibus.store.interface import Store
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Delivered, Inbox, Ports
from partibus.testing.scheduler import ManualScheduler

TOPIC_ID = 1
PLAIN = FragmentSpec(lock_duration_ms=60_000, max_delivery_count=10)


class TableSelector:
    """Asks a function of the test who gets a body; everybody does until it says otherwise."""

    def __init__(self, everybody: Callable[[], Sequence[int]]) -> None:
        self.answer: Callable[[bytes], Selection] = lambda body: Selection(everybody())
        self.sessions: dict[bytes, str] = {}
        self.asked: list[tuple[bytes, int, int]] = []

    def select(self, body: bytes, index: int, sequence: int, enqueued_ms: int) -> Selection:
        self.asked.append((body, index, sequence))
        return self.answer(body)

    def session_of(self, body: bytes) -> str | None:
        return self.sessions.get(body)


class TopicBench:
    """A topic with subscriptions, whose keys are the ids of their fragments."""

    def __init__(
        self,
        spec: FragmentSpec = PLAIN,
        subscriptions: dict[int, FragmentSpec] | None = None,
        store: Store | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.store = store or MemoryStore(notify=self.scheduler.call_soon, replayable=True)
        self.spec = spec
        self.specs = dict(subscriptions or {2: PLAIN, 3: PLAIN})
        self.selector = TableSelector(lambda: list(self.specs))
        self.ports = Ports()
        self._request = 0
        self.start()

    def start(self) -> None:
        """Open the store and recover, as a new process would after a crash of this one."""
        self.scheduler.crash()
        self.broker = Broker(self.store, self.clock, self.scheduler)
        self.broker.open()
        self.topic = Topic(0, self.selector)
        self.machine = self.broker.add(TOPIC_ID, self.spec, self.topic)
        self.state = self.machine.state
        self.machines: dict[int, Machine] = {}
        for key in self.specs:
            self._join(key)
        for fragment_id in self.broker.strangers():
            self.broker.drop_stranger(fragment_id)

    def _join(self, key: int) -> None:
        self.machines[key] = self.broker.add(key, self.specs[key])
        self.topic.subscriptions[key] = self.machines[key].state

    def subscribe(self, key: int, spec: FragmentSpec = PLAIN) -> None:
        """A subscription is created."""
        self.specs[key] = spec
        self._join(key)

    def unsubscribe(self, key: int) -> None:
        """A subscription is deleted."""
        del self.specs[key], self.topic.subscriptions[key], self.machines[key]
        self.broker.drop(key)

    def run(self) -> None:
        """Let everything happen that is due."""
        self.scheduler.run()

    def submit(self, command: Command, key: int = TOPIC_ID) -> None:
        """Hand a command to the topic, or to a subscription."""
        machine = self.machine if key == TOPIC_ID else self.machines[key]
        self.broker.submit(machine, command)
        self.run()

    def send(self, *messages: NewMessage | bytes) -> list[int]:
        """Send messages as one command, each its own request; answers the request numbers."""
        made = [m if isinstance(m, NewMessage) else NewMessage(m, -1) for m in messages]
        first = self._request + 1
        self._request += len(made)
        requests = list(range(first, self._request + 1))
        size = sum(len(message.body) for message in made)
        self.submit(Enqueue(self.ports, made, requests, size))
        return requests

    def receive(
        self,
        key: int,
        count: int = 1000,
        subqueue: SubQueueType = SubQueueType.MAIN,
        deletes: bool = False,
    ) -> list[Delivered]:
        """Receive what a subscription has right now, and leave."""
        inbox = Inbox()
        consumer = Consumer(key, inbox, subqueue, deletes)
        self.submit(Demand(consumer, count, True), key)
        self.submit(Detach(consumer), key)
        return inbox.take()

    def settle(self, key: int, tokens: Sequence[int], outcome: Outcome = Outcome.COMPLETE) -> None:
        """Settle messages of a subscription."""
        self.submit(Settle(self.ports, None, SubQueueType.MAIN, list(tokens), outcome), key)
        _, lost, error = self.ports.settlements.pop()
        assert not lost
        assert error is None

    def waiting(self, key: int, subqueue: SubQueueType = SubQueueType.MAIN) -> list[int]:
        """The numbers of the messages that wait in a subscription."""
        table = self.machines[key].state.subqueues[subqueue].ready
        return [held.sequence for held in table.copies(0)]
