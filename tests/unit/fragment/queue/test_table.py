"""A table keeps sequence order whatever leaves, comes back or expires."""

import random

import pytest

from partibus.fragment.message import Held, MessageState, Overlay
from partibus.fragment.queue.table import CHUNK_MESSAGES, ROW_BYTES, WAS_SCHEDULED, MessageTable


def filled(count: int, expires_ms: int = 0) -> MessageTable:
    queue = MessageTable()
    for sequence in range(1, count + 1):
        queue.push(sequence, sequence * 100, 10, 5, expires_ms, 0)
    return queue


def test_messages_leave_in_the_order_they_came() -> None:
    queue = filled(CHUNK_MESSAGES * 2 + 7)
    left = [queue.pop().sequence for _ in range(len(queue))]
    assert left == list(range(1, CHUNK_MESSAGES * 2 + 8))
    assert len(queue) == 0


def test_a_row_keeps_every_field() -> None:
    queue = MessageTable()
    queue.push(7, 1 << 50, (1 << 32) - 1, 11, 13, 4_000_000_000)
    held = queue.pop()
    assert (held.sequence, held.position, held.length) == (7, 1 << 50, (1 << 32) - 1)
    assert (held.enqueued_ms, held.expires_ms, held.delivery_count) == (11, 13, 4_000_000_000)
    assert held.overlay is None


def test_what_comes_back_is_served_at_its_old_place() -> None:
    queue = filled(10)
    first, second, third = queue.pop(), queue.pop(), queue.pop()
    queue.insert(third)
    queue.insert(first)
    assert queue.pop().sequence == 1
    assert queue.pop().sequence == 3
    assert queue.pop().sequence == 4
    queue.insert(second)
    assert queue.pop().sequence == 2


def test_an_overlay_travels_with_a_message_beyond_the_tail() -> None:
    queue = filled(2)
    overlay = Overlay(reason="late")
    queue.insert(Held(5, 1, 1, 1, 0, 3, overlay))
    assert [queue.pop().sequence for _ in range(2)] == [1, 2]
    held = queue.pop()
    assert held.overlay is overlay
    assert held.delivery_count == 3


def test_order_below_the_tail_is_an_error_of_ours() -> None:
    queue = filled(3)
    with pytest.raises(AssertionError):
        queue.push(3, 1, 1, 1, 0, 0)


def test_expired_messages_are_taken_from_anywhere() -> None:
    queue = MessageTable()
    rng = random.Random(7)
    expected = []
    for sequence in range(1, 3000):
        expires_ms = rng.choice((0, 50, 150))
        queue.push(sequence, sequence, 1, 1, expires_ms, 0)
        if expires_ms == 50:
            expected.append(sequence)
    queue.insert(Held(0, 1, 1, 1, 40, 1, None))
    assert queue.next_expiry_ms() == 40
    gone = [held.sequence for held in queue.take_expired(100, 1000)]
    assert gone == [0, *expected]
    assert queue.next_expiry_ms() == 150
    rest = [queue.pop() for _ in range(len(queue))]
    assert [h.sequence for h in rest] == sorted(h.sequence for h in rest)
    assert all(h.expires_ms != 50 for h in rest)
    assert len(rest) + len(gone) == 3000


def test_nothing_expires_before_its_time() -> None:
    queue = filled(5, expires_ms=100)
    assert queue.take_expired(99, 1000) == []
    assert len(queue) == 5
    assert len(queue.take_expired(100, 1000)) == 5
    assert queue.next_expiry_ms() is None


def test_a_waiting_message_costs_forty_bytes() -> None:
    queue = filled(CHUNK_MESSAGES)
    assert sum(len(part) for part in queue.dump_rows()) == CHUNK_MESSAGES * ROW_BYTES


def test_anything_may_be_inserted_found_and_taken_by_number() -> None:
    rng = random.Random(11)
    table = MessageTable()
    sequences = list(range(1, 6000))
    rng.shuffle(sequences)
    for sequence in sequences:
        overlay = Overlay(reason=str(sequence)) if sequence % 7 == 0 else None
        table.insert(Held(sequence, sequence * 2, 3, 4, 0, 5, overlay))
    assert len(table) == len(sequences)
    assert [held.sequence for held in table.copies(0)] == sorted(sequences)
    assert [held.sequence for held in table.copies(5990)] == list(range(5990, 6000))
    assert table.take(6000) is None
    assert 0 not in table and 17 in table
    rng.shuffle(sequences)
    for count, sequence in enumerate(sequences, start=1):
        held = table.take(sequence)
        assert held is not None and held.position == sequence * 2
        assert (held.overlay is not None) == (sequence % 7 == 0)
        assert sequence not in table
        assert len(table) == len(sequences) - count


def test_rows_survive_a_dump_and_a_load() -> None:
    table = MessageTable()
    for sequence in range(1, 3000, 2):
        table.push(sequence, sequence, 9, 8, sequence % 50, 7)
    table.insert(Held(10, 1, 1, 1, 0, 0, Overlay(reason="x")))
    copy = MessageTable()
    copy.load(b"".join(table.dump_rows()), table.overlays())
    assert len(copy) == len(table)
    assert copy.last_sequence == table.last_sequence
    assert copy.next_expiry_ms() == table.next_expiry_ms() == 1
    for a, b in zip(table.copies(0), copy.copies(0), strict=True):
        assert (a.sequence, a.position, a.length) == (b.sequence, b.position, b.length)
        assert (a.enqueued_ms, a.expires_ms) == (b.enqueued_ms, b.expires_ms)
        assert (a.delivery_count, a.overlay) == (b.delivery_count, b.overlay)


def test_a_row_remembers_that_its_message_was_scheduled() -> None:
    queue = MessageTable()
    queue.push(1, 100, 10, 5, 0, 2 | WAS_SCHEDULED)
    queue.push(2, 200, 10, 6, 0, 3)
    assert [h.state for h in queue.copies(0)] == [MessageState.ACTIVE] * 2
    first, second = queue.pop(), queue.pop()
    assert (first.enqueued_ms, first.delivery_count) == (5, 2)
    assert (first.state, second.state) == (MessageState.SCHEDULED, MessageState.ACTIVE)
    queue.insert(second)
    queue.insert(first)
    assert queue.first_enqueued_ms == 5
    assert queue.sequence_at(6) == 2
    loaded = MessageTable()
    loaded.load(b"".join(queue.dump_rows()), {})
    assert [loaded.pop().state for _ in range(2)] == [first.state, second.state]


def test_a_row_holds_a_long_time_to_live() -> None:
    queue = MessageTable()
    life_ms = (1 << 48) - 1
    queue.push(1, 100, 10, (1 << 47) - 1, 13, life_ms)
    held = queue.pop()
    queue.insert(held)
    again = queue.pop()
    for row in (held, again):
        assert (row.enqueued_ms, row.delivery_count) == ((1 << 47) - 1, life_ms)
        assert row.state is MessageState.ACTIVE
