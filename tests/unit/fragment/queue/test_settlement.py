"""What settling and losing locks does to the state of messages and the count of deliveries."""

from dataclasses import replace

import pytest

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.fragment.commands import DropLocks, Outcome, Settle, SubQueueType, Undelivered
from partibus.fragment.effects import Effects
from partibus.fragment.message import MessageState, Overlay
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import Delivered, FragmentBench

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

    bench.send(b"a")
    (message,) = bench.receive(1)
    command = Settle(bench.ports, None, SubQueueType.MAIN, [message.token], Outcome.COMPLETE)
    bench.broker.submit(bench.machine, command)
    bench.submit(DropLocks())
    assert bench.ports.settlements == [(None, [], None)]
    assert bench.state.main.message_count == 0


def test_locks_of_all_subqueues_are_dropped(bench: FragmentBench) -> None:
    bench.send(b"dead", b"deferred")
    dead, deferred = bench.receive(2)
    bench.settle([dead.token], Outcome.DEAD_LETTER)
    bench.settle([deferred.token], Outcome.DEFER)
    assert len(bench.receive(1, SubQueueType.DEAD_LETTER)) == 1
    bench.receive_deferred(deferred.sequence)
    assert bench.state.lock_count == 2
    bench.submit(DropLocks())
    assert bench.state.lock_count == 0
    assert bench.state.counts().deferred == 1
    assert len(bench.receive(1, SubQueueType.DEAD_LETTER)) == 1


def test_the_last_delivery_that_is_dropped_ends_among_the_dead_letters(
    bench: FragmentBench,
) -> None:
    bench.send(b"a")
    for _ in range(3):
        assert len(bench.receive(1)) == 1
        bench.submit(DropLocks())
    assert bench.receive(1) == []
    (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
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


@pytest.mark.rule("DEF-5", "DLV-3")
@pytest.mark.parametrize("end", ["abandoned", "deferred", "lapsed", "released"])
def test_a_deferred_message_stays_deferred(bench: FragmentBench, end: str) -> None:
    bench.send(b"aside")
    (message,) = bench.receive(1)
    bench.settle([message.token], Outcome.DEFER)
    (again,) = received(bench, message.sequence)
    assert (again.state, again.delivery_count) == (MessageState.DEFERRED, 1)
    if end == "lapsed":
        bench.scheduler.advance_ms(SPEC.lock_duration_ms + 1)
    else:
        outcomes = {"abandoned": Outcome.ABANDON, "deferred": Outcome.DEFER}
        bench.settle([again.token], outcomes.get(end, Outcome.RELEASE))
    assert bench.receive(1) == []
    assert [shown.state for shown in bench.peek()] == [MessageState.DEFERRED]
    (last,) = received(bench, message.sequence)
    assert (last.state, last.delivery_count) == (MessageState.DEFERRED, 1 + (end != "released"))


@pytest.mark.rule("DLV-2", "DLV-3")
def test_deferring_counts_and_the_limit_is_watched_by_the_next_failure(
    bench: FragmentBench,
) -> None:
    bench.send(b"aside")
    (message,) = bench.receive(1)
    bench.settle([message.token], Outcome.DEFER)
    for count in range(1, SPEC.max_delivery_count + 1):
        (message,) = received(bench, message.sequence)
        assert message.delivery_count == count
        bench.settle([message.token], Outcome.DEFER)
    (message,) = received(bench, message.sequence)
    bench.settle([message.token], Outcome.ABANDON)
    (letter,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    assert letter.overlay is not None and letter.overlay.reason == "MaxDeliveryCountExceeded"


@pytest.mark.rule("SCH-4", "MSG-2")
def test_a_message_that_was_scheduled_says_so_until_it_is_deferred_or_dead(
    bench: FragmentBench,
) -> None:
    bench.send(b"due", scheduled_ms=bench.clock.now_ms() + 1_000)
    assert [shown.state for shown in bench.peek()] == [MessageState.SCHEDULED]
    bench.scheduler.advance_ms(2_000)
    assert [shown.state for shown in bench.peek()] == [MessageState.ACTIVE], "where it is now"
    (message,) = bench.receive(1)
    assert message.state is MessageState.SCHEDULED
    bench.settle([message.token], Outcome.ABANDON)
    (message,) = bench.receive(1)
    assert (message.state, message.delivery_count) == (MessageState.SCHEDULED, 1)
    bench.settle([message.token], Outcome.DEFER)
    (message,) = received(bench, message.sequence)
    assert message.state is MessageState.DEFERRED
    bench.settle([message.token], Outcome.DEAD_LETTER)
    assert [letter.state for letter in bench.receive(1, SubQueueType.DEAD_LETTER)] == [
        MessageState.ACTIVE
    ]


@pytest.mark.rule("DLV-4", "ASK-25")
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_deliveries_of_dead_letters_count_where_the_entity_says_so(
    counts: bool, is_restarted: bool
) -> None:
    bench = FragmentBench(replace(SPEC, counts_dead_letters=counts))
    bench.send(b"dead")
    (message,) = bench.receive(1)
    bench.settle([message.token], Outcome.ABANDON)
    (message,) = bench.receive(1)
    bench.settle([message.token], Outcome.DEAD_LETTER)
    dead = SubQueueType.DEAD_LETTER
    for end in ("abandon", "lapse", "defer"):
        (letter,) = bench.receive(1, dead)
        if end == "lapse":
            bench.scheduler.advance_ms(SPEC.lock_duration_ms + 1)
        else:
            outcome = Outcome.ABANDON if end == "abandon" else Outcome.DEFER
            bench.settle([letter.token], outcome, dead, Overlay(b"x"))
    if is_restarted:
        bench.start()
    again = bench.receive_deferred(letter.sequence, subqueue=dead)
    assert not isinstance(again, BusError)
    assert [m.delivery_count for m in again] == [4 if counts else 1]
    assert again[0].overlay is not None and again[0].overlay.properties == b"xx"


def received(bench: FragmentBench, sequence: int) -> list[Delivered]:
    got = bench.receive_deferred(sequence)
    assert not isinstance(got, BusError)
    return got


@pytest.mark.parametrize("fails", [True, False])
def test_a_message_that_cannot_be_read_while_it_is_given_back_is_there_once(
    bench: FragmentBench, fails: bool
) -> None:
    """Found by a simulated cluster, seed 296."""
    bench.send(b"a")
    _, consumer = bench.receiver()
    bench.demand(consumer, 1)
    (held,) = bench.state.main.locks.values()
    out, now_ms = Effects(), bench.clock.now_ms()
    command = Settle(bench.ports, None, SubQueueType.MAIN, [held.token], Outcome.ABANDON)
    bench.machine.apply(command, now_ms, out)
    bench.machine.apply(Undelivered(consumer, [held], False), now_ms, out)
    for change in out.changes:
        if fails:
            bench.machine.abort(change, StoreUnavailable(), out)
        else:
            bench.machine.commit(change, now_ms, out)
    main = bench.state.main
    assert (len(main.locks), len(main.ready), main.message_count) == (fails, not fails, 1)
