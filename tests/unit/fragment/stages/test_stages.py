"""Stages of one fragment: added, published once, dropped, abandoned, recovered."""

import pytest

from partibus.domain.errors import (
    BusError,
    EntityNotFound,
    InvalidOperation,
    QuotaExceeded,
    ServerBusy,
    StageFenced,
    StageLost,
    StoreUnavailable,
)
from partibus.fragment.commands import Enqueue
from partibus.fragment.message import NewMessage
from partibus.fragment.outbox.commands import Collect
from partibus.fragment.outbox.marks import Origin
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.stages import state as stages_module
from partibus.fragment.stages.commands import PublishStages, StageMessages
from partibus.fragment.stages.departures import DEPARTURE_MESSAGES_MAX, OUTBOX_MESSAGES_MAX
from partibus.fragment.stages.state import STAGE_LIFE_MS, Writer
from partibus.fragment.upkeep.usage import is_in_use
from partibus.store.memory import MemoryStore
from support.fragment.stages_bench import StageBench, StageReply

SPEC = FragmentSpec(lock_duration_ms=10_000, max_delivery_count=10, path="home")


@pytest.fixture
def bench() -> StageBench:
    return StageBench(SPEC)


def bodies(bench: StageBench) -> list[bytes]:
    return [body for _, _, body in bench.parcels()]


def staged(bench: StageBench) -> dict[str, int]:
    return {stage.name: stage.count for stage in bench.writers()["job"].stages}


def test_what_is_staged_is_held_and_not_seen(bench: StageBench) -> None:
    bench.stage("a", b"one", b"two")
    bench.stage("a", b"three", chunk=1)
    assert staged(bench) == {"a": 3}
    assert bench.peek() == []
    assert bench.receive(5) == []
    assert bodies(bench) == []
    counts = bench.state.counts()
    assert (counts.staged, counts.active, counts.size_bytes) == (3, 0, 11)
    assert is_in_use(bench.state)


def test_a_batch_leaves_in_the_order_of_its_stages(bench: StageBench) -> None:
    bench.stage("a", b"1", b"2")
    bench.stage("b", b"3", path="other")
    bench.stage("void", b"4")
    assert bench.publish(0, ("b", 1), ("a", 2)) == (3, False)
    assert bench.parcels() == [(1, "other", b"3"), (2, "goal", b"1"), (3, "goal", b"2")]
    assert staged(bench) == {}
    assert bench.state.size_bytes == 3
    bench.hand_over([1, 2, 3])
    assert (bench.state.size_bytes, bench.store.live_bytes) == (0, 0)
    assert not is_in_use(bench.state)


def test_a_batch_is_published_once(bench: StageBench) -> None:
    bench.stage("a", b"1")
    bench.publish(7, ("a", 1))
    assert bench.publish(7, ("a", 1)) == (0, True)
    bench.stage("again", b"1", epoch=2)
    for batch in (7, 3):
        assert bench.publish(batch, ("again", 1), epoch=2) == (0, True)
    assert (bodies(bench), staged(bench)) == ([b"1"], {})
    # Another series counts for itself.
    bench.stage("other", b"2", epoch=3)
    assert bench.publish(0, ("other", 1), epoch=3, series="other") == (1, False)
    assert bench.publish(7, epoch=3) == (0, True)


def test_a_chunk_that_comes_twice_is_added_once(bench: StageBench) -> None:
    bench.stage("a", b"1", b"2")
    bench.stage("a", chunk=1)
    for _ in range(2):
        bench.stage("a", b"3", chunk=2)
    bench.stage("a", b"1", b"2")
    assert staged(bench) == {"a": 3}
    with pytest.raises(StageLost, match="Chunk 4"):
        bench.stage("a", b"5", chunk=4)
    with pytest.raises(StageLost):
        bench.stage("unknown", b"5", chunk=1)
    with pytest.raises(InvalidOperation, match="its own name"):
        bench.stage("a", b"5", chunk=3, path="elsewhere")
    with pytest.raises(InvalidOperation):
        bench.stage("a", b"5", chunk=3, epoch=2)


def test_chunks_that_wait_for_the_store_together(bench: StageBench) -> None:
    """The second is a repetition of what is not durable yet; it is confirmed behind it."""
    replies = [StageReply() for _ in range(3)]
    for reply, chunk in zip(replies, (0, 0, 1), strict=True):
        message = NewMessage(b"%d" % chunk, -1)
        command = StageMessages(reply, "job", 1, "a", "goal", chunk, [message], [1], 1)
        bench.broker.submit(bench.machine, command)
    bench.run()
    assert all(reply.is_good for reply in replies)
    assert staged(bench) == {"a": 2}


def test_nothing_is_published_behind_the_back_of_a_later_one(bench: StageBench) -> None:
    """Whoever begins and then looks what was published has seen all that ever will be."""
    bench.stage("a", b"1")
    begun, late = StageReply(), StageReply()
    bench.broker.submit(bench.machine, StageMessages(begun, "job", 2, "b", "goal", 0, [], [1], 0))
    bench.broker.submit(bench.machine, PublishStages(late, "job", "series", 1, 0, [("a", 1)]))
    bench.run()
    assert begun.is_good
    assert isinstance(late.error, StageFenced)
    assert bodies(bench) == []
    bench.stage("b", b"1", chunk=1, epoch=2)
    assert bench.publish(0, ("b", 1), epoch=2) == (1, False)


def test_a_stage_must_be_as_it_was_written(bench: StageBench) -> None:
    bench.stage("a", b"1", b"2")
    for stages in ([("a", 1)], [("a", 2), ("b", 0)], [("a", 2), ("a", 2)]):
        with pytest.raises(StageLost):
            bench.publish(0, *stages)
    with pytest.raises(StageLost, match="another batch"):
        bench.publish(0, ("a", 2), epoch=2)
    assert staged(bench) == {"a": 2}


def test_a_later_epoch_shuts_earlier_ones_out(bench: StageBench) -> None:
    bench.stage("old", b"1", epoch=4)
    bench.stage("new", b"1", epoch=5)
    with pytest.raises(StageFenced, match="must stop"):
        bench.stage("old", b"2", chunk=1, epoch=4)
    with pytest.raises(StageFenced):
        bench.publish(0, ("old", 1), epoch=4)
    with pytest.raises(StageFenced):
        bench.drop(epoch=4)
    bench.publish(0, ("new", 1), epoch=5)
    assert staged(bench) == {}
    with pytest.raises(StageFenced, match="has ended"):
        bench.stage("straggler", b"1", epoch=5)
    with pytest.raises(StageFenced, match="has ended"):
        bench.publish(1, epoch=5)
    # Other writers have nothing to do with it.
    bench.stage("a", b"1", epoch=1, writer="other")


def test_stages_are_dropped(bench: StageBench) -> None:
    bench.stage("a", b"1")
    bench.stage("b", b"22")
    assert bench.drop(names=["a"]) == 1
    bench.stage("c", b"3")
    assert staged(bench) == {"b": 1, "c": 1}
    assert bench.drop() == 2
    assert (bench.state.size_bytes, bench.store.live_bytes) == (0, 0)
    with pytest.raises(StageFenced):
        bench.stage("d", b"4")
    assert bench.drop(writer="nobody") == 0


def test_an_operator_who_names_an_unknown_writer_gets_an_error(bench: StageBench) -> None:
    with pytest.raises(EntityNotFound, match="no writer 'nobody'"):
        bench.drop(epoch=None, writer="nobody")


def test_an_operator_drops_and_forgets(bench: StageBench) -> None:
    bench.stage("a", b"1", epoch=9)
    bench.publish(3, ("a", 1), epoch=9)
    bench.stage("b", b"1", epoch=10)
    assert bench.drop(epoch=None) == 1
    with pytest.raises(StageFenced):
        bench.stage("b", b"1", epoch=10)
    bench.drop(epoch=None, forget=True)
    assert bench.writers() == {}
    bench.start()
    assert bench.writers() == {}
    bench.stage("c", b"1")
    assert bench.publish(3, ("c", 1)) == (1, False)


def test_a_stage_that_nobody_touches_is_abandoned(bench: StageBench) -> None:
    bench.stage("a", b"1")
    bench.scheduler.advance_ms(STAGE_LIFE_MS - 1000)
    bench.stage("b", b"1")
    bench.scheduler.advance_ms(2000)
    assert staged(bench) == {"b": 1}
    bench.stage("b", b"2", chunk=1)
    bench.start()
    bench.scheduler.advance_ms(STAGE_LIFE_MS)
    bench.run()
    assert staged(bench) == {}
    assert (bench.state.size_bytes, bench.store.live_bytes) == (0, 0)
    with pytest.raises(StageLost):
        bench.publish(0, ("b", 2))


def test_a_large_batch_enters_the_outbox_as_the_courier_comes_along(bench: StageBench) -> None:
    total = OUTBOX_MESSAGES_MAX + 2 * DEPARTURE_MESSAGES_MAX + 10
    expected = [b"%06d" % n for n in range(total)]
    bench.stage("a", *expected[:3000])
    bench.stage("a", *expected[3000:], chunk=1)
    bench.publish(0, ("a", total))
    assert len(bench.state.outbox) == OUTBOX_MESSAGES_MAX
    assert bench.writers()["job"].leaving == total - OUTBOX_MESSAGES_MAX
    found: list[bytes] = []
    number = 1
    while parcels := bench.parcels(number, 500):
        found += [body for _, _, body in parcels]
        number = parcels[-1][0] + 1
        bench.hand_over([n for n, _, _ in parcels])
        if len(found) == 2500:
            bench.start()
            bench.run()
        if len(found) == 4500:
            bench.broker.close()
            bench.start()
            bench.run()
    assert found == expected
    assert bench.state.size_bytes == 0


def test_a_courier_that_waits_gets_what_follows(bench: StageBench) -> None:
    """It has asked for more before it could tell what it has delivered."""
    total = OUTBOX_MESSAGES_MAX + 10
    bench.stage("a", *[b"x"] * total)
    bench.publish(0, ("a", total))
    reply = StageReply()
    bench.submit(Collect(reply, OUTBOX_MESSAGES_MAX + 1, 500, 1 << 30))
    assert reply.parcels == []
    bench.hand_over(range(1, OUTBOX_MESSAGES_MAX + 1))
    assert len(reply.parcels) == 10


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_restart(bench: StageBench, clean: bool) -> None:
    bench.stage("a", b"1", b"2", epoch=3)
    bench.publish(5, ("a", 2), epoch=3)
    bench.stage("b", b"3", epoch=4)
    bench.stage("b", b"4", chunk=1, epoch=4)
    bench.stage("c", b"5", writer="other", path="elsewhere")
    if clean:
        bench.broker.close()
    bench.start()
    assert staged(bench) == {"b": 2}
    assert bench.writers()["other"].stages[0].path == "elsewhere"
    assert bench.state.size_bytes == bench.store.live_bytes == 5
    assert bodies(bench) == [b"1", b"2"]
    with pytest.raises(StageFenced):
        bench.stage("late", b"1", epoch=3)
    bench.stage("b", b"4", chunk=1, epoch=4)
    bench.stage("b", b"6", chunk=2, epoch=4)
    assert bench.publish(5, epoch=4) == (0, True)
    bench.stage("d", b"7", epoch=5)
    assert bench.publish(6, ("d", 1), epoch=5) == (1, False)
    assert bodies(bench) == [b"1", b"2", b"7"]


def test_a_store_that_fails_changes_nothing(bench: StageBench) -> None:
    store = bench.store
    assert isinstance(store, MemoryStore)
    bench.stage("a", b"1")
    size = bench.state.size_bytes
    store.fail()
    for attempt in (
        lambda: bench.stage("a", b"2", chunk=1),
        lambda: bench.stage("new", b"2", writer="new"),
        lambda: bench.publish(0, ("a", 1)),
        lambda: bench.publish(0, writer="newer"),
        bench.drop,
    ):
        with pytest.raises(BusError) as caught:
            attempt()
        assert caught.value.retryable
    with pytest.raises(StoreUnavailable):
        bench.publish(0, ("a", 1))
    assert bench.state.size_bytes == size
    store.heal()
    bench.run()
    assert set(bench.writers()) == {"job"}
    bench.stage("a", b"2", chunk=1)
    assert bench.publish(0, ("a", 2)) == (2, False)
    assert bodies(bench) == [b"1", b"2"]


def test_stages_count_for_the_size_of_the_entity() -> None:
    bench = StageBench(
        FragmentSpec(lock_duration_ms=1, max_delivery_count=1, path="q", size_bytes_max=10)
    )
    bench.stage("a", b"12345678")
    with pytest.raises(QuotaExceeded):
        bench.stage("a", b"123", chunk=1)
    bench.publish(0, ("a", 1))
    # What was published leaves by itself: it is worth waiting.
    with pytest.raises(ServerBusy, match="on their way"):
        bench.stage("b", b"123", epoch=2)
    # And it may come home, full as it is: it has its room.
    origin = Origin(bench.state.fragment_id, [1])
    message = NewMessage(b"12345678", -1)
    bench.submit(Enqueue(bench.ports, [message], [1], 8, origin))
    assert bench.ports.confirmations == [1]
    bench.hand_over([1])
    assert bench.state.size_bytes == 8


def test_so_many_writers_and_series_are_remembered(bench: StageBench) -> None:
    writer = Writer("w")
    for n in range(stages_module.SERIES_MAX + 1):
        writer.note(str(n), n)
    assert len(writer.batches) == stages_module.SERIES_MAX
    assert not writer.has_published("0", 0)
    assert writer.has_published("1", 1)
    for n in range(stages_module.WRITERS_MAX):
        bench.stage("a", writer=str(n))
    with pytest.raises(QuotaExceeded, match="forget one"):
        bench.stage("a", writer="one too many")
