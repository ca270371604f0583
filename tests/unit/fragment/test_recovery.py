"""A fragment after a crash or a failing store is what its durable records say."""

import struct

import pytest

from partibus.domain.errors import BusError, StoreCorrupt, StoreUnavailable
from partibus.fragment.commands import Outcome, SubQueueType
from partibus.fragment.message import MessageState, Overlay
from partibus.fragment.records import pack_overlay, unpack_overlay, unpack_sequences
from partibus.fragment.replay import replay
from partibus.fragment.snapshot import dump, load
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q")


@pytest.fixture
def bench() -> FragmentBench:
    return FragmentBench(SPEC)


def checkpoint(bench: FragmentBench) -> None:
    bench.broker._checkpoint()
    bench.run()


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_everything_durable_survives(bench: FragmentBench, with_checkpoint: bool) -> None:
    bench.send(*[bytes([n]) for n in range(8)])
    done, back, dead, held, left = bench.receive(5)
    bench.settle([done.token])
    if with_checkpoint:
        checkpoint(bench)
    bench.settle([back.token], Outcome.ABANDON, overlay=Overlay(b"x"))
    bench.settle([dead.token], Outcome.DEAD_LETTER, overlay=Overlay(b"", "why", "text"))
    bench.settle([left.token], Outcome.RELEASE)
    bench.start()
    got = bench.receive(10)
    assert [m.sequence for m in got] == [back.sequence, held.sequence, left.sequence, 6, 7, 8]
    assert [m.delivery_count for m in got] == [1, 0, 0, 0, 0, 0]
    assert got[0].overlay is not None and got[0].overlay.properties == b"x"
    assert [m.body for m in got] == [bytes([m.sequence - 1]) for m in got]
    (letter,) = bench.receive(10, SubQueueType.DEAD_LETTER)
    assert letter.overlay is not None
    assert (letter.overlay.reason, letter.overlay.description) == ("why", "text")


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_sequence_numbers_are_never_used_again(bench: FragmentBench, with_checkpoint: bool) -> None:
    bench.send(b"a", b"b")
    bench.receive(2, deletes=True)
    if with_checkpoint:
        checkpoint(bench)
    bench.start()
    bench.send(b"c")
    (got,) = bench.receive(5)
    assert got.sequence == 3


def test_locks_do_not_survive_and_tokens_of_before_are_lost(bench: FragmentBench) -> None:
    bench.send(b"a", b"b")
    first, _ = bench.receive(2)
    bench.start()
    again = bench.receive(5)
    assert [m.sequence for m in again] == [1, 2]
    assert first.sequence == 1


def test_sizes_and_counts_are_rebuilt(bench: FragmentBench) -> None:
    bench.send(b"12345", b"678")
    (first,) = bench.receive(1)
    bench.settle([first.token], Outcome.DEAD_LETTER)
    bench.start()
    assert bench.state.size_bytes == 8
    assert bench.state.main.message_count == 1
    assert bench.state.dead.message_count == 1
    assert bench.store.live_bytes == 8


def test_a_deep_backlog_with_holes_is_rebuilt(bench: FragmentBench) -> None:
    bench.send(*[n.to_bytes(2, "big") for n in range(3000)])
    got = bench.receive(2500)
    bench.settle([m.token for m in got if m.sequence % 3])
    checkpoint(bench)
    bench.settle([m.token for m in got if m.sequence % 6 == 0])
    bench.start()
    expected = [s for s in range(1, 3001) if s > 2500 or (s % 3 == 0 and s % 6)]
    assert [m.sequence for m in bench.receive(5000)] == expected


def test_dead_letters_in_a_snapshot_keep_their_reasons(bench: FragmentBench) -> None:
    bench.send(b"a", b"b", b"c")
    a, b, c = bench.receive(3)
    for message in (c, a, b):
        overlay = Overlay(b"", f"reason {message.sequence}")
        bench.settle([message.token], Outcome.DEAD_LETTER, overlay=overlay)
    checkpoint(bench)
    bench.start()
    dead = bench.receive(5, SubQueueType.DEAD_LETTER)
    assert [(m.sequence, m.overlay and m.overlay.reason) for m in dead] == [
        (1, "reason 1"),
        (2, "reason 2"),
        (3, "reason 3"),
    ]


def failing(bench: FragmentBench) -> MemoryStore:
    assert isinstance(bench.store, MemoryStore)
    return bench.store


def test_a_store_that_is_down_refuses_sends_and_keeps_their_numbers(bench: FragmentBench) -> None:
    bench.send(b"a")
    failing(bench).fail()
    bench.run()
    bench.send(b"b")
    ((_, error),) = bench.ports.refusals
    assert isinstance(error, StoreUnavailable) and error.retryable
    assert bench.state.size_bytes == 1
    failing(bench).heal()
    bench.run()
    bench.send(b"c")
    assert [m.sequence for m in bench.receive(5)] == [1, 2]


def test_a_settlement_that_failed_leaves_the_lock_as_it_was(bench: FragmentBench) -> None:
    bench.send(b"a")
    (message,) = bench.receive(1)
    failing(bench).fail()
    for outcome in (Outcome.COMPLETE, Outcome.ABANDON, Outcome.DEAD_LETTER):
        lost, error = bench.settle([message.token], outcome)
        assert lost == [] and isinstance(error, StoreUnavailable)
    failing(bench).heal()
    assert bench.settle([message.token]) == ([], None)


def test_nothing_is_handed_out_while_the_store_is_down(bench: FragmentBench) -> None:
    bench.send(b"a", b"b")
    failing(bench).fail()
    bench.run()
    inbox, consumer = bench.receiver()
    bench.demand(consumer, 5)
    assert inbox.messages == []
    failing(bench).heal()
    bench.run()
    assert [m.body for m in inbox.messages] == [b"a", b"b"]


def test_receive_and_delete_that_failed_puts_the_messages_back(bench: FragmentBench) -> None:
    bench.send(b"a")
    inbox, consumer = bench.receiver(deletes=True)
    store = failing(bench)
    from partibus.fragment.commands import Demand

    bench.broker.submit(bench.machine, Demand(consumer, 5, False))
    bench.broker._turn()
    store.fail()
    bench.run()
    assert inbox.messages == []
    store.heal()
    bench.run()
    assert [m.body for m in inbox.messages] == [b"a"]


def test_locks_that_lapsed_while_the_store_was_down_lapse_afterwards(bench: FragmentBench) -> None:
    bench.send(b"a")
    bench.receive(1)
    failing(bench).fail()
    bench.scheduler.advance_ms(60_000)
    failing(bench).heal()
    bench.run()
    (again,) = bench.receive(1)
    assert again.delivery_count == 1


def test_a_damaged_body_does_not_keep_its_neighbours_back(bench: FragmentBench) -> None:
    bench.send(b"a", b"b", b"c")
    store = failing(bench)
    positions = [position for position, body in store._bodies.items() if body == b"b"]
    del store._bodies[positions[0]]
    assert [m.body for m in bench.receive(5)] == [b"a", b"c"]
    assert bench.broker.damage.count == 1
    assert bench.state.main.message_count == 3


@pytest.mark.parametrize("deletes", [False, True])
def test_a_damaged_body_is_given_as_an_empty_one_among_deferred_messages(
    bench: FragmentBench, deletes: bool
) -> None:
    bench.send(b"a", b"b", b"c")
    bench.settle([m.token for m in bench.receive(3)], Outcome.DEFER)
    store = failing(bench)
    positions = [position for position, body in store._bodies.items() if body == b"b"]
    del store._bodies[positions[0]]
    given = bench.receive_deferred(1, 2, 3, deletes=deletes)
    assert not isinstance(given, BusError)
    assert [m.body for m in given] == [b"a", b"", b"c"]
    assert bench.broker.damage.count == 1


def test_a_damaged_body_is_looked_at_as_an_empty_one(bench: FragmentBench) -> None:
    bench.send(b"a", b"b", b"c")
    store = failing(bench)
    positions = [position for position, body in store._bodies.items() if body == b"b"]
    del store._bodies[positions[0]]
    for _ in range(2):
        assert [m.body for m in bench.peek()] == [b"a", b"", b"c"]
        assert bench.broker.damage.count == 1, "however often it is met"
    assert [m.body for m in bench.peek(from_sequence=2, count=1)] == [b""]


@pytest.mark.parametrize(
    "overlay", [None, Overlay(b"abc"), Overlay(b"", "r", ""), Overlay(b"", None, "d" * 5000)]
)
def test_overlays_keep_their_texts(overlay: Overlay | None) -> None:
    packed = pack_overlay(overlay)
    read, offset = unpack_overlay(packed, 0)
    assert offset == len(packed)
    if overlay is None:
        assert read is None
    else:
        assert read is not None
        cut = overlay.description[:4096] if overlay.description is not None else None
        assert (read.properties, read.reason, read.description) == (
            overlay.properties,
            overlay.reason,
            cut,
        )


def test_unknown_records_and_versions_are_refused(bench: FragmentBench) -> None:
    with pytest.raises(StoreCorrupt, match="kind 99"):
        replay(bench.state, 99, b"", 0, 0)
    with pytest.raises(StoreCorrupt, match="version 7"):
        load(1, SPEC, b"\x07" + dump(bench.state)[1:])
    with pytest.raises(StoreCorrupt, match="truncated"):
        load(1, SPEC, dump(bench.state)[:-1])
    with pytest.raises(StoreCorrupt, match="truncated"):
        unpack_sequences(b"123")
    with pytest.raises(StoreCorrupt, match="does not exist"):
        replay(bench.state, 3, pack_overlay(None) + (5).to_bytes(8, "little"), 0, 0)


@pytest.mark.parametrize("with_checkpoint", [False, True])
@pytest.mark.rule("DLV-3", "SCH-4")
def test_states_and_counts_survive(bench: FragmentBench, with_checkpoint: bool) -> None:
    bench.send(b"due", b"due and deferred", b"due and dead", scheduled_ms=bench.clock.now_ms() + 9)
    bench.scheduler.advance_ms(1_000)
    waiting, aside, dead = bench.receive(3)
    bench.settle([aside.token], Outcome.DEFER)
    bench.settle([dead.token], Outcome.DEAD_LETTER)
    if with_checkpoint:
        checkpoint(bench)
    bench.start()
    again = bench.receive_deferred(aside.sequence)
    assert not isinstance(again, BusError)
    for message, state, count in (
        (bench.receive(2), MessageState.SCHEDULED, 0),
        (again, MessageState.DEFERRED, 1),
        (bench.receive(2, SubQueueType.DEAD_LETTER), MessageState.ACTIVE, 0),
    ):
        assert [(m.state, m.delivery_count) for m in message] == [(state, count)]
    assert waiting.state is MessageState.SCHEDULED


def test_records_of_earlier_releases_keep_their_meaning(bench: FragmentBench) -> None:
    """A deferral did not count a delivery, and every return did."""
    bench.send(b"deferred", b"returned")
    numbers = [(number).to_bytes(8, "little") for number in (1, 2)]
    replay(bench.state, 5, pack_overlay(None) + numbers[0], 0, 0)
    replay(bench.state, 3, pack_overlay(None) + numbers[1], 0, 0)
    shown = [(m.state, m.delivery_count) for m in bench.peek()]
    assert shown == [(MessageState.DEFERRED, 0), (MessageState.ACTIVE, 1)]


def test_a_snapshot_of_the_versions_before_opens(bench: FragmentBench) -> None:
    bench.send(b"b")
    now_ms = bench.clock.now_ms()
    row = struct.pack("<QQQQQ", 2, 1, 1, now_ms, 0)
    locked = struct.pack("<QQIIQQ", 1, 2, 1, 0, now_ms, 0) + pack_overlay(None)
    tables = struct.pack("<QII", 1, 1, 0) + row + locked + 6 * struct.pack("<QII", 0, 0, 0)
    state = load(1, SPEC, struct.pack("<BQ", 2, 3) + tables)
    assert [(h.sequence, h.enqueued_ms) for h in state.main.ready.copies(0)] == [
        (number, bench.clock.now_ms()) for number in (1, 2)
    ]


@pytest.mark.rule("SCH-4", "TTL-1")
@pytest.mark.parametrize("life_ms", [1_000_000, 0xFFFF_FFFF, 0xFFFF_FFFF + 7, 100 * 86_400_000])
@pytest.mark.parametrize("recovery", ["none", "log", "snapshot"])
def test_a_scheduled_message_keeps_its_life(
    bench: FragmentBench, life_ms: int, recovery: str
) -> None:
    now_ms = bench.clock.now_ms()
    bench.send(b"a", b"b", ttl_ms=life_ms, scheduled_ms=now_ms + 5_000)
    bench.cancel(1)
    if recovery == "snapshot":
        checkpoint(bench)
    if recovery != "none":
        bench.start()
    (shown,) = bench.state.scheduled.copies(0)
    assert shown.enqueued_ms == now_ms
    bench.scheduler.advance_ms(6_000)
    (held,) = bench.state.main.ready.copies(0)
    # The longest that 32 bits hold stands for none in a row, and gets a millisecond more.
    assert held.expires_ms - held.enqueued_ms == life_ms + (life_ms == 0xFFFF_FFFF)
