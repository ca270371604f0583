"""A handle that follows its fragment from one place to another."""

import pytest

from partibus.cluster.moving import MovingFragment
from partibus.cluster.remote import RemoteFragment, nobody
from partibus.domain.errors import StoreUnavailable
from partibus.fragment.commands import (
    Command,
    Consumer,
    Demand,
    Detach,
    Enqueue,
    Interest,
    Outcome,
    Receiver,
    Settle,
    SubQueueType,
)
from partibus.fragment.handle import LocalFragment
from partibus.fragment.message import NewMessage
from partibus.fragment.sessions.commands import AcceptSession, SessionConsumer, SessionReceiver
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import FragmentBench, Inbox, Ports, SessionInbox

SPEC = FragmentSpec(lock_duration_ms=10_000, max_delivery_count=10)


class Bench:
    """A fragment that is opened again and again over the same store, as by one node after another,
    and the one handle of it."""

    def __init__(self, spec: FragmentSpec = SPEC) -> None:
        self.owner = FragmentBench(spec)
        self.far = nobody(self.owner.scheduler)
        self.handle = MovingFragment(1, 0, self._nobody())
        self.ports = Ports()

    def _nobody(self) -> RemoteFragment:
        return RemoteFragment(self.far, 1, 0, 0)

    def serve(self) -> None:
        self.handle.bind(LocalFragment(self.owner.broker, self.owner.machine, 0), is_served=True)
        self.owner.run()

    def lose(self) -> None:
        self.handle.bind(self._nobody(), is_served=False)
        self.owner.run()

    def move(self) -> None:
        """The next owner has what was durable, and numbers its locks again."""
        self.lose()
        self.owner.first_token += 1 << 32
        self.owner.start()
        self.serve()

    def send(self, *bodies: bytes) -> None:
        messages = [NewMessage(body, -1) for body in bodies]
        numbers = list(range(len(bodies)))
        self.handle.submit(Enqueue(self.ports, messages, numbers, sum(map(len, bodies))))
        self.owner.run()

    def demand(self, consumer: Consumer, limit: int, drain: bool = False) -> None:
        self.handle.submit(Demand(consumer, limit, drain))
        self.owner.run()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.serve()
    return made


def test_what_is_asked_of_nobody_is_refused_in_the_next_turn() -> None:
    bench = Bench()
    messages = [NewMessage(b"a", -1)]
    bench.handle.submit(Enqueue(bench.ports, messages, [7], 1))
    assert not bench.ports.refusals
    bench.owner.run()
    ((request, error),) = bench.ports.refusals
    assert request == 7 and isinstance(error, StoreUnavailable)
    assert "its lane is moving to another node" in error.text
    assert not bench.handle.is_available and "moving" in bench.handle.obstacle


def test_a_receiver_goes_with_the_lane(bench: Bench) -> None:
    inbox = Inbox()
    consumer = bench.handle.consumer(inbox, SubQueueType.MAIN, False)
    bench.send(b"a", b"b", b"c")
    bench.demand(consumer, 2)
    assert [m.body for m in inbox.take()] == [b"a", b"b"]
    bench.move()
    assert (inbox.interrupted_count, inbox.resumed_count) == (1, 1)
    # Two were given before, and are given again, since their locks were lost; demand is a total.
    bench.demand(consumer, 4)
    assert [(m.body, m.delivery_count) for m in inbox.take()] == [(b"a", 0), (b"b", 0)]
    assert not inbox.drained_count


def test_a_lock_of_another_epoch_never_fits(bench: Bench) -> None:
    inbox = Inbox()
    consumer = bench.handle.consumer(inbox, SubQueueType.MAIN, False)
    bench.send(b"a")
    bench.demand(consumer, 1)
    (before,) = inbox.take()
    bench.move()
    bench.demand(consumer, 2)
    (after,) = inbox.take()
    assert before.token != after.token
    settle = Settle(bench.ports, "r", SubQueueType.MAIN, [before.token], Outcome.COMPLETE)
    bench.handle.submit(settle)
    bench.owner.run()
    assert bench.ports.settlements == [("r", [before.token], None)]


def test_a_drain_under_way_ends_when_the_lane_goes(bench: Bench) -> None:
    inbox = Inbox()
    consumer = bench.handle.consumer(inbox, SubQueueType.MAIN, False)
    bench.handle.submit(Demand(consumer, 5, True))
    bench.handle.bind(RemoteFragment(bench.far, 1, 0, 0), is_served=False)
    bench.owner.run()
    assert (inbox.drained_count, inbox.interrupted_count) == (1, 1)
    bench.demand(consumer, 5, drain=True)
    assert inbox.drained_count == 2


def test_nothing_comes_from_a_place_that_was_left(bench: Bench) -> None:
    """The lane is unbound while a delivery is on its way: it goes back, and is delivered once."""
    inbox = Inbox()
    consumer = bench.handle.consumer(inbox, SubQueueType.MAIN, False)
    bench.send(b"a")
    bench.handle.submit(Demand(consumer, 1, False))
    bench.lose()
    assert inbox.take() == []
    bench.serve()
    bench.demand(consumer, 1)
    assert [m.body for m in inbox.take()] == [b"a"]


def test_to_be_served_by_nobody_twice_interrupts_once(bench: Bench) -> None:
    inbox = Inbox()
    bench.handle.consumer(inbox, SubQueueType.MAIN, False)
    bench.lose()
    bench.lose()
    assert inbox.interrupted_count == 1


def test_a_receiver_that_has_left_hears_nothing_more(bench: Bench) -> None:
    inbox = Inbox()
    consumer = bench.handle.consumer(inbox, SubQueueType.MAIN, False)
    bench.handle.submit(Interest(consumer))
    bench.owner.run()
    bench.handle.submit(Detach(consumer))
    bench.owner.run()
    bench.send(b"a")
    bench.move()
    assert (inbox.interrupted_count, inbox.resumed_count, inbox.available_count) == (0, 0, 0)


def test_a_session_is_asked_for_anew() -> None:
    bench = Bench(
        FragmentSpec(lock_duration_ms=10_000, max_delivery_count=10, requires_session=True)
    )
    bench.serve()
    inbox = SessionInbox()
    consumer = bench.handle.session_consumer(inbox, False)
    bench.handle.submit(AcceptSession(consumer, "s", False))
    bench.owner.run()
    assert inbox.session_id == "s"
    bench.lose()
    assert inbox.interrupted_count == 1
    refused = SessionInbox()
    late = bench.handle.session_consumer(refused, False)
    bench.handle.submit(AcceptSession(late, "s", False))
    bench.owner.run()
    assert isinstance(refused.errors[0], StoreUnavailable)


class Place:
    """Where a fragment is served; remembers what it was asked for."""

    is_available = True
    obstacle = ""
    fragment_id = 1
    index = 0

    def __init__(self) -> None:
        self.asked: list[Command] = []

    def submit(self, command: Command) -> None:
        self.asked.append(command)

    def consumer(self, receiver: Receiver, subqueue: SubQueueType, deletes: bool) -> Consumer:
        return Consumer(1, receiver, subqueue, deletes)

    def session_consumer(self, receiver: SessionReceiver, deletes: bool) -> SessionConsumer:
        return SessionConsumer(1, receiver, deletes)


class LeavesWhenInterrupted(SessionInbox):
    """As the link of a session does: its session is lost."""

    def __init__(self, handle: MovingFragment) -> None:
        super().__init__()
        self._handle = handle
        self._consumer = handle.session_consumer(self, False)

    def interrupted(self) -> None:
        super().interrupted()
        self._handle.submit(Detach(self._consumer))


def test_a_receiver_that_leaves_when_it_is_interrupted_leaves_once_and_for_good() -> None:
    first, second = Place(), Place()
    handle = MovingFragment(1, 0, Place())
    handle.bind(first, is_served=True)
    inbox = LeavesWhenInterrupted(handle)
    handle.bind(second, is_served=True)
    assert [type(command) for command in first.asked] == [Detach]
    assert (inbox.interrupted_count, inbox.resumed_count) == (1, 0)
    assert [type(command) for command in second.asked] == [Detach], "it keeps nobody"


class Asking(Inbox):
    """A receiver that asks for more as soon as its drain has ended, as a link with credit does."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.consumer: Consumer

    def drained(self) -> None:
        super().drained()
        self.bench.handle.submit(Demand(self.consumer, 3, False))


def test_who_asks_at_the_end_of_its_drain_asks_the_next_place() -> None:
    bench = Bench()
    far = RemoteFragment(nobody(bench.owner.scheduler), 1, 0, 0)
    bench.handle.bind(far, is_served=True)
    inbox = Asking(bench)
    inbox.consumer = bench.handle.consumer(inbox, SubQueueType.MAIN, False)
    bench.handle.submit(Demand(inbox.consumer, 5, True))
    bench.serve()
    assert inbox.drained_count == 1
    bench.send(b"a", b"b")
    assert [m.body for m in inbox.take()] == [b"a", b"b"]
