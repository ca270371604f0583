"""Publishing: one body for many subscriptions, numbers of the topic, all or nothing."""

from dataclasses import replace

import pytest

from partibus.domain.errors import BusError, NoMatchingSubscription, QuotaExceeded, StoreUnavailable
from partibus.fragment.commands import Consumer, Demand, Outcome, SubQueueType
from partibus.fragment.cursors.commands import PlanRange, RangePlan
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.sessions.commands import AcceptSession, SessionConsumer
from partibus.fragment.topics.selection import NOBODY, Failure, Selection
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import Inbox, SessionInbox
from support.fragment.topic_bench import PLAIN, TopicBench

SESSIONS = replace(PLAIN, requires_session=True)
A, B, C = 2, 3, 4
RESTARTS = pytest.mark.parametrize("is_restarted", [False, True])


def memory(bench: TopicBench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


def accept(bench: TopicBench, key: int, session_id: str) -> list[bytes]:
    """The bodies of a session, received by its id."""
    inbox = SessionInbox()
    consumer = SessionConsumer(key, inbox, False)
    bench.submit(AcceptSession(consumer, session_id, False), key)
    bench.submit(Demand(consumer, 100, True), key)
    return [delivered.body for delivered in inbox.take()]


@RESTARTS
def test_a_subscription_is_read_along_by_the_topics_numbers(is_restarted: bool) -> None:
    bench = TopicBench()
    bench.selector.answer = lambda body: Selection([A] if body != b"three" else [A, B])
    bench.send(b"one", b"two")
    bench.send(b"three")
    if is_restarted:
        bench.start()
    plans = Plans()
    for key in (A, B):
        bench.submit(PlanRange(plans, SubQueueType.MAIN, 0, 100, 1000), key)
    assert plans.found == [(3, 4), (1, 4)]


class Plans:
    """Keeps how many messages there are, and how far they go."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []

    def planned(self, plan: RangePlan) -> None:
        self.found.append((plan.count, plan.end))

    def failed(self, error: BusError) -> None:
        raise error


@pytest.mark.rule("ENT-3", "SEQ-11")
@RESTARTS
def test_each_subscription_has_its_own_copy_under_the_topics_number(is_restarted: bool) -> None:
    bench = TopicBench()
    requests = bench.send(b"one", b"two")
    assert bench.ports.confirmations == requests
    if is_restarted:
        bench.start()
    assert [(d.sequence, d.body) for d in bench.receive(A)] == [(1, b"one"), (2, b"two")]
    first, second = bench.receive(B)
    bench.settle(B, [first.token])
    bench.settle(B, [second.token], Outcome.ABANDON)
    assert bench.waiting(B) == [2]
    bench.start()
    assert bench.waiting(A) == [1, 2]
    assert bench.waiting(B) == [2]
    bench.send(b"three")
    assert bench.waiting(A) == [1, 2, 3]


@pytest.mark.rule("ENT-4")
def test_a_message_that_nobody_wants_is_confirmed_and_not_stored() -> None:
    bench = TopicBench()
    bench.selector.answer = lambda body: NOBODY
    assert bench.ports.confirmations == [] != bench.send(b"lost")
    assert bench.ports.confirmations == [1]
    assert bench.store.live_bytes == 0
    assert memory(bench)._bodies == {}
    bench.selector.answer = lambda body: Selection([A] if body == b"kept" else [])
    bench.send(b"lost", b"kept", b"lost")
    assert bench.waiting(A) == [2]
    assert list(memory(bench)._bodies.values()) == [b"kept"]
    bench.start()
    bench.send(b"kept")
    assert bench.waiting(A) == [2, 3]


@pytest.mark.rule("ENT-4")
def test_a_topic_may_refuse_what_nobody_wants() -> None:
    bench = TopicBench(replace(PLAIN, requires_match=True, path="news"))
    bench.selector.answer = lambda body: Selection([A] if body == b"kept" else [])
    bench.send(b"kept", b"lost")
    assert [type(error) for _, error in bench.ports.refusals] == [NoMatchingSubscription] * 2
    assert "news" in bench.ports.refusals[0][1].text
    assert bench.waiting(A) == []
    bench.send(b"kept")
    assert bench.waiting(A) == [1]


def test_bodies_are_stored_once_and_released_by_their_last_holder() -> None:
    bench = TopicBench(subscriptions=dict.fromkeys((A, B, C), PLAIN))
    store = bench.store
    bench.store = MemoryStore(notify=bench.scheduler.call_soon)
    bench.start()
    bodies = memory(bench)._bodies
    bench.send(b"x" * 1000)
    assert list(map(len, bodies.values())) == [1000]
    assert bench.store.live_bytes == 3000
    for key, left in ((A, 2000), (B, 1000), (C, 0)):
        (delivered,) = bench.receive(key)
        assert delivered.body == b"x" * 1000
        bench.settle(key, [delivered.token])
        assert bench.store.live_bytes == left
    assert not bodies
    assert store is not bench.store


def test_a_receiver_that_deletes_leaves_the_others_their_body() -> None:
    bench = TopicBench()
    bench.store = MemoryStore(notify=bench.scheduler.call_soon)
    bench.start()
    inbox = Inbox()
    bench.submit(Demand(Consumer(A, inbox, SubQueueType.MAIN, True), 10, False), A)
    bench.send(b"news")
    assert [d.body for d in inbox.take()] == [b"news"]
    assert [d.body for d in bench.receive(B, deletes=True)] == [b"news"]
    assert bench.store.live_bytes == 0


@pytest.mark.rule("FLT-4", "SEQ-11")
@RESTARTS
def test_rewritten_copies_take_further_numbers_of_the_topic(is_restarted: bool) -> None:
    bench = TopicBench()

    def answer(body: bytes) -> Selection:
        changed = [(A, NewMessage(body + b"'", -1)), (A, NewMessage(body + b"''", -1))]
        return Selection([A, B], changed) if body == b"1" else Selection([B], changed)

    bench.selector.answer = answer
    bench.send(b"1", b"2")
    if is_restarted:
        bench.start()
    assert [(d.sequence, d.body) for d in bench.receive(A)] == [
        (1, b"1"),
        (2, b"2'"),
        (3, b"1'"),
        (4, b"1''"),
        (5, b"2''"),
    ]
    assert [(d.sequence, d.body) for d in bench.receive(B)] == [(1, b"1"), (2, b"2")]
    bench.selector.answer = lambda body: Selection([A])
    bench.send(b"3")
    assert bench.waiting(A)[-1:] == [6]


@pytest.mark.rule("FLT-9", "DLQ-6")
@RESTARTS
def test_what_cannot_be_evaluated_is_dead_lettered_in_that_subscription(is_restarted: bool) -> None:
    bench = TopicBench()
    why = Overlay(reason="FilterException", description="division by zero")
    bench.selector.answer = lambda body: Selection([B], failed=[Failure(A, why)], failure_count=1)
    bench.send(b"odd", b"odder")
    assert bench.state.counts().filter_errors == 2
    if is_restarted:
        bench.start()
    assert bench.waiting(B) == [1, 2]
    assert bench.waiting(A) == []
    first, _ = bench.receive(A, subqueue=SubQueueType.DEAD_LETTER)
    assert first.body == b"odd"
    assert first.overlay is not None
    assert (first.overlay.reason, first.overlay.description) == (why.reason, why.description)


@RESTARTS
def test_a_failed_action_beside_a_match_is_a_dead_letter_of_its_own(is_restarted: bool) -> None:
    bench = TopicBench()
    why = Overlay(reason="RuleActionException")
    bench.selector.answer = lambda body: Selection([A], failed=[Failure(A, why)])
    bench.send(b"odd")
    if is_restarted:
        bench.start()
    assert bench.waiting(A) == [1]
    assert bench.waiting(A, SubQueueType.DEAD_LETTER) == [2]


@pytest.mark.rule("TTL-3")
def test_the_smallest_time_to_live_applies() -> None:
    specs = {
        A: replace(PLAIN, default_ttl_ms=5_000),
        B: PLAIN,
        C: replace(PLAIN, default_ttl_ms=60_000),
    }
    bench = TopicBench(replace(PLAIN, default_ttl_ms=20_000), specs)
    bench.send(NewMessage(b"none", -1), NewMessage(b"short", 2_000), NewMessage(b"long", 90_000))
    now_ms = bench.clock.now_ms()
    for restart in (False, True):
        if restart:
            bench.start()
        left = {
            key: [held.expires_ms - now_ms for held in machine.state.main.ready.copies(0)]
            for key, machine in bench.machines.items()
        }
        assert left == {
            A: [5_000, 2_000, 5_000],
            B: [20_000, 2_000, 20_000],
            C: [20_000, 2_000, 20_000],
        }


@pytest.mark.rule("SES-19")
@RESTARTS
def test_sessions_are_those_of_each_subscription(is_restarted: bool) -> None:
    bench = TopicBench(subscriptions={A: SESSIONS, B: SESSIONS, C: PLAIN})
    bench.send(*[NewMessage(f"{s}{n}".encode(), -1, session_id=s) for n in "12" for s in "xy"])
    assert accept(bench, A, "x") == [b"x1", b"x2"]
    if is_restarted:
        bench.start()
    assert accept(bench, B, "x") == [b"x1", b"x2"]
    assert accept(bench, B, "y") == [b"y1", b"y2"]
    assert accept(bench, A, "y") == [b"y1", b"y2"]
    assert [d.body for d in bench.receive(C)] == [b"x1", b"y1", b"x2", b"y2"]


@pytest.mark.rule("DLQ-6", "SES-1")
@RESTARTS
def test_a_message_without_a_session_is_a_dead_letter_where_one_is_required(
    is_restarted: bool,
) -> None:
    bench = TopicBench(subscriptions={A: SESSIONS, B: PLAIN})
    bench.send(NewMessage(b"none", -1), NewMessage(b"some", -1, session_id="s"))
    if is_restarted:
        bench.start()
    (dead,) = bench.receive(A, subqueue=SubQueueType.DEAD_LETTER)
    assert dead.body == b"none"
    assert dead.overlay is not None
    assert dead.overlay.reason == "Session ID is null"
    assert accept(bench, A, "s") == [b"some"]
    assert bench.waiting(B) == [1, 2]


@pytest.mark.rule("ENT-5", "CNT-2")
def test_every_copy_counts_against_the_topics_size() -> None:
    bench = TopicBench(replace(PLAIN, size_bytes_max=1000, path="news"))
    bench.send(b"x" * 300)
    assert bench.state.counts().size_bytes == 600
    bench.send(b"x" * 201)
    ((_, error),) = bench.ports.refusals
    assert isinstance(error, QuotaExceeded)
    bench.send(b"x" * 200)
    assert len(bench.ports.refusals) == 1
    (delivered, _) = bench.receive(A)
    bench.settle(A, [delivered.token])
    assert bench.state.counts().size_bytes == 700
    assert bench.state.counts().active == 0
    bench.start()
    bench.send(b"x" * 150)
    assert len(bench.ports.refusals) == 1
    assert bench.state.counts().size_bytes == 1000


@pytest.mark.rule("DUP-7")
def test_duplicates_are_looked_for_at_the_topic() -> None:
    bench = TopicBench(replace(PLAIN, duplicate_window_ms=60_000))

    def answer(body: bytes) -> Selection:
        return Selection([A], [(B, NewMessage(body, -1, message_id="same"))])

    bench.selector.answer = answer
    bench.send(*[NewMessage(b"m", -1, message_id=number) for number in ("1", "2", "1")])
    assert bench.ports.dropped == [[2]]
    assert bench.waiting(A) == bench.waiting(B) == [1, 2]
    bench.start()
    bench.send(NewMessage(b"m", -1, message_id="2"))
    assert bench.waiting(A) == [1, 2]


def test_a_store_that_fails_leaves_nothing_anywhere() -> None:
    bench = TopicBench(replace(PLAIN, duplicate_window_ms=60_000))
    bench.selector.answer = lambda body: Selection([A], [(B, NewMessage(body + b"'", -1))])
    memory(bench).fail()
    bench.send(NewMessage(b"m", -1, message_id="1"))
    assert [type(error) for _, error in bench.ports.refusals] == [StoreUnavailable]
    assert bench.state.counts().size_bytes == bench.store.live_bytes == 0
    memory(bench).heal()
    bench.run()
    bench.send(NewMessage(b"m", -1, message_id="1"))
    assert bench.waiting(A) == bench.waiting(B) == [1]


@pytest.mark.rule("ENT-3")
def test_a_subscription_has_what_was_sent_while_it_was_there() -> None:
    bench = TopicBench(subscriptions={A: PLAIN, B: PLAIN})
    bench.send(b"1")
    bench.subscribe(C)
    bench.send(b"2")
    bench.unsubscribe(B)
    bench.send(b"3")
    assert bench.store.live_bytes == 5
    for restart in (False, True):
        if restart:
            bench.start()
        assert bench.waiting(A) == [1, 2, 3]
        assert bench.waiting(C) == [2, 3]
    assert bench.store.live_bytes == 5


def test_a_subscription_that_goes_while_a_message_comes_holds_nothing() -> None:
    bench = TopicBench()
    bench.store = MemoryStore(notify=bench.scheduler.call_soon)
    bench.start()
    bench.selector.answer = lambda body: Selection([A, B], [(B, NewMessage(b"12", -1))])
    bench.scheduler.call_soon(lambda: bench.scheduler.call_soon(lambda: bench.unsubscribe(B)))
    bench.send(b"1")
    assert B not in bench.machines
    assert bench.ports.confirmations == [1]
    assert bench.waiting(A) == [1]
    assert bench.store.live_bytes == 1
    assert list(memory(bench)._bodies.values()) == [b"1"]


def test_a_checkpoint_keeps_what_is_shared() -> None:
    bench = TopicBench()
    bench.send(b"1", b"2")
    (delivered, _) = bench.receive(A)
    bench.settle(A, [delivered.token])
    bench.broker._checkpoint()
    bench.run()
    bench.send(b"3")
    bench.start()
    assert bench.waiting(A) == [2, 3]
    assert bench.waiting(B) == [1, 2, 3]
    assert bench.store.live_bytes == 5
