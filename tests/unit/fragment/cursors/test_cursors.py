"""Cursors: everything that arrived can be read along, within what is kept for them."""

import pytest

from partibus.domain.errors import EntityNotFound, StoreUnavailable
from partibus.fragment.commands import Outcome, SubQueueType
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from support.fragment.bulk_bench import BulkBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3)


@pytest.fixture
def bench() -> BulkBench:
    bench = BulkBench(SPEC)
    bench.send(*(b"%d" % number for number in range(10)))
    return bench


def complete(bench: BulkBench, count: int) -> None:
    taken = bench.receive(count)
    assert len(taken) == count
    assert bench.settle([message.token for message in taken]) == ([], None)


def numbers(bench: BulkBench, first: int = 0, last: int = 1 << 40) -> list[int]:
    return [message.sequence for message in bench.read(first, last)]


def test_without_a_cursor_nothing_is_kept(bench: BulkBench) -> None:
    complete(bench, 4)
    assert numbers(bench) == [5, 6, 7, 8, 9, 10]
    assert bench.state.counts().retained == 0


def test_settled_messages_are_kept_for_a_cursor_that_has_not_passed_them(
    bench: BulkBench,
) -> None:
    bench.place("capture", 3)
    complete(bench, 5)
    assert numbers(bench) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert [message.body for message in bench.read(3, 5)] == [b"2", b"3"]
    counts = bench.state.counts()
    assert (counts.retained, counts.active, counts.size_bytes) == (3, 5, 5)


def test_a_range_shows_messages_whatever_became_of_them(bench: BulkBench) -> None:
    bench.place("capture", 0)
    one, two, three, _ = bench.receive(4)  # the fourth stays locked
    bench.settle([one.token])
    bench.settle([two.token], Outcome.DEFER)
    bench.settle([three.token], Outcome.DEAD_LETTER)
    bench.claim("job", "0", 2)
    bench.receive(1, deletes=True)
    assert numbers(bench) == list(range(1, 11))
    dead = bench.receive(1, subqueue=SubQueueType.DEAD_LETTER)
    bench.settle([dead[0].token], subqueue=SubQueueType.DEAD_LETTER)
    bench.settle_claim("job", "0")
    assert bench.receive_deferred(two.sequence, deletes=True)
    assert numbers(bench) == list(range(1, 11))


def test_what_waits_is_neither_dead_nor_only_kept(bench: BulkBench) -> None:
    bench.place("capture", 0)
    one, two, three, _ = bench.receive(4)  # the fourth stays locked
    bench.settle([one.token])
    bench.settle([two.token], Outcome.DEFER)
    bench.settle([three.token], Outcome.DEAD_LETTER)
    bench.claim("job", "0", 2)
    bench.receive(1, deletes=True)
    waiting = [2, 4, 5, 6, 8, 9, 10]
    assert [message.sequence for message in bench.read(0, subqueue=None)] == waiting
    plan = bench.plan(0, subqueue=None)
    assert (plan.count, plan.end) == (7, 11)
    assert bench.plan(0, 3, subqueue=None).end == 6


def test_a_scheduled_message_has_not_arrived_yet(bench: BulkBench) -> None:
    bench.place("capture", 0)
    bench.send(b"later", scheduled_ms=bench.clock.now_ms() + 1_000)
    assert numbers(bench, 11) == []
    bench.scheduler.advance_ms(1_100)
    assert [(message.sequence, message.body) for message in bench.read(11)] == [(12, b"later")]
    bench.send(b"never", scheduled_ms=bench.clock.now_ms() + 1_000)
    assert bench.cancel(13) == 1
    assert numbers(bench, 13) == []


def test_moving_the_hindmost_cursor_lets_go_of_what_it_passes(bench: BulkBench) -> None:
    bench.place("slow", 1)
    bench.place("quick", 1)
    complete(bench, 6)
    live = bench.store.live_bytes
    bench.place("quick", 5)
    assert bench.store.live_bytes == live, "the slow one needs it all"
    bench.place("slow", 4)
    assert bench.store.live_bytes == live - 3
    assert bench.drop_cursor("slow") == 1
    assert numbers(bench) == [5, 6, 7, 8, 9, 10]
    bench.drop_cursor("quick")
    assert numbers(bench) == [7, 8, 9, 10]
    assert bench.store.live_bytes == bench.state.size_bytes == 4


def test_a_cursor_stands_at_most_at_the_end(bench: BulkBench) -> None:
    assert bench.place("capture", 10**6).position == 11
    with pytest.raises(EntityNotFound, match="capure"):
        bench.drop_cursor("capure")


def test_what_is_kept_is_limited_by_bytes(bench: BulkBench) -> None:
    bench.place("capture", 0, retain_bytes=4)
    complete(bench, 8)
    bench.scheduler.advance_ms(100)
    bench.send(b"x")
    bench.scheduler.advance_ms(60_000)
    plan = bench.plan(0)
    assert 5 <= plan.earliest <= 6
    assert numbers(bench)[0] == plan.earliest
    bench.start()
    assert numbers(bench)[0] == plan.earliest, "what was let go does not come back"


def test_what_is_kept_is_limited_by_age(bench: BulkBench) -> None:
    bench.place("capture", 0, retain_ms=60_000)
    complete(bench, 4)
    bench.scheduler.advance_ms(59_000)
    assert numbers(bench)[0] == 1
    bench.scheduler.advance_ms(2_000)
    assert numbers(bench) == [5, 6, 7, 8, 9, 10]
    assert bench.plan(0).earliest == 5


def test_a_plan_tells_how_far_a_read_comes(bench: BulkBench) -> None:
    bench.place("capture", 0)
    complete(bench, 2)
    plan = bench.plan(0, 4)
    assert (plan.end, plan.count, plan.byte_count, plan.next_sequence) == (5, 4, 4, 11)
    plan = bench.plan(5, byte_count=3)
    assert (plan.end, plan.count) == (8, 3)
    plan = bench.plan(8)
    assert (plan.end, plan.count) == (11, 3)
    assert bench.plan(11).count == 0


def test_a_read_stops_at_its_bytes(bench: BulkBench) -> None:
    assert len(bench.read(0, byte_count=3)) == 3
    assert len(bench.read(0, byte_count=0)) == 1


def test_cursors_and_what_they_keep_survive_a_crash_and_a_snapshot(bench: BulkBench) -> None:
    bench.place("capture", 2)
    complete(bench, 4)
    bench.claim("job", "0", 2)
    bench.settle_claim("job", "0")
    for end in (bench.start, bench.broker.close):
        end()
        bench.start()
        assert [(cursor.name, cursor.position) for cursor in bench.cursors()] == [("capture", 2)]
        assert numbers(bench) == [2, 3, 4, 5, 6, 7, 8, 9, 10]
        assert bench.state.size_bytes == 4
    bench.place("capture", 11)
    assert bench.store.live_bytes == 4


def test_dead_letters_are_read_in_their_own_subqueue(bench: BulkBench) -> None:
    taken = bench.receive(2)
    bench.settle([taken[1].token], Outcome.DEAD_LETTER)
    assert [message.sequence for message in bench.read(0, subqueue=SubQueueType.DEAD_LETTER)] == [2]


def test_a_failed_store_moves_no_cursor(bench: BulkBench) -> None:
    store = bench.store
    assert isinstance(store, MemoryStore)
    bench.place("capture", 2)
    store.fail()
    with pytest.raises(StoreUnavailable):
        bench.place("capture", 5)
    store.heal()
    bench.run()
    assert bench.cursors()[0].position == 2


def test_too_much_is_trimmed_at_once(bench: BulkBench) -> None:
    bench.place("capture", 0, retain_bytes=4)
    complete(bench, 8)
    bench.scheduler.advance_ms(1000)
    assert 0 < bench.state.counts().retained <= 4
    assert bench.plan(0).earliest > 1


def test_nothing_is_planned_while_the_store_is_down(bench: BulkBench) -> None:
    store = bench.store
    assert isinstance(store, MemoryStore)
    store.fail()
    with pytest.raises(StoreUnavailable):
        bench.plan(0)
