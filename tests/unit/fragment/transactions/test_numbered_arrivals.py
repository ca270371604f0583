"""Messages scheduled in a transaction: numbers that are known before it ends."""

import pytest

from partibus.domain.errors import QuotaExceeded, TransactionRolledBack
from partibus.fragment.commands import Outcome, Settle, SubQueueType
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.transactions.commands import (
    SILENT,
    EnqueueNumbered,
    ReserveNumbers,
    Transact,
)
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=60_000, max_delivery_count=3, size_bytes_max=100)


class Numbers:
    def __init__(self) -> None:
        self.given: list[tuple[int, int]] = []

    def reserved(self, first_sequence: int, life: int) -> None:
        self.given.append((first_sequence, life))

    def failed(self, error: Exception) -> None:
        raise AssertionError(error)


def reserve(bench: FragmentBench, count: int) -> tuple[int, int]:
    port = Numbers()
    bench.submit(ReserveNumbers(port, count))
    (given,) = port.given
    return given


def numbered(
    bench: FragmentBench, given: tuple[int, int], *bodies: bytes, delay_ms: int = 1000, **more: str
) -> EnqueueNumbered:
    due_ms = bench.clock.now_ms() + delay_ms if delay_ms else 0
    messages = [
        NewMessage(body, -1, due_ms, more.get("session_id"), None, more.get("message_id"))
        for body in bodies
    ]
    return EnqueueNumbered(SILENT, messages, sum(map(len, bodies)), *given)


def transact(bench: FragmentBench, *parts: object) -> object:
    bench.submit(Transact(bench.ports, [(1, part) for part in parts], 0))  # type: ignore[misc]
    return bench.ports.answers.pop()


@pytest.mark.rule("SCH-7")
def test_a_message_is_known_by_the_number_it_was_given_before() -> None:
    bench = FragmentBench(SPEC)
    given = reserve(bench, 2)
    assert given[0] == 1
    bench.send(b"between")
    assert [one.sequence for one in bench.receive(1, deletes=True)] == [3]
    assert transact(bench, numbered(bench, given, b"a", b"b")) == 1
    assert [(one.sequence, one.body) for one in bench.peek()] == [(1, b"a"), (2, b"b")]
    assert bench.cancel(2) == 1
    bench.scheduler.advance_ms(1001)
    assert [(one.sequence, one.body) for one in bench.receive(9)] == [(4, b"a")]


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_they_are_there_after_a_restart_and_no_number_is_given_twice(is_checkpointed: bool) -> None:
    bench = FragmentBench(SPEC)
    given = reserve(bench, 2)
    bench.send(b"later", scheduled_ms=bench.clock.now_ms() + 5000)
    transact(bench, numbered(bench, given, b"a", b"b"))
    if is_checkpointed:
        bench.broker._checkpoint()
        bench.run()
    bench.start()
    assert [one.sequence for one in bench.peek()] == [1, 2, 3]
    bench.send(b"new")
    assert [one.sequence for one in bench.peek()] == [1, 2, 3, 4]


def test_numbers_set_aside_are_not_given_out_after_a_failure_of_the_store() -> None:
    bench = FragmentBench(SPEC)
    store = bench.store
    assert isinstance(store, MemoryStore)
    store.fail()
    bench.run()
    bench.send(b"lost")
    given = reserve(bench, 1)
    store.heal()
    bench.run()
    bench.send(b"kept")
    assert transact(bench, numbered(bench, given, b"a")) == 1
    assert sorted(one.body for one in bench.peek()) == [b"a", b"kept"]


def test_a_time_that_is_past_means_the_next_moment() -> None:
    bench = FragmentBench(SPEC)
    given = reserve(bench, 1)
    transact(bench, numbered(bench, given, b"a", delay_ms=0))
    bench.scheduler.advance_ms(50)
    assert [one.body for one in bench.receive(1)] == [b"a"]


def test_numbers_of_an_earlier_life_are_void() -> None:
    bench = FragmentBench(SPEC)
    first, life = reserve(bench, 1)
    answer = transact(bench, numbered(bench, (first, life + 1), b"a"))
    assert isinstance(answer, TransactionRolledBack)
    assert bench.peek() == []


def test_a_full_queue_refuses_them() -> None:
    bench = FragmentBench(SPEC)
    answer = transact(bench, numbered(bench, reserve(bench, 1), b"x" * 101))
    assert isinstance(answer, QuotaExceeded)


@pytest.mark.rule("DUP-9")
def test_what_is_taken_back_leaves_nothing() -> None:
    spec = FragmentSpec(
        lock_duration_ms=1000,
        max_delivery_count=3,
        duplicate_window_ms=9000,
        requires_session=True,
        size_bytes_max=100,
    )
    bench = FragmentBench(spec)
    lost = Settle(SILENT, None, SubQueueType.MAIN, [99], Outcome.COMPLETE)
    part = numbered(bench, reserve(bench, 1), b"x" * 90, session_id="s", message_id="id")
    assert not isinstance(transact(bench, part, lost), int)
    full = numbered(bench, reserve(bench, 1), b"x" * 101, session_id="s", message_id="id")
    assert isinstance(transact(bench, full), QuotaExceeded)
    assert bench.state.size_bytes == 0
    part = numbered(bench, reserve(bench, 2), b"a", b"b", session_id="s", message_id="id")
    assert transact(bench, part) == 1
    assert [one.body for one in bench.peek()] == [b"a"], "the second is a duplicate"
    bench.start()
    bench.scheduler.advance_ms(1001)
    inbox, consumer = bench.accept("s")
    bench.demand(consumer, 9)
    assert [one.body for one in inbox.take()] == [b"a"]
