"""Checkpoints are taken in slices, hold what the log said at one position, and only what is new."""

from itertools import pairwise
from typing import Any

import pytest

from partibus.domain.errors import BusError, StoreUnavailable
from partibus.fragment.checkpointing import FRAGMENT_ROWS, ROWS_PER_TURN
from partibus.fragment.commands import Enqueue, Outcome, SubQueueType
from partibus.fragment.machine import Machine
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.queue.table import CHUNK_MESSAGES
from partibus.fragment.spec import FragmentSpec
from partibus.store.interface import Done, Increment
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

SPEC = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=3, path="q")
IDS = FragmentSpec(
    lock_duration_ms=30_000, max_delivery_count=3, duplicate_window_ms=600_000, path="q"
)


class Watched(MemoryStore):
    """Remembers what checkpoints were made of, and may refuse them."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.increments: list[Increment] = []
        self.refuses = False

    def checkpoint(
        self, states: dict[int, bytes], done: Done, increment: Increment | None = None
    ) -> None:
        assert increment is not None
        self.increments.append(increment)
        if self.refuses:
            self._notify(lambda: done(StoreUnavailable()))
        else:
            super().checkpoint(states, done, increment)


class Bench(FragmentBench):
    """Several fragments on one store."""

    fragments = 1

    def __init__(self, spec: FragmentSpec = SPEC, fragments: int = 1) -> None:
        self.fragments = fragments
        self.watched = Watched(notify=self._soon, replayable=True)
        super().__init__(spec, self.watched)

    def _soon(self, callback: Any) -> None:
        self.scheduler.call_soon(callback)

    def start(self) -> None:
        super().start()
        others = [self.broker.add(2 + n, self.spec) for n in range(self.fragments - 1)]
        self.machines: list[Machine] = [self.machine, *others]

    def send_to(self, machine: Machine, *bodies: bytes) -> None:
        messages = [NewMessage(body, -1) for body in bodies]
        self.broker.submit(machine, Enqueue(self.ports, messages, [0] * len(bodies), 1))

    def step(self) -> None:
        """Run the next callback alone."""
        self.scheduler._soon.popleft()()

    def checkpoint(self) -> Increment:
        self.broker._checkpoint()
        self.run()
        return self.watched.increments[-1]

    def contents(self) -> list[list[tuple[int, int]]]:
        return [
            [(held.sequence, held.delivery_count) for held in machine.state.main.ready.copies(0)]
            for machine in self.machines
        ]


def test_only_what_has_changed_is_written_again() -> None:
    bench = Bench()
    bench.send(*[b"x"] * (5 * CHUNK_MESSAGES))
    assert len(bench.checkpoint().pages) == 5
    assert not bench.checkpoint().pages
    bench.send(b"x")
    bench.receive(3, deletes=True)  # the front moves on within its page
    increment = bench.checkpoint()
    assert not increment.pages and len(increment.needed[0]) == 5
    bench.send(*[b"x"] * 100)
    assert len(bench.checkpoint().pages) == 1
    bench.start()
    assert bench.state.counts().active == 5 * CHUNK_MESSAGES + 98
    assert bench.contents()[0][0] == (4, 0)


def test_a_change_in_the_midst_writes_its_chunk_alone() -> None:
    bench = Bench()
    bench.send(*[b"x"] * (4 * CHUNK_MESSAGES))
    got = bench.receive(2 * CHUNK_MESSAGES)
    bench.checkpoint()
    bench.settle([got[10].token], Outcome.ABANDON, overlay=Overlay(b"laid"))
    bench.settle([got[-1].token], Outcome.ABANDON)
    pages = bench.checkpoint().pages
    assert len(pages) <= 2
    bench.start()
    counts = dict(bench.contents()[0])
    assert len(counts) == 4 * CHUNK_MESSAGES
    assert [number for number, count in counts.items() if count] == [11, 2 * CHUNK_MESSAGES]
    (first, *_) = bench.peek(11, 1)
    assert first.overlay is not None and first.overlay.properties == b"laid"


def test_a_turn_of_the_loop_takes_a_bounded_number_of_fragments() -> None:
    bench = Bench(fragments=3 * ROWS_PER_TURN // FRAGMENT_ROWS)
    for machine in bench.machines:
        bench.send_to(machine, b"x")
    bench.run()
    checkpoints = bench.broker._checkpoints
    bench.broker._checkpoint()
    left = [len(checkpoints._pending)]
    while not bench.watched.increments:
        bench.step()
        left.append(len(checkpoints._pending))
    per_turn = [before - after for before, after in pairwise(left)]
    assert left[0] > 0
    assert max(per_turn) <= ROWS_PER_TURN // FRAGMENT_ROWS + 1


def test_a_deep_backlog_costs_a_turn_its_chunks_alone() -> None:
    bench = Bench()
    for _ in range(20):
        bench.send(*[b"x"] * (5 * CHUNK_MESSAGES))
    bench.broker._checkpoint()
    assert bench.broker._checkpoints._pages.spent <= FRAGMENT_ROWS + 101


@pytest.mark.parametrize("steps", range(5))
def test_changes_while_it_is_taken_are_after_it(steps: int) -> None:
    count = 3 * ROWS_PER_TURN // FRAGMENT_ROWS
    bench = Bench(fragments=count)
    for machine in bench.machines:
        bench.send_to(machine, b"a", b"b")
    bench.run()
    before = bench.contents()
    position = bench.store.position
    bench.broker._checkpoint()
    for _ in range(steps):
        bench.step()
    for machine in bench.machines:
        bench.send_to(machine, b"c")
    bench.run()
    assert bench.watched.increments[-1].position == position
    after = bench.contents()
    assert after != before
    log, bench.watched._log = bench.watched._log, []
    bench.start()
    assert bench.contents() == before  # the checkpoint alone
    bench.watched._log = log
    bench.start()
    assert bench.contents() == after  # with what the log says after it


def test_pages_of_a_checkpoint_that_failed_come_with_the_next() -> None:
    bench = Bench()
    bench.send(*[b"x"] * (2 * CHUNK_MESSAGES))
    bench.watched.refuses = True
    assert len(bench.checkpoint().pages) == 2
    bench.watched.refuses = False
    bench.send(b"y")
    increment = bench.checkpoint()
    assert len(increment.pages) == 2
    bench.start()
    assert bench.state.counts().active == 2 * CHUNK_MESSAGES + 1
    assert not bench.broker._checkpoints._pages.unwritten


def test_what_a_checkpoint_refers_to_is_not_changed_under_it() -> None:
    bench = Bench()
    bench.send(*[b"x"] * 100)
    got = bench.receive(100)
    bench.settle([m.token for m in got], Outcome.DEAD_LETTER, overlay=Overlay(b"", "why"))
    dead = bench.receive(50, SubQueueType.DEAD_LETTER)
    bench.send(*[b"y"] * 100)
    bench.watched.refuses = True
    sources = list(bench.checkpoint().pages.values())
    before = [source() for source in sources]
    bench.settle([dead[20].token], Outcome.ABANDON, SubQueueType.DEAD_LETTER, Overlay(b"other"))
    bench.settle([dead[30].token], Outcome.ABANDON, SubQueueType.DEAD_LETTER)
    bench.settle([m.token for m in bench.receive(20)][5:9], Outcome.DEAD_LETTER)
    bench.send(*[b"z"] * 10)
    assert before and [source() for source in sources] == before


def test_a_stop_overtakes_a_checkpoint_that_is_being_taken() -> None:
    bench = Bench(fragments=3 * ROWS_PER_TURN // FRAGMENT_ROWS)
    for machine in bench.machines:
        bench.send_to(machine, b"a")
    bench.run()
    before = bench.contents()
    bench.broker._checkpoint()
    assert not bench.watched.increments
    (got,) = bench.receive(1)
    bench.restart()
    assert bench.state.lock_count == 1
    assert bench.settle([got.token]) == ([], None)
    assert bench.contents()[1:] == before[1:]


def test_identities_are_shared_by_checkpoints_until_one_is_added() -> None:
    bench = Bench(IDS)

    def send(ids: range) -> None:
        messages = [NewMessage(b"m", -1, message_id=f"id {n}") for n in ids]
        bench.submit(Enqueue(bench.ports, messages, list(ids), 1))

    send(range(20_000))
    first = bench.checkpoint()
    bench.receive(1, deletes=True)
    second = bench.checkpoint()
    assert len(second.pages) < len(first.pages) // 4
    bench.watched.refuses = True
    send(range(20_000, 20_001))
    third = bench.checkpoint()
    before = {number: source() for number, source in third.pages.items()}
    send(range(20_001, 21_000))
    assert {number: source() for number, source in third.pages.items()} == before
    bench.watched.refuses = False
    bench.checkpoint()
    bench.start()
    send(range(21_001))
    assert bench.state.counts().active == 21_000


def test_a_clock_that_is_set_marks_every_fragment_as_changed() -> None:
    bench = Bench(IDS, fragments=3)
    bench.checkpoint()
    assert not bench.broker._checkpoints._changed
    bench.step_clock_ms(7_200_000)
    assert sorted(bench.broker._checkpoints._changed) == [1, 2, 3]


def test_locks_of_a_clean_stop_are_in_no_later_checkpoint() -> None:
    bench = Bench()
    bench.send(b"a")
    bench.receive(1)
    bench.restart()
    assert bench.state.lock_count == 1
    bench.checkpoint()
    bench.start()  # a crash, with nothing in the log behind the checkpoint
    assert bench.state.lock_count == 0


def test_errors_reach_who_asked() -> None:
    bench = Bench()
    told: list[BusError | None] = []
    bench.watched.refuses = True
    bench.broker._begin_checkpoint(told.append)
    bench.run()
    assert isinstance(told[0], StoreUnavailable)
