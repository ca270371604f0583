"""A fragment of another process, asked and answered over a wire that a test can cut."""

import pytest

from partibus.cluster.codes import DELIVERED, FOUND, STORES_DOWN
from partibus.cluster.remote import RemoteFragment
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    EntityNotFound,
    MessageNotFound,
    OperationTimeout,
    StoreUnavailable,
)
from partibus.fragment.commands import (
    CancelScheduled,
    Consumer,
    Demand,
    Detach,
    Enqueue,
    Interest,
    Outcome,
    Peek,
    Purge,
    Question,
    ReceiveDeferred,
    Renew,
    Settle,
    SubQueueType,
    Tick,
)
from partibus.fragment.handle import LocalFragment
from partibus.fragment.message import MessageState, NewMessage, Overlay
from partibus.fragment.spec import FragmentSpec
from partibus.testing.fragment import Delivered, FragmentBench, Inbox, Ports
from support.nodes.far_side import FarSide

LOCK_MS = 10_000
STORE = 3


class Bench:
    """A gateway's side with one far fragment, whose owner is a plain fragment bench."""

    def __init__(self) -> None:
        self.owner = FragmentBench(FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=10))
        self.ports = Ports()
        self.side = FarSide(self.owner.scheduler, self._find, self.owner.run)
        self.fragment = RemoteFragment(self.side.far, 1, 0, STORE)
        self.side.connect()

    def _find(self, fragment_id: int) -> LocalFragment | None:
        if fragment_id != 1:
            return None
        return LocalFragment(self.owner.broker, self.owner.machine, 0)

    def restart_owner(self) -> None:
        """The far process dies and comes back with what was durable."""
        self.side.cut()
        self.owner.start()
        self.side.connect()

    def enqueue(self, *bodies: bytes, requests: list[int] | None = None) -> None:
        messages = [NewMessage(body, -1) for body in bodies]
        numbers = requests if requests is not None else list(range(len(bodies)))
        self.fragment.submit(Enqueue(self.ports, messages, numbers, sum(map(len, bodies))))

    def send(self, *bodies: bytes) -> None:
        self.enqueue(*bodies)
        self.side.run()

    def receiver(self, deletes: bool = False) -> tuple[Inbox, Consumer]:
        inbox = Inbox()
        return inbox, self.fragment.consumer(inbox, SubQueueType.MAIN, deletes)

    def demand(self, consumer: Consumer, limit: int, drain: bool = False) -> None:
        self.fragment.submit(Demand(consumer, limit, drain))
        self.side.run()

    def receive(self, count: int) -> list[Delivered]:
        inbox, consumer = self.receiver()
        self.demand(consumer, count, drain=True)
        self.fragment.submit(Detach(consumer))
        self.side.run()
        return inbox.take()

    def settle(self, tokens: list[int], outcome: Outcome = Outcome.COMPLETE) -> None:
        self.fragment.submit(Settle(self.ports, "mine", SubQueueType.MAIN, tokens, outcome))
        self.side.run()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def kind(error: object) -> type:
    assert isinstance(error, BusError)
    return type(error)


# --- everything works from afar -------------------------------------------------------------------


def test_a_send_is_confirmed_with_the_sender_s_own_numbers(bench: Bench) -> None:
    bench.enqueue(b"one", b"two", requests=[70, 80])
    bench.side.run()
    assert bench.ports.confirmations == [70, 80]
    assert bench.ports.first_sequences == [1]
    assert [held.body for held in bench.receive(10)] == [b"one", b"two"]


def test_a_send_that_is_refused_tells_why(bench: Bench) -> None:
    bench.owner.machine.state.spec = FragmentSpec(
        lock_duration_ms=LOCK_MS, max_delivery_count=10, size_bytes_max=1, path="full"
    )
    bench.enqueue(b"too much", requests=[5])
    bench.side.run()
    ((request, error),) = bench.ports.refusals
    assert request == 5
    assert "'full'" in error.text


def test_locks_are_settled_and_renewed_by_their_tokens(bench: Bench) -> None:
    bench.send(b"one", b"two")
    one, two = bench.receive(2)
    assert one.locked_until_ms == bench.owner.clock.now_ms() + LOCK_MS
    bench.owner.scheduler.advance_ms(LOCK_MS // 2)
    bench.fragment.submit(Renew(bench.ports, SubQueueType.MAIN, [two.token, 999]))
    bench.settle([one.token, 999])
    assert bench.ports.renewals == [[bench.owner.clock.now_ms() + LOCK_MS, 0]]
    assert bench.ports.settlements == [("mine", [999], None)]
    assert bench.owner.state.counts().active == 1


def test_an_overlay_travels_both_ways(bench: Bench) -> None:
    bench.send(b"one")
    (held,) = bench.receive(1)
    overlay = Overlay(b"pairs", "reason", "description")
    command = Settle(
        bench.ports, None, SubQueueType.MAIN, [held.token], Outcome.DEAD_LETTER, overlay
    )
    bench.fragment.submit(command)
    bench.side.run()
    inbox = Inbox()
    consumer = bench.fragment.consumer(inbox, SubQueueType.DEAD_LETTER, False)
    bench.demand(consumer, 1)
    (dead,) = inbox.take()
    assert dead.overlay is not None
    assert (dead.overlay.properties, dead.overlay.reason) == (b"pairs", "reason")


def test_the_operations_of_the_management_node(bench: Bench) -> None:
    due_ms = bench.owner.clock.now_ms() + 1000
    bench.fragment.submit(Enqueue(bench.ports, [NewMessage(b"later", -1, due_ms)], [0], 5))
    bench.send(b"now")
    bench.fragment.submit(Peek(bench.ports, SubQueueType.MAIN, 0, 10, 1000))
    bench.fragment.submit(CancelScheduled(bench.ports, [1]))
    bench.side.run()
    bench.fragment.submit(CancelScheduled(bench.ports, [1]))
    bench.side.run()
    peeked = bench.ports.lookups[0]
    assert isinstance(peeked, list)
    assert [(held.body, held.state) for held in peeked] == [
        (b"later", MessageState.SCHEDULED),
        (b"now", MessageState.ACTIVE),
    ]
    assert bench.ports.answers[0] == 1
    assert kind(bench.ports.answers[1]) is MessageNotFound
    (held,) = bench.receive(1)
    bench.settle([held.token], Outcome.DEFER)
    bench.fragment.submit(ReceiveDeferred(bench.ports, SubQueueType.MAIN, [held.sequence], False))
    bench.side.run()
    deferred = bench.ports.lookups[-1]
    assert isinstance(deferred, list)
    bench.settle([deferred[0].token], Outcome.RELEASE)
    bench.send(b"rubbish")
    bench.fragment.submit(Purge(bench.ports, SubQueueType.MAIN, 10, bench.owner.clock.now_ms() + 1))
    bench.side.run()
    assert bench.ports.answers[-1] == 1


def test_a_question_is_answered_by_the_process(bench: Bench) -> None:
    class Ear:
        heard: object = None

        def answered(self, payload: bytes) -> None:
            self.heard = payload

        def failed(self, error: BusError) -> None:
            self.heard = error

    ear = Ear()
    bench.side.far.submit(0, Question(ear, "echo", b"{}"))
    bench.side.run()
    assert ear.heard == b"{}"
    bench.side.cut()
    bench.side.far.submit(0, Question(ear, "echo", b"{}"))
    bench.owner.run()
    assert kind(ear.heard) is StoreUnavailable


def test_a_fragment_that_is_not_there_is_an_error_for_all_but_no_fault(bench: Bench) -> None:
    stranger = RemoteFragment(bench.side.far, 99, 0, STORE)
    stranger.submit(Enqueue(bench.ports, [NewMessage(b"x", -1)], [3], 1))
    inbox = Inbox()
    stranger.submit(Demand(stranger.consumer(inbox, SubQueueType.MAIN, False), 1, True))
    bench.side.run()
    assert kind(bench.ports.refusals[0][1]) is EntityNotFound
    assert inbox.drained_count == 1


# --- receivers -----------------------------------------------------------------------------------


def test_demand_is_a_running_total_whatever_is_under_way(bench: Bench) -> None:
    bench.send(*[b"%d" % n for n in range(10)])
    inbox, consumer = bench.receiver()
    bench.fragment.submit(Demand(consumer, 3, False))
    bench.side.carry_requests()
    bench.fragment.submit(Demand(consumer, 5, False))
    bench.side.run()
    assert len(inbox.take()) == 5
    bench.demand(consumer, 6)
    assert len(inbox.take()) == 1


def test_interest_is_answered_once_and_a_drain_ends(bench: Bench) -> None:
    inbox, consumer = bench.receiver()
    bench.fragment.submit(Interest(consumer))
    bench.send(b"one")
    bench.send(b"two")
    assert inbox.available_count == 1
    bench.demand(consumer, 5, drain=True)
    assert len(inbox.take()) == 2
    assert inbox.drained_count == 1


def test_messages_that_cross_a_detach_reach_the_receiver_which_can_give_them_back(
    bench: Bench,
) -> None:
    bench.send(b"one")
    inbox, consumer = bench.receiver()
    bench.fragment.submit(Demand(consumer, 5, False))
    bench.side.carry_requests()
    bench.fragment.submit(Detach(consumer))
    bench.side.run()
    (held,) = inbox.take()
    bench.fragment.submit(Settle(None, None, SubQueueType.MAIN, [held.token], Outcome.RELEASE))
    bench.side.run()
    assert [again.body for again in bench.receive(1)] == [b"one"]


def test_messages_under_way_to_a_process_that_is_gone_are_unlocked(bench: Bench) -> None:
    """The owner has locked them, and finds nobody to hand them to (DLV-5)."""
    bench.send(b"one")
    _, consumer = bench.receiver()
    bench.fragment.submit(Demand(consumer, 5, False))
    assert bench.side.host is not None
    bench.side.host.receive(bench.side.requests.take())
    bench.side.cut()
    assert bench.owner.state.counts().locked == 0
    assert [held.delivery_count for held in bench.owner.receive(1)] == [0]


# --- a process that is lost ----------------------------------------------------------------------


def test_what_never_left_is_refused_and_what_left_has_an_unknown_outcome(bench: Bench) -> None:
    bench.enqueue(b"left", requests=[1])
    bench.side.carry_requests()
    bench.enqueue(b"stayed", requests=[2])
    bench.side.cut()
    answers = {request: kind(error) for request, error in bench.ports.refusals}
    assert answers == {1: OperationTimeout, 2: StoreUnavailable}
    assert all(error.retryable for _, error in bench.ports.refusals)
    assert not bench.ports.confirmations


def test_every_kind_of_request_is_answered_when_the_process_is_lost(bench: Bench) -> None:
    ports = bench.ports
    for command in (
        Settle(ports, "mine", SubQueueType.MAIN, [1], Outcome.COMPLETE),
        Settle(None, None, SubQueueType.MAIN, [1], Outcome.RELEASE),
        Renew(ports, SubQueueType.MAIN, [1]),
        CancelScheduled(ports, [1]),
        ReceiveDeferred(ports, SubQueueType.MAIN, [1], False),
        Peek(ports, SubQueueType.MAIN, 0, 1, 1),
        Purge(ports, SubQueueType.MAIN, 1, 1),
    ):
        bench.fragment.submit(command)
    bench.side.carry_requests()
    bench.side.cut()
    ((request, lost, error),) = ports.settlements
    assert (request, lost, kind(error)) == ("mine", [], OperationTimeout)
    assert [kind(error) for error in ports.answers] == [OperationTimeout] * 5


def test_while_it_is_lost_requests_are_refused_in_the_next_turn(bench: Bench) -> None:
    bench.side.cut()
    assert not bench.fragment.is_available
    bench.enqueue(b"one", requests=[9])
    assert not bench.ports.refusals, "never inside the call that asked"
    bench.owner.run()
    assert [(request, kind(e)) for request, e in bench.ports.refusals] == [(9, StoreUnavailable)]


def test_a_receiver_is_told_and_asks_anew(bench: Bench) -> None:
    inbox, consumer = bench.receiver()
    bench.send(b"one")
    bench.demand(consumer, 5)
    (first,) = inbox.take()
    bench.restart_owner()
    assert (inbox.interrupted_count, inbox.resumed_count) == (1, 1)
    # It has had one message in all and now wants two more.
    bench.demand(consumer, 3)
    (again,) = inbox.take()
    assert again.body == first.body
    bench.send(b"two")
    bench.send(b"three")
    assert [held.body for held in inbox.take()] == [b"two"]


def test_a_drain_is_answered_when_the_process_is_lost_and_while_it_is(bench: Bench) -> None:
    inbox, consumer = bench.receiver()
    bench.fragment.submit(Demand(consumer, 5, True))
    bench.side.cut()
    assert inbox.drained_count == 1
    bench.fragment.submit(Demand(consumer, 5, True))
    bench.owner.run()
    assert inbox.drained_count == 2


def test_answers_of_the_lost_time_come_before_the_word_that_it_is_back(bench: Bench) -> None:
    order: list[str] = []
    inbox, consumer = bench.receiver()
    inbox.drained = lambda: order.append("drained")  # type: ignore[method-assign]
    inbox.resumed = lambda: order.append("resumed")  # type: ignore[method-assign]
    bench.side.cut()
    bench.fragment.submit(Demand(consumer, 5, True))
    bench.side.connect()
    assert order == ["drained", "resumed"]


def test_a_receiver_that_leaves_while_it_is_lost_is_forgotten(bench: Bench) -> None:
    inbox, consumer = bench.receiver()
    bench.demand(consumer, 1)
    bench.fragment.submit(Detach(consumer))
    bench.side.cut()
    other_inbox, other = bench.receiver()
    bench.fragment.submit(Detach(other))
    bench.side.connect()
    assert (inbox.interrupted_count, inbox.resumed_count) == (0, 0)
    assert (other_inbox.interrupted_count, other_inbox.resumed_count) == (0, 0)


@pytest.mark.rule("LCK-5")
def test_a_lock_of_a_lost_process_is_lost_and_fits_no_lock_of_its_next_life() -> None:
    bench = Bench()
    bench.send(b"one")
    (held,) = bench.receive(1)
    bench.side.cut()
    bench.owner.scheduler.crash()
    bench.owner.broker = type(bench.owner.broker)(
        bench.owner.store, bench.owner.clock, bench.owner.scheduler, None, 1 << 40
    )
    bench.owner.broker.open()
    bench.owner.machine = bench.owner.broker.add(1, bench.owner.spec)
    bench.side.connect()
    (again,) = bench.receive(1)
    assert again.token >= 1 << 40
    bench.settle([held.token])
    assert bench.ports.settlements == [("mine", [held.token], None)]


# --- availability ---------------------------------------------------------------------------------


def test_a_store_that_is_down_there_is_known_here(bench: Bench) -> None:
    assert bench.fragment.is_available
    bench.side.far.receive([(STORES_DOWN, 0, [STORE])])
    assert not bench.fragment.is_available
    assert bench.fragment.obstacle.startswith("its store is down.")
    bench.side.far.receive([(STORES_DOWN, 0, [STORE + 1])])
    assert bench.fragment.is_available


def test_a_process_that_does_not_read_gets_no_more_messages_but_settlements(bench: Bench) -> None:
    bench.side.requests.is_full = True
    assert not bench.fragment.is_available
    bench.enqueue(b"one", requests=[1])
    bench.settle([1])
    assert [kind(error) for _, error in bench.ports.refusals] == [StoreUnavailable]
    assert "more slowly than they are sent" in str(bench.ports.refusals[0][1])
    assert "more slowly than they are sent" in bench.fragment.obstacle
    assert bench.ports.settlements == [("mine", [1], None)]


def test_the_owner_counts_what_it_has_not_answered(bench: Bench) -> None:
    host = bench.side.host
    assert host is not None
    bench.enqueue(b"x" * 1000)
    host.receive(bench.side.requests.take())
    assert host.unanswered_bytes == 1000
    bench.side.run()
    assert host.unanswered_bytes == 0
    assert not host.is_behind


def test_an_answer_that_fails_keeps_none_of_the_others_back(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Ports):
        def confirmed(self, requests: object, first: int, dropped: object = ()) -> None:
            raise ValueError("no")

    bench.fragment.submit(Enqueue(Broken(), [NewMessage(b"x", -1)], [1], 1))
    bench.enqueue(b"y", requests=[2])
    bench.side.run()
    assert bench.ports.confirmations == [2]
    assert "could not be delivered" in caplog.text


def test_only_commands_for_far_fragments_are_taken(bench: Bench) -> None:
    with pytest.raises(AssertionError, match="Tick"):
        bench.fragment.submit(Tick())


# --- rows that cannot be encoded ------------------------------------------------------------------


def test_a_request_that_cannot_be_sent_is_refused_alone(bench: Bench) -> None:
    bench.enqueue(b"odd", requests=[1])
    bench.enqueue(b"plain", requests=[2])
    bench.side.far.unsendable(bench.side.requests.rows.pop(0))
    assert bench.ports.refusals == [], "never inside the call that asked"
    bench.side.run()
    ((request, error),) = bench.ports.refusals
    assert (request, kind(error)) == (1, ArgumentError)
    assert "out of range" in error.text
    assert bench.ports.confirmations == [2]


def test_an_answer_that_cannot_be_sent_fails_its_request_alone(bench: Bench) -> None:
    bench.send(b"one")
    bench.fragment.submit(Peek(bench.ports, SubQueueType.MAIN, 0, 10, 1_000))
    bench.enqueue(b"two", requests=[7])
    bench.side.carry_requests()
    host = bench.side.host
    assert host is not None
    (row,) = [row for row in bench.side.answers.rows if row[0] == FOUND]
    bench.side.answers.rows.remove(row)
    host.unsendable(row)
    bench.side.run()
    (error,) = [answer for answer in bench.ports.answers if isinstance(answer, BusError)]
    assert "outcome is unknown" in error.text
    assert 7 in bench.ports.confirmations


def test_messages_that_cannot_be_sent_are_handed_back_and_counted(bench: Bench) -> None:
    bench.send(b"one")
    _inbox, consumer = bench.receiver()
    bench.fragment.submit(Demand(consumer, 1, False))
    bench.side.carry_requests()
    host = bench.side.host
    assert host is not None
    (row,) = [row for row in bench.side.answers.rows if row[0] == DELIVERED]
    bench.side.answers.rows.remove(row)
    host.unsendable(row)
    bench.side.run()
    (again,) = bench.receive(1)
    assert (again.body, again.delivery_count) == (b"one", 1)
