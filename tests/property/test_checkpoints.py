"""Checkpoints, against the fragments themselves: a kill at any of their steps loses nothing.

Random traffic in several fragments of one store, with checkpoints that are stopped before each
change of a file, fail there, or are overtaken by a stop; meanwhile the traffic goes on. At every
such moment the files as a kill would leave them are opened, and must give the very states that
the running fragments have.
"""

import errno
import queue
import random
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.fragment.broker import Broker
from partibus.fragment.commands import Enqueue, Outcome, SubQueueType
from partibus.fragment.machine import Machine
from partibus.fragment.message import Held, NewMessage, Overlay
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.state import State
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.files.watermark import WATERMARK_NAME
from partibus.testing.fragment import FragmentBench

PATIENCE_S = 30
SEGMENT_BYTES = 1 << 14
PLAIN = FragmentSpec(lock_duration_ms=30_000, max_delivery_count=5, path="q")
SESSIONS = FragmentSpec(
    lock_duration_ms=30_000, max_delivery_count=5, requires_session=True, path="s"
)
IDS = FragmentSpec(
    lock_duration_ms=30_000, max_delivery_count=5, duplicate_window_ms=10**9, path="d"
)
SPECS = [PLAIN, SESSIONS, IDS]
OUTCOMES = [Outcome.COMPLETE, Outcome.ABANDON, Outcome.DEFER, Outcome.DEAD_LETTER]


class QuickDisk(OsDisk):
    """What a kill leaves does not depend on syncs."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, directory: Path) -> None:
        pass


class SteppedDisk(QuickDisk):
    """Stops the thread that writes checkpoints before each change of a file."""

    def __init__(self, stopped: Callable[[], None]) -> None:
        self.stepping = True
        self.stopped = stopped
        self.go_on: queue.SimpleQueue[int] = queue.SimpleQueue()

    def free(self) -> None:
        """Stop no more."""
        self.stepping = False
        for _ in range(2):  # whoever is stopped, or was about to be
            self.go_on.put(0)

    def _stop(self) -> None:
        if self.stepping and threading.current_thread().name.startswith("store-keep"):
            self.stopped()
            number = self.go_on.get(timeout=PATIENCE_S)
            if number:
                raise OSError(number, "as the test wished")

    def open(self, path: Path, *, writable: bool, create: bool = False) -> int:
        if create:
            self._stop()
        return super().open(path, writable=writable, create=create)

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        self._stop()
        return super().write(fd, parts, offset)

    def replace(self, source: Path, target: Path) -> None:
        self._stop()
        super().replace(source, target)
        self._stop()

    def remove(self, path: Path) -> None:
        self._stop()
        super().remove(path)


class Traffic(FragmentBench):
    """Fragments of three kinds on the files of one store."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place = place
        self.random = random.Random(seed)
        self.news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.is_stopped = False
        """The thread that writes a checkpoint waits to be let on."""
        self.disk = self.new_disk()
        self.number = 0
        self.fragments = {1: PLAIN, 2: SESSIONS, 3: IDS}
        self.machines: dict[int, Machine] = {}
        super().__init__(PLAIN, self.store_in(place / "store", self.disk))

    def new_disk(self) -> SteppedDisk:
        return SteppedDisk(lambda: self.news.put(self.stopped))

    def stopped(self) -> None:
        self.is_stopped = True

    def store_in(self, directory: Path, disk: OsDisk) -> SegmentStore:
        return SegmentStore(directory, notify=self.news.put, segment_bytes=SEGMENT_BYTES, disk=disk)

    def start(self) -> None:
        self.scheduler.crash()
        self.broker = Broker(self.store, self.clock, self.scheduler, first_token=self.first_token)
        self.broker.open()
        self.machines = {n: self.broker.add(n, spec) for n, spec in self.fragments.items()}
        self.turn_to(min(self.machines))

    def turn_to(self, number: int) -> None:
        self.machine = self.machines[number]
        self.spec = self.fragments[number]
        self.state = self.machine.state

    def run(self) -> None:
        """Until nothing waits for the log, and no file changes: a checkpoint was stopped, or is
        over."""
        self.scheduler.run()
        while not self.is_quiet() or not self.news.empty():
            self.news.get(timeout=PATIENCE_S)()
            self.scheduler.run()

    def is_quiet(self) -> bool:
        upkeep = self.broker._upkeep
        is_writing = upkeep._is_checkpointing and not self.is_stopped
        return self.broker.is_at_rest and not is_writing and not upkeep._is_compacting

    # --- what may happen ------------------------------------------------------------------

    def send_some(self) -> None:
        count = self.random.choice([1, 5, 40, 40, 150, 1100])
        messages = []
        due_ms = self.clock.now_ms() + 5000 if self.random.random() < 0.1 else 0
        for _ in range(count):
            self.number += 1
            known = self.random.randrange(1, self.number + 1)
            name = f"id {known}" if self.spec is IDS else None
            session = f"session {self.number % 7}" if self.spec is SESSIONS else None
            body = b"%d" % self.number
            messages.append(NewMessage(body, -1, due_ms, session, message_id=name))
        size = sum(len(message.body) for message in messages)
        self.submit(Enqueue(self.ports, messages, list(range(count)), size))

    def receive_some(self) -> None:
        subqueue = self.random.choice(
            [SubQueueType.MAIN, SubQueueType.MAIN, SubQueueType.DEAD_LETTER]
        )
        count = self.random.choice([1, 20, 90])
        if self.spec is SESSIONS and subqueue is SubQueueType.MAIN:
            inbox, consumer = self.accept()
            self.demand(consumer, count)
            tokens = [message.token for message in inbox.take()]
            if tokens and self.random.random() < 0.5:
                self.set_state(inbox, b"state %d" % self.number)
        else:
            tokens = [message.token for message in self.receive(count, subqueue)]
        self.random.shuffle(tokens)
        while tokens:
            some, tokens = tokens[: count // 3 + 1], tokens[count // 3 + 1 :]
            outcome = self.random.choice([None, *OUTCOMES])
            laid = self.random.choice([None, Overlay(b"laid"), Overlay(b"", "why", "text")])
            if outcome is not None:
                self.settle(some, outcome, subqueue, laid)

    def delete_some(self) -> None:
        self.purge(self.random.choice([3, 50, 1000]))

    def wait(self) -> None:
        self.scheduler.advance_ms(self.random.choice([10, 6_000, 31_000]))
        self.run()

    def set_clock(self) -> None:
        self.step_clock_ms(self.random.choice([-3_000, 3_000]))

    def exchange(self) -> None:
        """A fragment goes with its entity, and another comes."""
        old = self.random.choice(list(self.machines))
        new = max(self.machines) + 1
        spec = self.fragments.pop(old)
        del self.machines[old]
        self.broker.drop(old)
        self.fragments[new] = spec
        self.machines[new] = self.broker.add(new, spec)
        self.turn_to(new)
        self.run()

    def checkpoint(self) -> None:
        self.broker._checkpoint()
        self.run()

    def step(self, number: int = 0) -> None:
        """Let the checkpoint go on, or fail."""
        if self.is_stopped:
            self.is_stopped = False
            self.disk.go_on.put(number)

    def fail(self) -> None:
        self.step(errno.EIO)

    def restart_cleanly(self) -> None:
        self.disk.free()
        self.broker.close()
        self.begin_again(self.place / "store")

    def kill(self) -> None:
        copy = self.copy()
        self.give_up()
        self.begin_again(copy)

    def begin_again(self, directory: Path) -> None:
        while not self.news.empty():
            self.news.get()
        self.is_stopped = False
        self.disk = self.new_disk()
        self.store = self.store_in(directory, self.disk)
        self.first_token += 1 << 32
        self.start()
        self.run()

    def give_up(self) -> None:
        self.disk.free()
        self.broker.abandon()

    # --- what must hold ---------------------------------------------------------------------

    def copy(self) -> Path:
        target = Path(tempfile.mkdtemp(dir=self.place))
        source: Path = self.store._directory  # type: ignore[attr-defined]
        # The watermark first: a kill never leaves one that is ahead of its log.
        shutil.copy2(source / WATERMARK_NAME, target / WATERMARK_NAME)
        ignored = shutil.ignore_patterns(WATERMARK_NAME)
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
        return target

    def check(self) -> None:
        """What a kill leaves now must give the states that the fragments have."""
        expected = {n: summary(machine.state) for n, machine in self.machines.items()}
        copy = self.copy()
        store = self.store_in(copy, QuickDisk())
        broker = Broker(store, self.clock, self.scheduler)
        broker.open()
        found = {n: summary(broker.add(n, spec).state) for n, spec in self.fragments.items()}
        broker.abandon()
        shutil.rmtree(copy)
        assert found == expected


def row(held: Held) -> tuple[Any, ...]:
    overlay = held.overlay or Overlay(b"")
    laid = (overlay.properties, overlay.reason, overlay.description)
    times = (held.enqueued_ms, held.expires_ms)
    return held.sequence, held.position, held.length, *times, held.delivery_count, laid


def summary(state: State) -> dict[str, Any]:
    """All that is durable of a fragment, wherever its messages are at the moment."""
    found: dict[str, Any] = {
        "next": state.next_sequence_durable,
        "size": state.size_bytes,
        "scheduled": sorted(map(row, [*state.scheduled.copies(0), *state.departing.values()])),
        # Without the times, which move with the clock and are no record's.
        "history": sorted(w for shard in state.history.shards() for w in shard.words[0::2] if w),
    }
    for subqueue in state.subqueues:
        out = [*subqueue.locks.values(), *subqueue.leaving.values()]
        ready = [*subqueue.ready.copies(0), *(held for held in out if not held.deferred)]
        deferred = [*subqueue.deferred.copies(0), *(held for held in out if held.deferred)]
        found[f"ready {subqueue.subqueue}"] = sorted(map(row, ready))
        found[f"deferred {subqueue.subqueue}"] = sorted(map(row, deferred))
    if state.sessions is not None:
        found["sessions"] = sorted(
            (s.session_id, s.message_count, s.state_position, s.state_length)
            for s in state.sessions
            if s.message_count or s.state_length >= 0
        )
    return found


COMMON = [Traffic.send_some, Traffic.receive_some, Traffic.step, Traffic.step, Traffic.checkpoint]
SELDOM = [
    *(Traffic.delete_some, Traffic.wait, Traffic.set_clock, Traffic.exchange),
    *(Traffic.fail, Traffic.kill, Traffic.restart_cleanly),
]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_a_kill_at_any_step_of_a_checkpoint_loses_nothing(seed: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        traffic = Traffic(Path(place), seed)
        for _ in range(40):
            traffic.turn_to(traffic.random.choice(list(traffic.machines)))
            acts = COMMON if traffic.random.random() < 0.8 else SELDOM
            traffic.random.choice(acts)(traffic)
            traffic.run()
            traffic.check()
        traffic.give_up()
