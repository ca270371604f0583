"""Locks that are lost all at once: `DropLocks`."""

import pytest

from partibus.fragment.commands import DropLocks, Lane, Outcome
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q")


@pytest.fixture
def bench() -> FragmentBench:
    return FragmentBench(SPEC)


@pytest.mark.rule("SEED-107")
def test_dropped_locks_return_their_messages_with_one_delivery_counted(
    bench: FragmentBench,
) -> None:
    bench.send(b"a", b"b", b"c")
    held = bench.receive(2)
    bench.submit(DropLocks())
    again = bench.receive(5)
    assert [(m.body, m.delivery_count) for m in again] == [(b"a", 1), (b"b", 1), (b"c", 0)]
    assert [m.sequence for m in again[:2]] == [m.sequence for m in held]


def test_who_held_a_dropped_lock_is_told_that_it_is_lost(bench: FragmentBench) -> None:
    bench.send(b"a", b"b")
    first, second = bench.receive(2)
    bench.submit(DropLocks())
    assert bench.settle([first.token]) == ([first.token], None)
    assert bench.renew([second.token]) == [0]
    assert bench.state.counts().active == 2


def test_a_settlement_behind_the_drop_in_the_same_turn_is_lost_too(bench: FragmentBench) -> None:
    bench.send(b"a")
    (message,) = bench.receive(1)
    bench.broker.submit(bench.machine, DropLocks())
    assert bench.settle([message.token]) == ([message.token], None)
    assert [m.delivery_count for m in bench.receive(1)] == [1]


def test_a_settlement_before_the_drop_in_the_same_turn_holds(bench: FragmentBench) -> None:
    from partibus.fragment.commands import Settle

    bench.send(b"a")
    (message,) = bench.receive(1)
    command = Settle(bench.ports, None, Lane.MAIN, [message.token], Outcome.COMPLETE)
    bench.broker.submit(bench.machine, command)
    bench.submit(DropLocks())
    assert bench.ports.settlements == [(None, [], None)]
    assert bench.state.main.message_count == 0


def test_locks_of_all_lanes_are_dropped(bench: FragmentBench) -> None:
    bench.send(b"dead", b"deferred")
    dead, deferred = bench.receive(2)
    bench.settle([dead.token], Outcome.DEAD_LETTER)
    bench.settle([deferred.token], Outcome.DEFER)
    assert len(bench.receive(1, Lane.DEAD_LETTER)) == 1
    bench.receive_deferred(deferred.sequence)
    assert bench.state.lock_count == 2
    bench.submit(DropLocks())
    assert bench.state.lock_count == 0
    assert bench.state.counts().deferred == 1
    assert len(bench.receive(1, Lane.DEAD_LETTER)) == 1


def test_the_last_delivery_that_is_dropped_ends_among_the_dead_letters(
    bench: FragmentBench,
) -> None:
    bench.send(b"a")
    for _ in range(3):
        assert len(bench.receive(1)) == 1
        bench.submit(DropLocks())
    assert bench.receive(1) == []
    (dead,) = bench.receive(1, Lane.DEAD_LETTER)
    assert dead.overlay is not None
    assert dead.overlay.reason == "MaxDeliveryCountExceeded"


def test_locks_dropped_while_the_store_is_down_end_when_it_is_up(bench: FragmentBench) -> None:
    store = bench.store
    assert isinstance(store, MemoryStore)
    bench.send(b"a")
    (message,) = bench.receive(1)
    store.fail()
    bench.submit(DropLocks())
    assert bench.settle([message.token]) == ([message.token], None)
    store.heal()
    bench.run()
    assert [m.delivery_count for m in bench.receive(1)] == [1]
    assert bench.state.counts().locked == 1


def test_locks_taken_after_the_drop_live_on(bench: FragmentBench) -> None:
    bench.send(b"a")
    bench.receive(1)
    bench.submit(DropLocks())
    (again,) = bench.receive(1)
    bench.scheduler.advance_ms(20_000)
    assert bench.settle([again.token]) == ([], None)
