"""A transaction over fragments of one store: all of it or nothing, whatever stands beside it."""

import pytest

from partibus.domain.errors import (
    BusError,
    InvalidOperation,
    MessageLockLost,
    MessageNotFound,
    QuotaExceeded,
    SessionLockLost,
    StoreUnavailable,
)
from partibus.fragment.commands import (
    CancelScheduled,
    Command,
    Demand,
    Enqueue,
    Outcome,
    Settle,
    SubQueueType,
)
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox.commands import Transfer
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.transactions.commands import SILENT, CheckLocks, Transact
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import Delivered, FragmentBench

SPEC = FragmentSpec(lock_duration_ms=60_000, max_delivery_count=3, size_bytes_max=100)

DETECTING = FragmentSpec(lock_duration_ms=1000, max_delivery_count=3, duplicate_window_ms=1000)


class Bench(FragmentBench):
    """Two fragments of one store."""

    def start(self) -> None:
        super().start()
        self.other = self.broker.add(2, self.spec)

    def transact(self, *work: tuple[int, Command]) -> int | BusError:
        self.submit(Transact(self.ports, list(work), 0))
        return self.ports.answers.pop()

    def check(self, tokens: list[int], outcome: Outcome = Outcome.COMPLETE) -> int | BusError:
        self.submit(CheckLocks(self.ports, SubQueueType.MAIN, tokens, outcome))
        return self.ports.answers.pop()

    def take(self, body: bytes) -> Delivered:
        """Send a message and receive it under a lock."""
        self.send(body)
        (delivered,) = self.receive(1)
        return delivered

    def fingerprint(self) -> list[object]:
        """All that a transaction might leave behind."""
        return [
            (
                m.state.counts(),
                m.state.size_bytes,
                m.state.next_sequence,
                m.state.outbox.next_number,
                frozenset(m.state.history.pending),
            )
            for m in (self.machine, self.other)
        ]


def new(*bodies: bytes, due_ms: int = 0, message_id: str | None = None) -> Enqueue:
    messages = [NewMessage(body, -1, due_ms, None, None, message_id) for body in bodies]
    return Enqueue(SILENT, messages, [0], sum(map(len, bodies)))


def moved(*bodies: bytes) -> Transfer:
    messages = [NewMessage(body, -1) for body in bodies]
    return Transfer(SILENT, messages, [0], sum(map(len, bodies)), "far")


def settle(token: int, outcome: Outcome = Outcome.COMPLETE) -> Settle:
    return Settle(SILENT, None, SubQueueType.MAIN, [token], outcome)


@pytest.mark.rule("TXN-2")
def test_all_of_it_happens_at_once() -> None:
    bench = Bench(SPEC)
    taken = bench.take(b"in")
    assert bench.transact((1, settle(taken.token)), (1, new(b"a", b"b")), (2, new(b"c"))) == 3
    assert [one.body for one in bench.receive(9)] == [b"a", b"b"]
    assert bench.other.state.counts().active == 1
    assert bench.state.counts().locked == 2


@pytest.mark.rule("TXN-2", "TXN-16")
@pytest.mark.parametrize(
    ("last", "error"),
    [
        (new(b"x" * 99), QuotaExceeded),
        (moved(b"x" * 99), QuotaExceeded),
        (settle(99), MessageLockLost),
        (CancelScheduled(SILENT, [77]), MessageNotFound),
    ],
)
def test_one_refusal_takes_all_of_it_back(last: Command, error: type[BusError]) -> None:
    bench = Bench(SPEC)
    bench.send(b"later", scheduled_ms=bench.clock.now_ms() + 1000)
    locks = [bench.take(body) for body in (b"1", b"2", b"3", b"4", b"5")]
    before = bench.fingerprint()
    outcomes = list(Outcome)
    work = [(1, settle(lock.token, out)) for lock, out in zip(locks, outcomes, strict=True)]
    sends: list[tuple[int, Command]] = [(1, new(b"a")), (2, new(b"b")), (1, moved(b"t", b"u"))]
    sends += [(1, new(b"c")), (1, moved(b"v"))]
    cancel = (1, CancelScheduled(SILENT, [1]))
    assert isinstance(bench.transact(*work, *sends, cancel, (1, last)), error)
    assert bench.fingerprint() == before
    lost, _ = bench.settle([lock.token for lock in locks])
    assert lost == [], "after a rollback they are still locked by whoever held them"
    assert bench.transact((1, new(b"after"))) == 1
    (after,) = bench.receive(9)
    assert after.sequence == 7, "the numbers of what was taken back are given again"


def test_a_fragment_that_is_not_there_takes_all_of_it_back() -> None:
    bench = Bench(SPEC)
    before = bench.fingerprint()
    assert isinstance(bench.transact((1, new(b"a")), (9, new(b"b"))), StoreUnavailable)
    assert bench.fingerprint() == before


def test_what_stands_beside_it_in_the_same_turn_is_not_touched() -> None:
    bench = Bench(SPEC)
    taken = bench.take(b"in")
    inbox, consumer = bench.receiver()
    bench.broker.submit(bench.machine, Enqueue(bench.ports, [NewMessage(b"1", -1)], [1], 1))
    work: list[tuple[int, Command]] = [(1, new(b"a")), (1, settle(taken.token)), (1, settle(99))]
    bench.broker.submit(bench.machine, Transact(bench.ports, work, 0))
    bench.broker.submit(bench.machine, Enqueue(bench.ports, [NewMessage(b"2", -1)], [2], 1))
    bench.broker.submit(bench.machine, settle(taken.token))
    bench.submit(Demand(consumer, 9, False))
    assert [one.body for one in inbox.take()] == [b"1", b"2"]
    assert isinstance(bench.ports.answers.pop(), MessageLockLost)
    assert bench.state.counts().active == 2, "the other settlement of the same lock went through"


@pytest.mark.rule("TXN-4")
def test_what_is_for_another_entity_is_in_the_outbox_and_in_no_subqueue() -> None:
    bench = Bench(SPEC)
    taken = bench.take(b"in")
    assert bench.transact((1, settle(taken.token)), (1, moved(b"t")), (1, moved(b"u"))) == 3
    counts = bench.state.counts()
    assert (counts.active, counts.transfer, bench.state.size_bytes) == (0, 2, 2)
    assert bench.receive(9) == []
    bench.start()
    assert bench.state.counts() == counts
    assert [parcel.path for parcel in bench.state.outbox.copies(0)] == ["far", "far"]


def test_a_lock_is_settled_once_in_a_transaction() -> None:
    bench = Bench(SPEC)
    taken = bench.take(b"in")
    answer = bench.transact((1, settle(taken.token)), (1, settle(taken.token, Outcome.ABANDON)))
    assert isinstance(answer, MessageLockLost)
    assert bench.settle([taken.token]) == ([], None)


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_takes_effect_at_the_commit(outcome: Outcome) -> None:
    bench = Bench(SPEC)
    taken = bench.take(b"in")
    assert bench.transact((1, settle(taken.token, outcome)), (2, new(b"out"))) == 2
    counts = bench.state.counts()
    where = (counts.active, counts.dead_letter, counts.deferred, counts.locked)
    assert (
        where
        == {
            Outcome.COMPLETE: (0, 0, 0, 0),
            Outcome.ABANDON: (1, 0, 0, 0),
            Outcome.DEAD_LETTER: (0, 1, 0, 0),
            Outcome.RELEASE: (1, 0, 0, 0),
            Outcome.DEFER: (0, 0, 1, 0),
        }[outcome]
    )
    if outcome is Outcome.RELEASE:
        assert bench.receive(1)[0].delivery_count == 0


def test_a_release_alone_is_a_transaction_too() -> None:
    bench = Bench(SPEC)
    taken = bench.take(b"in")
    assert bench.transact((1, settle(taken.token, Outcome.RELEASE))) == 1
    assert [one.body for one in bench.receive(9)] == [b"in"]


def test_a_store_that_fails_takes_all_of_it_back() -> None:
    bench = Bench(SPEC)
    store = bench.store
    assert isinstance(store, MemoryStore)
    taken = bench.take(b"in")
    released = bench.take(b"again")
    before = bench.fingerprint()
    store.fail()
    work = [(1, settle(taken.token)), (1, settle(released.token, Outcome.RELEASE))]
    answer = bench.transact((1, new(b"a")), (1, moved(b"t")), *work, (2, new(b"b")))
    assert isinstance(answer, StoreUnavailable)
    assert bench.fingerprint() == before
    store.heal()
    bench.run()
    assert bench.settle([taken.token, released.token]) == ([], None)


@pytest.mark.rule("DUP-9")
def test_a_rollback_leaves_no_id_in_the_history() -> None:
    bench = Bench(
        FragmentSpec(lock_duration_ms=1000, max_delivery_count=3, duplicate_window_ms=1000)
    )
    first = new(b"a", message_id="id")
    assert isinstance(bench.transact((1, first), (1, settle(99))), MessageLockLost)
    assert bench.transact((1, new(b"b", message_id="id"))) == 1
    assert [one.body for one in bench.receive(9)] == [b"b"]


def test_a_duplicate_in_a_transaction_is_dropped_as_outside() -> None:
    bench = Bench(
        FragmentSpec(lock_duration_ms=1000, max_delivery_count=3, duplicate_window_ms=1000)
    )
    twice = (1, new(b"a", message_id="id")), (1, new(b"b", message_id="id"))
    assert bench.transact(*twice) == 2
    assert bench.transact(*twice) == 2
    assert [one.body for one in bench.receive(9)] == [b"a"]


def test_sessions_stay_in_order_when_a_transaction_fails() -> None:
    spec = FragmentSpec(lock_duration_ms=60_000, max_delivery_count=3, requires_session=True)
    bench = Bench(spec)
    bench.send(b"1", b"2", session_id="s")
    inbox, consumer = bench.accept("s")
    bench.demand(consumer, 1)
    (first,) = inbox.take()
    work: list[tuple[int, Command]] = [(1, settle(first.token, Outcome.ABANDON)), (1, settle(99))]
    assert isinstance(bench.transact(*work), SessionLockLost)
    bench.demand(consumer, 1)
    assert [one.body for one in inbox.take()] == [b"2"]
    assert bench.transact((1, settle(first.token))) == 1


def test_a_look_at_locks_changes_nothing() -> None:
    bench = Bench(SPEC)
    taken = bench.take(b"in")
    assert bench.check([taken.token]) == 1
    assert isinstance(bench.check([taken.token, 99]), MessageLockLost)
    bench.scheduler.advance_ms(61_000)
    assert isinstance(bench.check([taken.token]), MessageLockLost)


def test_dead_letters_cannot_be_dead_lettered_again_in_a_transaction() -> None:
    bench = Bench(SPEC)
    bench.settle([bench.take(b"in").token], Outcome.DEAD_LETTER)
    (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    bench.submit(
        CheckLocks(bench.ports, SubQueueType.DEAD_LETTER, [dead.token], Outcome.DEAD_LETTER)
    )
    assert isinstance(bench.ports.answers.pop(), InvalidOperation)
    part = Settle(SILENT, None, SubQueueType.DEAD_LETTER, [dead.token], Outcome.DEAD_LETTER)
    assert isinstance(bench.transact((1, new(b"a")), (1, part)), InvalidOperation)
    assert bench.state.counts().active == 0
