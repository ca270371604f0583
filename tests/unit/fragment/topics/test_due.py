"""Scheduled messages of a topic: filtered when they are due, published exactly once."""

from dataclasses import replace

import pytest

from partibus.domain.errors import StoreCorrupt, StoreUnavailable
from partibus.fragment.broker import READ_RETRY_MS
from partibus.fragment.commands import CancelScheduled, Peek, SubQueueType
from partibus.fragment.message import MessageState, NewMessage
from partibus.fragment.topics import due
from partibus.fragment.topics.selection import NOBODY, Selection
from partibus.store.interface import ReadDone, Ref
from partibus.store.memory import MemoryStore
from support.fragment.topic_bench import PLAIN, TopicBench

A, B, C = 2, 3, 4
LATER_MS = 10_000


def scheduled(bench: TopicBench, *bodies: bytes, ttl_ms: int = -1) -> None:
    due_ms = bench.clock.now_ms() + LATER_MS
    bench.send(*[NewMessage(body, ttl_ms, due_ms) for body in bodies])


def wait(bench: TopicBench, delay_ms: int = LATER_MS + 100) -> None:
    bench.scheduler.advance_ms(delay_ms)
    bench.run()


class BalkyStore(MemoryStore):
    """A store that reads nothing at once, and fails as often as it is told."""

    failures: list[StoreCorrupt | StoreUnavailable]
    read_sizes: list[int]

    def read_now(self, refs: list[Ref]) -> list[bytes] | None:
        return None

    def read(self, refs: list[Ref], done: ReadDone) -> None:
        self.read_sizes.append(len(refs))
        if self.failures:
            failure = self.failures.pop(0)
            self._notify(lambda: done(failure))
        else:
            bodies = [self._bodies[position] for position, _ in refs]
            self._notify(lambda: done(bodies))


def balky(*failures: StoreCorrupt | StoreUnavailable) -> tuple[TopicBench, BalkyStore]:
    bench = TopicBench()
    store = BalkyStore(notify=bench.scheduler.call_soon, replayable=True)
    store.failures, store.read_sizes = list(failures), []
    bench.store = store
    bench.start()
    return bench, store


@pytest.mark.rule("SCH-10", "SCH-4")
@pytest.mark.parametrize("is_restarted", [False, True])
def test_filters_run_at_activation(is_restarted: bool) -> None:
    bench = TopicBench()
    scheduled(bench, b"one", b"two")
    assert bench.selector.asked == []
    bench.subscribe(C)
    bench.selector.answer = lambda body: Selection([A, C] if body == b"one" else [C])
    if is_restarted:
        bench.start()
    assert bench.waiting(A) == bench.waiting(B) == []
    wait(bench)
    assert [(body, number) for body, _, number in bench.selector.asked] == [
        (b"one", 3),
        (b"two", 4),
    ]
    for restart in (False, True):
        if restart:
            bench.start()
        assert bench.waiting(A) == [3]
        assert bench.waiting(B) == []
        assert bench.waiting(C) == [3, 4]
        assert bench.state.counts().scheduled == 0
    assert [d.body for d in bench.receive(C)] == [b"one", b"two"]


@pytest.mark.rule("SCH-2")
def test_a_scheduled_message_is_seen_at_the_topic_alone() -> None:
    bench = TopicBench()
    scheduled(bench, b"later")
    bench.submit(Peek(bench.ports, SubQueueType.MAIN, 0, 10, 1 << 18))
    (seen,) = bench.ports.lookups.pop()
    assert (seen.body, seen.state) == (b"later", MessageState.SCHEDULED)
    bench.submit(Peek(bench.ports, SubQueueType.MAIN, 0, 10, 1 << 18), A)
    assert bench.ports.lookups.pop() == []


@pytest.mark.rule("SCH-3")
def test_it_can_be_cancelled_until_then() -> None:
    bench = TopicBench()
    scheduled(bench, b"later", b"never")
    bench.submit(CancelScheduled(bench.ports, [2]))
    assert bench.ports.answers == [1]
    wait(bench)
    assert [d.body for d in bench.receive(A)] == [b"later"]


def test_what_nobody_wants_is_gone_when_it_is_due() -> None:
    bench = TopicBench()
    scheduled(bench, b"later")
    bench.selector.answer = lambda body: NOBODY
    wait(bench)
    assert bench.state.counts().scheduled == bench.state.counts().size_bytes == 0
    assert bench.store.live_bytes == 0
    bench.start()
    wait(bench)
    assert bench.waiting(A) == []


@pytest.mark.rule("TTL-3", "SCH-4")
def test_its_life_begins_when_it_is_due() -> None:
    specs = {A: PLAIN, B: replace(PLAIN, default_ttl_ms=1_000)}
    bench = TopicBench(subscriptions=specs)
    scheduled(bench, b"later", ttl_ms=3_000)
    wait(bench)
    for key, life_ms in ((A, 3_000), (B, 1_000)):
        (held,) = bench.machines[key].state.main.ready.copies(0)
        assert held.expires_ms - held.enqueued_ms == life_ms


def test_sessions_are_found_in_the_body() -> None:
    bench = TopicBench(subscriptions={A: replace(PLAIN, requires_session=True)})
    bench.selector.sessions[b"in s"] = "s"
    scheduled(bench, b"in s", b"in none")
    wait(bench)
    sessions = bench.machines[A].state.sessions
    assert sessions is not None
    assert list(sessions.by_id) == ["s"]
    assert bench.waiting(A, SubQueueType.DEAD_LETTER) == [4]


@pytest.mark.rule("SCH-10")
def test_a_rewritten_copy_of_a_scheduled_message() -> None:
    bench = TopicBench()
    scheduled(bench, b"later")
    bench.selector.answer = lambda body: Selection([A], [(A, NewMessage(body + b"'", -1))])
    wait(bench)
    for restart in (False, True):
        if restart:
            bench.start()
        assert [(d.sequence, d.body) for d in bench.receive(A)] == [(2, b"later"), (3, b"later'")]
    bench.send(b"next")
    assert bench.waiting(A) == [4, 5]


def test_bodies_are_read_a_few_at_a_time() -> None:
    bench, store = balky()
    scheduled(bench, *[b"%d" % n for n in range(2 * due.READ_MESSAGES_MAX + 1)])
    wait(bench)
    assert store.read_sizes == [due.READ_MESSAGES_MAX] * 2 + [1]
    assert len(bench.waiting(A)) == 2 * due.READ_MESSAGES_MAX + 1
    assert bench.store.live_bytes == bench.state.counts().size_bytes


def test_a_store_that_cannot_read_is_asked_again() -> None:
    bench, store = balky(StoreUnavailable(), StoreUnavailable())
    scheduled(bench, b"one", b"two")
    wait(bench)
    assert bench.waiting(A) == []
    assert bench.state.counts().scheduled == 2
    for _ in range(2):
        wait(bench, READ_RETRY_MS + 100)
    assert bench.waiting(A) == [3, 4]
    assert store.read_sizes == [2, 2, 2]


def test_a_damaged_message_is_kept_aside_and_the_others_go_on() -> None:
    bench, _ = balky(StoreCorrupt("all"), StoreCorrupt("the first"))
    scheduled(bench, b"bad", b"good")
    wait(bench)
    assert [d.body for d in bench.receive(A)] == [b"good"]
    assert bench.broker.damage.count == 1
    assert bench.state.counts().scheduled == 1
    scheduled(bench, b"later")
    wait(bench)
    assert len(bench.waiting(A)) == 1
    bench.broker._checkpoint()
    bench.run()
    bench.start()
    assert bench.state.counts().scheduled == 1


def test_a_publication_that_fails_is_tried_again_when_the_store_answers() -> None:
    bench = TopicBench()
    store = bench.store
    assert isinstance(store, MemoryStore)
    scheduled(bench, b"later")
    bench.selector.answer = lambda body: (store.fail(), Selection([A, B]))[1]
    wait(bench)
    assert bench.waiting(A) == []
    assert bench.state.counts().scheduled == 1
    bench.selector.answer = lambda body: Selection([A, B])
    store.heal()
    wait(bench)
    assert bench.waiting(A) == bench.waiting(B) == [2]
    bench.start()
    assert bench.waiting(A) == [2]


@pytest.mark.rule("SCH-4", "SCH-10")
@pytest.mark.parametrize("is_restarted", [False, True])
def test_copies_of_a_scheduled_message_say_that_it_was(is_restarted: bool) -> None:
    bench = TopicBench()
    bench.selector.answer = lambda body: Selection([A], [(B, NewMessage(body + b"'", -1))])
    scheduled(bench, b"due")
    wait(bench)
    bench.send(b"at once")
    if is_restarted:
        bench.start()
    for key in (A, B):
        states = [message.state for message in bench.receive(key)]
        assert states == [MessageState.SCHEDULED, MessageState.ACTIVE]


@pytest.mark.rule("SCH-4", "TTL-1")
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_scheduled_message_of_a_topic_keeps_a_long_life(is_restarted: bool) -> None:
    bench = TopicBench()
    scheduled(bench, b"long", ttl_ms=100 * 86_400_000)
    if is_restarted:
        bench.start()
    wait(bench)
    (held,) = bench.machines[A].state.main.ready.copies(0)
    assert held.expires_ms - held.enqueued_ms == 100 * 86_400_000
