"""The table of identities: what it holds, what it forgets, how it grows and shrinks."""

import struct
from hashlib import blake2b

import pytest

from partibus.domain.errors import StoreCorrupt
from partibus.fragment.queue.history import (
    DEPTH_MAX,
    SHARD_IDS_MAX,
    STAMP_BITS,
    STAMP_MS,
    SWEEP_INTERVAL_MS_MIN,
    History,
    cutoff_of,
    stamp_of,
)

NOW_MS = 1_700_000_000_000
WINDOW_MS = 600_000
OPEN = cutoff_of(NOW_MS, WINDOW_MS)


def words(number: int) -> tuple[int, int]:
    high, low = struct.unpack("<QQ", blake2b(b"%d" % number, digest_size=16).digest())
    return high, low


def add(history: History, number: int, now_ms: int = NOW_MS) -> None:
    history.add(*words(number), stamp_of(now_ms), cutoff_of(now_ms, WINDOW_MS))


def filled(count: int) -> History:
    history = History()
    for number in range(count):
        add(history, number)
    return history


def known(history: History, numbers: range, cutoff: int = OPEN) -> int:
    return sum(history.contains(*words(number), cutoff) for number in numbers)


def sweep_all(history: History, now_ms: int) -> int:
    """Sweep whenever it is due, until every shard had its turn; the steps taken."""
    steps = 0
    while steps == 0 or history._cursor:
        due_ms = history.next_sweep_ms()
        assert due_ms is not None
        now_ms = max(now_ms, due_ms)
        history.sweep(now_ms, WINDOW_MS)
        steps += 1
    return steps


def test_an_empty_history_knows_nothing_and_wants_nothing() -> None:
    history = History()
    assert not history.contains(*words(1), OPEN)
    assert history.next_sweep_ms() is None
    assert history.byte_count == 0
    history.sweep(NOW_MS, WINDOW_MS)


def test_what_was_added_is_known_and_nothing_else() -> None:
    history = filled(20_000)
    assert history.count == 20_000
    assert known(history, range(20_000)) == 20_000
    assert known(history, range(20_000, 40_000)) == 0


def test_an_identity_takes_at_most_forty_bytes_at_every_size() -> None:
    history = History()
    for number in range(30_000):
        add(history, number)
        if number > 1000 and number % 97 == 0:
            assert history.byte_count <= 40 * history.count


def test_shards_are_bounded_and_share_the_ids_evenly() -> None:
    shards = filled(40_000).shards()
    assert len(shards) > 8
    assert max(shard.used for shard in shards) <= 1.5 * SHARD_IDS_MAX + 1
    assert sum(shard.used for shard in shards) == 40_000


@pytest.mark.parametrize("offset_ms", [0, 1, 3, 7])
def test_a_window_is_never_shorter_than_asked_for(offset_ms: int) -> None:
    history = History()
    seen_ms = NOW_MS + offset_ms
    add(history, 1, seen_ms)
    last_ms = seen_ms + WINDOW_MS - 1
    assert history.contains(*words(1), cutoff_of(last_ms, WINDOW_MS))
    after_ms = seen_ms + WINDOW_MS + STAMP_MS
    assert not history.contains(*words(1), cutoff_of(after_ms, WINDOW_MS))


def test_an_identity_seen_again_after_its_window_begins_a_new_one() -> None:
    history = History()
    add(history, 1)
    later_ms = NOW_MS + 2 * WINDOW_MS
    assert not history.contains(*words(1), cutoff_of(later_ms, WINDOW_MS))
    add(history, 1, later_ms)
    assert history.contains(*words(1), cutoff_of(later_ms + 1, WINDOW_MS))
    assert history.count == 1


def test_hashes_that_differ_in_any_bit_of_eighty_eight_are_apart() -> None:
    high, low = words(1)
    history = History()
    history.add(high, low, stamp_of(NOW_MS), OPEN)
    for bit in range(64):
        assert not history.contains(high ^ 1 << bit, low, OPEN)
    for bit in range(STAMP_BITS, 64):
        assert not history.contains(high, low ^ 1 << bit, OPEN)
        history.add(high, low ^ 1 << bit, stamp_of(NOW_MS), OPEN)
    assert history.count == 1 + 64 - STAMP_BITS


def test_a_hash_of_zeros_is_held_like_any_other() -> None:
    history = History()
    assert not history.contains(0, 0, OPEN)
    history.add(0, 0, stamp_of(NOW_MS), OPEN)
    assert history.contains(0, 0, OPEN)


def test_old_identities_make_room_for_new_ones_in_the_same_memory() -> None:
    history = History()
    now_ms = NOW_MS
    for number in range(60_000):
        now_ms += WINDOW_MS // 10_000
        add(history, number, now_ms)
        if number % 500 == 0 and number >= 10_000:
            assert history.byte_count <= 40 * 10_000
    assert known(history, range(50_100, 60_000), cutoff_of(now_ms, WINDOW_MS)) == 9_900
    assert known(history, range(49_000), cutoff_of(now_ms, WINDOW_MS)) == 0
    assert history.count == sum(shard.used for shard in history.shards()) < 20_000


def test_a_sweep_leaves_out_what_is_old_and_keeps_the_rest() -> None:
    history = filled(20_000)
    half_ms = NOW_MS + WINDOW_MS // 2
    for number in range(20_000, 30_000):
        add(history, number, half_ms)
    sweep_all(history, NOW_MS + WINDOW_MS + STAMP_MS)
    assert history.count == 10_000
    cutoff = cutoff_of(NOW_MS + WINDOW_MS + STAMP_MS, WINDOW_MS)
    assert known(history, range(20_000, 30_000), cutoff) == 10_000
    assert history.byte_count <= 40 * 10_000


def test_a_history_swept_empty_gives_its_memory_back() -> None:
    history = filled(30_000)
    sweep_all(history, NOW_MS + WINDOW_MS + STAMP_MS)
    assert (history.count, history.byte_count) == (0, 0)
    assert history.next_sweep_ms() is None
    add(history, 1)
    assert known(history, range(1, 2)) == 1


def test_a_sweep_is_in_steps_that_take_half_a_window_together() -> None:
    history = filled(40_000)
    begin_ms = NOW_MS + WINDOW_MS + STAMP_MS
    steps = sweep_all(history, begin_ms)
    assert steps > 3
    assert begin_ms < history.sweep_due_ms <= begin_ms + WINDOW_MS // 2 + WINDOW_MS // steps
    assert history.sweep_due_ms >= begin_ms + (steps - 1) * SWEEP_INTERVAL_MS_MIN


def test_nothing_is_swept_before_its_time() -> None:
    history = filled(100)
    history.sweep(NOW_MS + WINDOW_MS - 1, WINDOW_MS)
    assert history.count == 100
    due_ms = history.next_sweep_ms()
    assert due_ms is not None
    history.sweep(due_ms - 1, WINDOW_MS)
    assert history.count == 100


def test_growing_while_a_sweep_is_under_way_leaves_nothing_out() -> None:
    history = filled(20_000)
    now_ms = NOW_MS + WINDOW_MS + STAMP_MS
    history.sweep(now_ms, WINDOW_MS)
    assert history._cursor
    for number in range(20_000, 60_000):
        add(history, number, now_ms)
    sweep_all(history, now_ms)
    assert history.count == 40_000
    assert known(history, range(20_000, 60_000), cutoff_of(now_ms, WINDOW_MS)) == 40_000


def test_ids_whose_hashes_begin_alike_do_not_blow_up_the_directory() -> None:
    history = History()
    alike = [(high & 0xFFFF_FFFF, low) for high, low in map(words, range(10 * SHARD_IDS_MAX))]
    for high, low in alike:
        history.add(high, low, stamp_of(NOW_MS), OPEN)
    assert all(history.contains(high, low, OPEN) for high, low in alike)
    assert len(history.shards()) <= DEPTH_MAX


def test_a_dump_is_loaded_as_it_was() -> None:
    history = filled(15_000)
    copy = History()
    copy.load(b"".join(history.dump()))
    assert (copy.count, copy.byte_count) == (history.count, history.byte_count)
    assert known(copy, range(15_000)) == 15_000
    assert known(copy, range(15_000, 20_000)) == 0
    for number in range(15_000, 40_000):
        add(copy, number)
    assert known(copy, range(40_000)) == 40_000
    sweep_all(copy, NOW_MS + 2 * WINDOW_MS)
    assert copy.count == 0


@pytest.mark.parametrize("damage", ["layout", "cut", "missing shard", "no room"])
def test_a_dump_that_is_not_whole_is_refused(damage: str) -> None:
    history = filled(10_000)
    data = bytearray(b"".join(history.dump()))
    if damage == "layout":
        data[0] = 9
    elif damage == "cut":
        data = data[:-16]
    elif damage == "missing shard":
        first = history.shards()[0]
        del data[2 : 2 + 9 + 16 * first.slot_count]
    else:
        data[7:11] = data[3:7]
    with pytest.raises(StoreCorrupt):
        History().load(bytes(data))
