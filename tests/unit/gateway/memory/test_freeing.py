"""Memory that is freed bit by bit."""

from partibus.gateway.memory.freeing import FREED_PER_TURN_BYTES, free_in_turns
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler

PIECE_BYTES = FREED_PER_TURN_BYTES // 8


def test_a_turn_frees_so_much_and_no_more() -> None:
    scheduler = ManualScheduler(ManualClock())
    pieces: list[bytes | memoryview] = [bytes(PIECE_BYTES) for _ in range(20)]
    free_in_turns(scheduler, pieces)
    assert len(pieces) == 12
    scheduler.run()
    assert pieces == []


def test_little_is_freed_at_once() -> None:
    scheduler = ManualScheduler(ManualClock())
    pieces: list[bytes | memoryview] = [b"first", memoryview(b"rest")]
    free_in_turns(scheduler, pieces)
    assert pieces == []
