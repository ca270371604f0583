"""Claims: taken once, read often, settled at once, given back when their time is up."""

import pytest

from partibus.domain.errors import (
    ClaimFenced,
    ClaimLost,
    EntityNotFound,
    InvalidOperation,
    StoreUnavailable,
)
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from support.fragment.bulk_bench import BulkBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3)


@pytest.fixture
def bench() -> BulkBench:
    bench = BulkBench(SPEC)
    bench.send(*(b"%d" % number for number in range(10)))
    return bench


def test_a_claim_holds_the_oldest_messages_and_others_get_the_rest(bench: BulkBench) -> None:
    claim = bench.claim("job", "0", 4)
    assert (claim.count, claim.byte_count, claim.first, claim.last) == (4, 4, 1, 4)
    assert [message.sequence for message in bench.receive(100)] == [5, 6, 7, 8, 9, 10]
    assert [message.body for message in bench.read_claim("job", "0")] == [b"0", b"1", b"2", b"3"]
    counts = bench.state.counts()
    assert (counts.active, counts.claimed) == (10, 4)


def test_a_claim_is_read_from_a_number_on_as_often_as_asked(bench: BulkBench) -> None:
    bench.claim("job", "0", 4)
    for _ in range(2):
        assert [message.sequence for message in bench.read_claim("job", "0", 3)] == [3, 4]


def test_bytes_limit_a_claim_but_one_message_always_fits(bench: BulkBench) -> None:
    assert bench.claim("job", "0", 100, byte_count=3).count == 3
    assert bench.claim("other", "0", 100, byte_count=0).count == 1


def test_the_same_start_is_the_same_claim(bench: BulkBench) -> None:
    first = bench.claim("job", "0", 4)
    again = bench.claim("job", "0", 9)
    assert (again.count, again.first, again.last) == (first.count, first.first, first.last)


def test_another_start_gives_the_old_messages_back_first(bench: BulkBench) -> None:
    bench.claim("job", "0", 4)
    claim = bench.claim("job", "4", 3)
    # They are taken in the same step in which the others are given back.
    assert (claim.first, claim.last) == (5, 7)
    assert [message.sequence for message in bench.receive(100)] == [1, 2, 3, 4, 8, 9, 10]


def test_settling_removes_all_and_only_once(bench: BulkBench) -> None:
    bench.claim("job", "0", 4)
    assert bench.settle_claim("job", "0") == 4
    assert bench.settle_claim("job", "0") == 0
    assert bench.state.counts().active == 6
    assert bench.state.size_bytes == 6
    with pytest.raises(ClaimLost):
        bench.read_claim("job", "0")


def test_a_released_claim_counts_no_delivery(bench: BulkBench) -> None:
    bench.claim("job", "0", 4)
    assert bench.release_claim("job") == 4
    assert [message.delivery_count for message in bench.receive(4)] == [0, 0, 0, 0]


def test_a_claim_lapses_when_its_time_is_up_and_counts_a_delivery(bench: BulkBench) -> None:
    bench.claim("job", "0", 4, duration_ms=5_000)
    bench.scheduler.advance_ms(4_999)
    bench.run()
    assert bench.state.counts().claimed == 4
    bench.scheduler.advance_ms(101)
    bench.run()
    assert bench.state.counts().claimed == 0
    assert [message.delivery_count for message in bench.receive(5)] == [1, 1, 1, 1, 0]


def test_renewal_holds_a_claim_for_longer(bench: BulkBench) -> None:
    bench.claim("job", "0", 4, duration_ms=5_000)
    bench.scheduler.advance_ms(4_000)
    bench.renew_claim("job", "0", duration_ms=5_000)
    bench.scheduler.advance_ms(4_000)
    bench.run()
    assert bench.state.counts().claimed == 4


def lapse(bench: BulkBench) -> None:
    bench.scheduler.advance_ms(60_100)
    bench.run()
    assert bench.state.counts().claimed == 0


def test_a_lapsed_claim_is_taken_back_when_nobody_touched_it(bench: BulkBench) -> None:
    bench.claim("job", "0", 4)
    lapse(bench)
    with pytest.raises(ClaimLost):
        bench.renew_claim("job", "0")
    claim = bench.claim("job", "0", 4)
    assert (claim.count, claim.first, claim.last) == (4, 1, 4)
    assert bench.settle_claim("job", "0") == 4


def test_a_lapsed_claim_is_settled_when_nobody_touched_it(bench: BulkBench) -> None:
    bench.claim("job", "0", 4)
    lapse(bench)
    assert bench.settle_claim("job", "0") == 4
    assert [message.sequence for message in bench.receive(100)] == [5, 6, 7, 8, 9, 10]


def test_a_lapsed_claim_is_lost_when_another_has_taken_of_it(bench: BulkBench) -> None:
    bench.claim("job", "0", 4)
    lapse(bench)
    taken = bench.receive(1)
    bench.settle([taken[0].token])
    for attempt in (
        lambda: bench.claim("job", "0", 4),
        lambda: bench.settle_claim("job", "0"),
    ):
        with pytest.raises(ClaimLost):
            attempt()
    assert [message.sequence for message in bench.receive(100)] == list(range(2, 11))


def test_a_claim_that_lapses_too_often_ends_in_the_dead_letters(bench: BulkBench) -> None:
    for number in range(3):
        bench.claim("job", str(number), 4)
        lapse(bench)
    counts = bench.state.counts()
    assert (counts.active, counts.dead_letter) == (6, 4)


def test_an_older_run_of_the_owner_is_fenced(bench: BulkBench) -> None:
    bench.claim("job", "0", 4, epoch=1)
    bench.claim("job", "0", 4, epoch=2)
    for attempt in (
        lambda: bench.claim("job", "4", 4, epoch=1),
        lambda: bench.renew_claim("job", "0", epoch=1),
        lambda: bench.settle_claim("job", "0", epoch=1),
        lambda: bench.release_claim("job", epoch=1),
    ):
        with pytest.raises(ClaimFenced):
            attempt()
    assert bench.settle_claim("job", "0", epoch=2) == 4
    bench.release_claim("job", epoch=2, forget=True)
    assert bench.claims() == []
    assert bench.claim("job", "4", 1, epoch=1).count == 1


def test_an_operator_releases_whatever_run_the_owner_is_in(bench: BulkBench) -> None:
    bench.claim("job", "0", 4, epoch=9)
    assert bench.release_claim("job", epoch=None) == 4
    with pytest.raises(ClaimFenced):
        bench.claim("job", "0", 4, epoch=9)
    assert bench.claims()[0].epoch == 10
    assert bench.release_claim("job", epoch=None, forget=True) == 0
    with pytest.raises(EntityNotFound, match="no owner of claims 'job'"):
        bench.release_claim("job", epoch=None)
    assert bench.release_claim("job", epoch=1) == 0


def test_claims_survive_a_crash_and_a_snapshot(bench: BulkBench) -> None:
    bench.claim("job", "0", 4, epoch=7)
    bench.claim("other", "x", 2)
    bench.start()
    assert [(c.owner, c.start, c.count, c.first) for c in bench.claims()] == [
        ("job", "0", 4, 1),
        ("other", "x", 2, 5),
    ]
    bench.broker.close()
    bench.start()
    assert [message.body for message in bench.read_claim("other", "x")] == [b"4", b"5"]
    assert [message.sequence for message in bench.receive(100)] == [7, 8, 9, 10]
    with pytest.raises(ClaimFenced):
        bench.settle_claim("job", "0", epoch=6)
    assert bench.settle_claim("job", "0", epoch=7) == 4
    bench.start()
    assert bench.state.counts().active == 6


def test_a_lapsed_claim_survives_a_crash_and_a_snapshot(bench: BulkBench) -> None:
    bench.claim("job", "0", 4)
    lapse(bench)
    bench.start()
    bench.broker.close()
    bench.start()
    assert bench.claim("job", "0", 4).count == 4


def test_claimed_messages_are_peeked_but_neither_expire_nor_are_purged() -> None:
    bench = BulkBench(SPEC)
    bench.send(b"a", b"b", ttl_ms=1_000)
    bench.claim("job", "0", 1)
    bench.scheduler.advance_ms(3_000)
    bench.run()
    assert bench.purge(100) == 0
    assert [message.body for message in bench.peek()] == [b"a"]


def test_a_failed_store_leaves_everything_as_it_was(bench: BulkBench) -> None:
    store = bench.store
    assert isinstance(store, MemoryStore)
    bench.claim("job", "0", 2)
    store.fail()
    with pytest.raises(StoreUnavailable):
        bench.claim("other", "0", 4)
    store.heal()
    bench.run()
    assert bench.claim("other", "0", 4).first == 3
    assert bench.settle_claim("job", "0") == 2


def test_the_messages_of_sessions_are_not_claimed() -> None:
    spec = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, requires_session=True)
    bench = BulkBench(spec)
    with pytest.raises(InvalidOperation, match="cursor"):
        bench.claim("job", "0", 1)
