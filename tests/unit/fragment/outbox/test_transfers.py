"""The outbox of a fragment over its broker and store: in, out, back, and after a crash."""

from collections.abc import Sequence

import pytest

from partibus.domain.errors import BusError, QuotaExceeded, StoreUnavailable
from partibus.fragment.commands import Outcome, SubQueueType
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.outbox.commands import (
    Collect,
    Fetch,
    Forwarded,
    ForwardWaiting,
    Redirect,
    ReturnParcels,
    Transfer,
)
from partibus.fragment.outbox.state import TRANSFER_SEQUENCES, Parcel, Purpose
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

PLAIN = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=2, path="q")
SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=2, path="q", forward_to="there")
BURIES = FragmentSpec(
    lock_duration_ms=30_000,
    max_delivery_count=2,
    path="q",
    dead_letter_on_expiry=True,
    forward_dead_letters_to="grave",
)
BOTH = FragmentSpec(
    lock_duration_ms=30_000,
    max_delivery_count=2,
    path="q",
    forward_to="there",
    forward_dead_letters_to="grave",
)


class Bag:
    """A courier that only collects."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self.bodies: list[bytes] = []
        self.answers: list[int | BusError] = []
        self.unread: list[BusError] = []

    def collected(self, parcels: Sequence[Parcel], bodies: Sequence[bytes]) -> None:
        self.parcels += parcels
        self.bodies += bodies

    def unreadable(self, parcels: Sequence[Parcel], error: BusError) -> None:
        self.unread.append(error)

    def done(self, count: int) -> None:
        self.answers.append(count)

    def failed(self, error: BusError) -> None:
        self.answers.append(error)


def collected(bench: FragmentBench, from_number: int = 0) -> Bag:
    bag = Bag()
    bench.submit(Collect(bag, from_number, 100, 1 << 20))
    return bag


def on_their_way(bench: FragmentBench) -> list[tuple[int, int, str]]:
    copies = bench.state.outbox.copies(0)
    return [(p.number, p.held.sequence, p.path) for p in copies]


def respec(bench: FragmentBench, spec: FragmentSpec, with_dead_letters: bool = False) -> None:
    bench.spec = bench.state.spec = spec
    bench.submit(ForwardWaiting(with_dead_letters))


def store(bench: FragmentBench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


# --- in ------------------------------------------------------------------------------------------


@pytest.mark.rule("FWD-1")
def test_what_arrives_goes_into_the_outbox_and_is_nobodys_to_receive() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a", b"b")
    assert bench.receive(5) == []
    bag = collected(bench)
    assert [(p.number, p.held.sequence, p.path) for p in bag.parcels] == [
        (1, 1, "there"),
        (2, 2, "there"),
    ]
    assert bag.bodies == [b"a", b"b"]
    assert (bench.state.counts().transfer, bench.state.counts().active) == (2, 0)
    assert len(bench.ports.confirmations) == 2


def test_a_courier_that_waits_hears_of_the_next_parcel_once() -> None:
    bench = FragmentBench(SPEC)
    bag = collected(bench)
    assert bag.parcels == []
    bench.send(b"a")
    bench.send(b"b")
    assert bag.bodies == [b"a"]
    assert collected(bench, 2).bodies == [b"b"]


def test_a_collection_is_limited_but_never_empty() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a" * 10, b"b" * 10, b"c" * 10)
    for count, size, wanted in ((2, 100, 2), (9, 25, 2), (9, 1, 1)):
        bag = Bag()
        bench.submit(Collect(bag, 0, count, size))
        assert len(bag.parcels) == wanted


@pytest.mark.rule("FWD-12")
def test_time_to_live_does_not_end_in_the_outbox() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a", ttl_ms=1000)
    bench.scheduler.advance_ms(60_000)
    assert bench.state.counts().transfer == 1


def test_a_scheduled_message_enters_when_it_is_due() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"later", scheduled_ms=bench.clock.now_ms() + 5000)
    bench.send(b"now")
    assert on_their_way(bench) == [(1, 2, "there")]
    bench.scheduler.advance_ms(6000)
    assert on_their_way(bench) == [(1, 2, "there"), (2, 3, "there")]


def test_what_waits_and_what_is_locked_follow_when_forwarding_is_switched_on() -> None:
    bench = FragmentBench(PLAIN)
    bench.send(*[b"%d" % n for n in range(2500)])
    (locked,) = bench.receive(1)
    respec(bench, SPEC)
    assert bench.state.counts().transfer == 2499
    bench.send(b"new")
    bench.settle([locked.token], Outcome.ABANDON)
    numbers = [sequence for _, sequence, _ in on_their_way(bench)]
    assert numbers == [*range(2, 2502), 1]


def test_arrivals_under_way_at_the_switch_keep_their_order() -> None:
    bench = FragmentBench(PLAIN)
    message = [NewMessage(b"a", -1)]
    from partibus.fragment.commands import Enqueue

    bench.broker.submit(bench.machine, Enqueue(bench.ports, message, [1], 1))
    bench.scheduler._soon.popleft()()
    bench.spec = bench.state.spec = SPEC
    bench.send(b"b")
    assert [sequence for _, sequence, _ in on_their_way(bench)] == [1, 2]


@pytest.mark.rule("FWD-5", "DLQ-8")
def test_dead_letters_go_on_whatever_made_them_so() -> None:
    bench = FragmentBench(BURIES)
    bench.send(b"asked", b"worn")
    asked, worn = bench.receive(2)
    overlay = Overlay(b"", "why", "text")
    bench.settle([asked.token], Outcome.DEAD_LETTER, overlay=overlay)
    bench.settle([worn.token], Outcome.ABANDON)
    (worn,) = bench.receive(1)
    bench.settle([worn.token], Outcome.ABANDON)
    bench.send(b"expired", ttl_ms=1000)
    bench.scheduler.advance_ms(5000)
    bag = collected(bench)
    reasons = [p.held.overlay.reason if p.held.overlay else None for p in bag.parcels]
    assert reasons == ["why", "MaxDeliveryCountExceeded", "TTLExpiredException"]
    assert {(p.purpose, p.path) for p in bag.parcels} == {(Purpose.DEAD_LETTER, "grave")}
    assert bench.state.counts().dead_letter == 0


def test_dead_letters_that_are_there_follow_a_change_only_when_asked() -> None:
    bench = FragmentBench(PLAIN)
    bench.send(b"a")
    (message,) = bench.receive(1)
    bench.settle([message.token], Outcome.DEAD_LETTER)
    respec(bench, BURIES)
    assert bench.state.counts().dead_letter == 1
    respec(bench, BURIES, with_dead_letters=True)
    assert on_their_way(bench) == [(1, 1, "grave")]


# --- sent through this entity --------------------------------------------------------------------


@pytest.mark.rule("TDQ-1")
def test_a_transfer_is_in_the_outbox_and_in_no_subqueue() -> None:
    bench = FragmentBench(PLAIN)
    messages = [NewMessage(b"a", -1), NewMessage(b"b", -1)]
    bench.submit(Transfer(bench.ports, messages, [7], 2, "far"))
    assert bench.ports.confirmations == [7]
    bag = collected(bench)
    assert [(p.purpose, p.path) for p in bag.parcels] == [(Purpose.TRANSFER, "far")] * 2
    assert bag.bodies == [b"a", b"b"]
    assert bench.state.size_bytes == 2
    bench.send(b"c")
    assert [m.sequence for m in bench.receive(5)] == [1]
    bench.submit(ReturnParcels(bag, [2], SubQueueType.TRANSFER_DEAD_LETTER, Overlay(b"", "shut")))
    (dead,) = bench.receive(5, SubQueueType.TRANSFER_DEAD_LETTER)
    assert (dead.sequence, dead.body) == (TRANSFER_SEQUENCES | 2, b"b")
    bench.settle([dead.token], subqueue=SubQueueType.TRANSFER_DEAD_LETTER)
    bench.start()
    assert [p.number for p in collected(bench).parcels] == [1]


def test_a_transfer_counts_against_the_size_of_the_entity() -> None:
    small = FragmentSpec(lock_duration_ms=1, max_delivery_count=1, size_bytes_max=3)
    bench = FragmentBench(small)
    bench.submit(Transfer(bench.ports, [NewMessage(b"four", -1)], [1], 4, "far"))
    ((_, error),) = bench.ports.refusals
    assert isinstance(error, QuotaExceeded)


# --- out and back --------------------------------------------------------------------------------


def decide(bench: FragmentBench, number: int) -> None:
    """A little of everything, about parcels from a number on."""
    bag = Bag()
    bench.submit(Forwarded(bag, [number]))
    bench.submit(ReturnParcels(bag, [number + 1], SubQueueType.DEAD_LETTER, Overlay(b"", "no")))
    bench.submit(ReturnParcels(bag, [number + 2], SubQueueType.MAIN, None))
    bench.submit(Redirect(bag, [number + 3], "elsewhere"))
    assert bag.answers == [1, 1, 1, 1]


@pytest.mark.parametrize("checkpoints", [0, 1, 2])
def test_what_was_decided_survives_a_crash(checkpoints: int) -> None:
    bench = FragmentBench(SPEC)
    bench.send(*[b"%d" % n for n in range(6)])
    if checkpoints == 1:
        bench.broker._checkpoint()
    decide(bench, 1)
    if checkpoints == 2:
        bench.broker._checkpoint()
        bench.run()
    expected = on_their_way(bench)
    # The third came back to a subqueue that forwards, so it left again.
    assert expected == [(5, 5, "there"), (6, 6, "there"), (7, 3, "there"), (8, 4, "elsewhere")]
    bench.start()
    assert on_their_way(bench) == expected
    assert all(parcel.is_recovered for parcel in bench.state.outbox.copies(0))
    (dead,) = bench.receive(5, SubQueueType.DEAD_LETTER)
    assert dead.overlay is not None and (dead.sequence, dead.overlay.reason) == (2, "no")
    bench.send(b"new")
    assert on_their_way(bench)[-1] == (9, 7, "there")
    assert bench.state.size_bytes == 8
    assert store(bench).live_bytes == 8


def test_a_parcel_is_decided_about_once() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a")
    bag = Bag()
    for command in (Forwarded(bag, [1]), ReturnParcels(bag, [1], SubQueueType.DEAD_LETTER, None)):
        bench.broker.submit(bench.machine, command)
    bench.run()
    assert bag.answers == [1, 0]
    assert bench.receive(1, SubQueueType.DEAD_LETTER) == []
    bench.start()
    assert on_their_way(bench) == []


def test_what_comes_back_to_a_queue_waits_at_its_place() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a", b"b")
    respec(bench, PLAIN)
    bench.send(b"c")
    bench.submit(ReturnParcels(Bag(), [2, 1], SubQueueType.MAIN, None))
    assert [m.body for m in bench.receive(5)] == [b"a", b"b", b"c"]


@pytest.mark.rule("FWD-5", "FWD-7")
def test_a_failed_forward_goes_where_dead_letters_go_and_a_failed_dead_letter_stays() -> None:
    bench = FragmentBench(BOTH)
    bench.send(b"a")
    bench.submit(ReturnParcels(Bag(), [1], SubQueueType.DEAD_LETTER, Overlay(b"", "first")))
    assert on_their_way(bench) == [(2, 1, "grave")]
    bench.start()
    assert on_their_way(bench) == [(2, 1, "grave")]
    bench.submit(ReturnParcels(Bag(), [2], SubQueueType.DEAD_LETTER, Overlay(b"", "second")))
    (dead,) = bench.receive(1, SubQueueType.DEAD_LETTER)
    assert dead.overlay is not None and dead.overlay.reason == "second"
    assert on_their_way(bench) == []


def test_parcels_can_be_read_again_while_they_are_there() -> None:
    bench = FragmentBench(SPEC)
    bench.send(b"a", b"b", b"c")
    bench.submit(Forwarded(Bag(), [2]))
    bag = Bag()
    bench.submit(Fetch(bag, [1, 2, 3]))
    assert bag.bodies == [b"a", b"c"]


# --- a store that fails --------------------------------------------------------------------------


def test_a_failing_store_changes_nothing() -> None:
    bench = FragmentBench(BOTH)
    bench.send(b"a", b"b", b"c")
    before = on_their_way(bench)
    store(bench).fail()
    bag = Bag()
    for command in (
        Forwarded(bag, [1]),
        ReturnParcels(bag, [2], SubQueueType.DEAD_LETTER, None),
        Redirect(bag, [3], "x"),
        Transfer(bench.ports, [NewMessage(b"t", -1)], [9], 1, "far"),
    ):
        bench.broker.submit(bench.machine, command)
    bench.run()
    assert all(isinstance(answer, StoreUnavailable) for answer in bag.answers)
    assert len(bag.answers) == 3
    bench.send(b"d")
    assert [request for request, _ in bench.ports.refusals] == [9, 4]
    assert on_their_way(bench) == before
    waiting = collected(bench, 4)
    store(bench).heal()
    bench.run()
    bench.send(b"e")
    assert on_their_way(bench) == [*before, (4, 4, "there")]
    assert waiting.bodies == [b"e"]
    bench.submit(Forwarded(bag, [1, 2, 3]))
    assert bag.answers[-1] == 3


def test_dead_letters_stay_locked_when_the_store_fails() -> None:
    bench = FragmentBench(BURIES)
    bench.send(b"a")
    (message,) = bench.receive(1)
    store(bench).fail()
    bench.run()
    _, error = bench.settle([message.token], Outcome.DEAD_LETTER)
    assert isinstance(error, StoreUnavailable)
    store(bench).heal()
    bench.run()
    assert bench.settle([message.token], Outcome.DEAD_LETTER) == ([], None)
    assert on_their_way(bench) == [(1, 1, "grave")]


def test_waiting_messages_stay_when_the_store_fails_at_the_switch() -> None:
    bench = FragmentBench(PLAIN)
    bench.send(b"a", b"b")
    bench.spec = bench.state.spec = SPEC
    bench.broker.submit(bench.machine, ForwardWaiting(False))
    store(bench).fail()
    bench.run()
    assert on_their_way(bench) == []
    assert bench.state.counts().active == 2
    store(bench).heal()
    bench.run()
    assert [number for number, _, _ in on_their_way(bench)] == [1, 2]


def test_a_store_that_comes_back_in_the_same_turn_resumes() -> None:
    bench = FragmentBench(SPEC)
    store(bench).fail()
    store(bench).heal()
    bench.run()
    bag = collected(bench)
    bench.send(b"a")
    assert bag.bodies == [b"a"]
