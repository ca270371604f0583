"""Loss of power at any moment: everything acknowledged is there, and nothing settled comes back.

A broker with a real store sends, settles, checkpoints and compacts while every file operation is
noted (`traced_disk`). Then the disk is rebuilt as a loss of power at many moments may have left
it (`power_loss`): what was not synced is missing, torn or out of order. Each state is opened as a
server would, and compared with what clients had been told by then. The more states, the longer:
PARTIBUS_POWER_STATES sets how many.
"""

import os
import queue
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from adversity.disk.power_loss import Operation, Sync, SyncNames, promises, rebuild
from adversity.disk.traced_disk import TracedDisk
from partibus.domain.errors import BusError
from partibus.fragment.broker import Broker
from partibus.fragment.commands import (
    Consumer,
    Demand,
    Detach,
    Enqueue,
    Outcome,
    Peek,
    Settle,
    SubQueueType,
)
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.store.files.room import FreeMin
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Delivered, Inbox, Ports
from partibus.testing.scheduler import ManualScheduler

SEGMENT_BYTES = 8192
STEPS = 120
STATES = int(os.environ.get("PARTIBUS_POWER_STATES", "60"))
PATIENCE_S = 30
SPEC = FragmentSpec(lock_duration_ms=3_600_000, max_delivery_count=10)
SUBQUEUES = (SubQueueType.MAIN, SubQueueType.DEAD_LETTER)


class Rig:
    """A broker with one fragment on a real store."""

    def __init__(self, directory: Path, disk: OsDisk) -> None:
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.news: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.store = SegmentStore(
            directory,
            notify=self.news.put,
            segment_bytes=SEGMENT_BYTES,
            disk=disk,
            free_min=FreeMin(0.0, 0),
        )
        self.broker = Broker(self.store, self.clock, self.scheduler)
        self.broker.open()
        self.machine = self.broker.add(1, SPEC)
        self.ports = Ports()

    def until(self, is_so: Callable[[], bool]) -> None:
        self.scheduler.run()
        while not is_so():
            self.news.get(timeout=PATIENCE_S)()
            self.scheduler.run()

    def receive(self, count: int) -> list[Delivered]:
        inbox = Inbox()
        consumer = Consumer(1, inbox, SubQueueType.MAIN, False)
        self.broker.submit(self.machine, Demand(consumer, count, True))
        self.until(lambda: bool(inbox.drained_count))
        self.broker.submit(self.machine, Detach(consumer))
        self.scheduler.run()
        return inbox.take()

    def shown(self, subqueue: SubQueueType) -> list[bytes]:
        """The bodies of all messages of a subqueue."""
        found: list[bytes] = []
        first = 0
        while True:
            self.broker.submit(self.machine, Peek(self.ports, subqueue, first, 100, 1 << 20, None))
            self.until(lambda: bool(self.ports.lookups))
            page = self.ports.lookups.pop()
            assert not isinstance(page, BusError), page
            if not page:
                return found
            found += [message.body for message in page]
            first = page[-1].sequence + 1

    def close(self) -> None:
        self.broker.abandon()


class Traffic:
    """Clients of a broker, and a notebook of what they were told."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.disk = TracedDisk(directory)
        self.rig = Rig(directory, self.disk)
        self.random = random.Random(seed)
        self.number = 0
        self.in_hand: list[Delivered] = []
        self.compactions = 0

    def step(self) -> None:
        actions = [self.send] * 6 + [self.take] * 4 + [self.settle] * 6
        self.random.choice([*actions, self.checkpoint, self.compact, self.compact])()

    def send(self) -> None:
        bodies = []
        for _ in range(self.random.randrange(1, 6)):
            self.number += 1
            bodies.append(b"%06d" % self.number * self.random.choice([2, 30, 150]))
            self.disk.promise(("sending", bodies[-1]))
        messages = [NewMessage(body, -1) for body in bodies]
        port = _Sent(self.disk, bodies)
        size = sum(map(len, bodies))
        self.rig.broker.submit(
            self.rig.machine, Enqueue(port, messages, list(range(len(bodies))), size)
        )
        if self.random.random() < 0.7:
            self.rig.until(lambda: port.is_told)

    def take(self) -> None:
        self.in_hand += self.rig.receive(self.random.randrange(1, 12))

    def settle(self) -> None:
        self.random.shuffle(self.in_hand)
        count = self.random.randrange(1, 9)
        going, self.in_hand = self.in_hand[:count], self.in_hand[count:]
        if not going:
            return
        outcome = self.random.choice([Outcome.COMPLETE] * 4 + [Outcome.DEAD_LETTER, Outcome.DEFER])
        bodies = [message.body for message in going]
        for body in bodies:
            self.disk.promise(("settling", outcome, body))
        port = _Settled(self.disk, outcome, bodies)
        tokens = [message.token for message in going]
        self.rig.broker.submit(
            self.rig.machine, Settle(port, None, SubQueueType.MAIN, tokens, outcome)
        )
        if self.random.random() < 0.7:
            self.rig.until(lambda: port.is_told)

    def checkpoint(self) -> None:
        self.rig.broker._checkpoint()
        self.rig.scheduler.run()

    def compact(self) -> None:
        told: list[BusError | None] = []
        if self.rig.store.compact(told.append):
            self.compactions += 1
            if self.random.random() < 0.7:
                self.rig.until(lambda: bool(told))

    def finish(self) -> None:
        """Let the threads come to rest; what follows is no part of the trace."""
        self.rig.until(lambda: self.rig.broker.is_at_rest)
        self.rig.close()


class _Sent:
    def __init__(self, disk: TracedDisk, bodies: list[bytes]) -> None:
        self._disk = disk
        self._bodies = bodies
        self.is_told = False

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.is_told = True
        for body in self._bodies:
            self._disk.promise(("sent", body))

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        raise AssertionError(error.text)


class _Settled:
    def __init__(self, disk: TracedDisk, outcome: Outcome, bodies: list[bytes]) -> None:
        self._disk = disk
        self._outcome = outcome
        self._bodies = bodies
        self.is_told = False

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        assert error is None and not lost
        self.is_told = True
        for body in self._bodies:
            self._disk.promise(("settled", self._outcome, body))


class Expected:
    """What clients had been told, and what they had asked for."""

    def __init__(self, notes: list[object]) -> None:
        self.sending: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.settling: dict[bytes, Outcome] = {}
        self.settled: dict[bytes, Outcome] = {}
        for note in notes:
            assert isinstance(note, tuple)
            if note[0] in ("sending", "sent"):
                getattr(self, note[0]).add(note[1])
            else:
                getattr(self, note[0])[note[2]] = note[1]

    def check(self, found: dict[SubQueueType, list[bytes]]) -> None:
        everything = [body for subqueue in SUBQUEUES for body in found[subqueue]]
        assert len(everything) == len(set(everything)), "a message is there twice"
        assert set(everything) <= self.sending, "a message that nobody sent"
        completing = {b for b, outcome in self.settling.items() if outcome is Outcome.COMPLETE}
        missing = self.sent - completing - set(everything)
        assert not missing, f"{len(missing)} acknowledged messages are lost"
        for body, outcome in self.settled.items():
            if outcome is Outcome.COMPLETE:
                assert body not in everything, "a completed message came back"
            elif outcome is Outcome.DEAD_LETTER:
                assert body in found[SubQueueType.DEAD_LETTER], "a dead letter is none any more"
            else:
                assert body in found[SubQueueType.MAIN]


def _void(sync: Operation) -> Operation:
    """The same sync, of which nothing comes."""
    assert isinstance(sync, Sync | SyncNames)
    return replace(sync, began=0)


def judge(operations: list[Operation], place: Path, seed: int) -> None:
    """Open what a loss of power may have left, and compare."""
    rebuild(operations, place, random.Random(seed))
    rig = Rig(place, OsDisk())
    try:
        found = {subqueue: rig.shown(subqueue) for subqueue in SUBQUEUES}
    finally:
        rig.close()
    Expected(promises(operations)).check(found)


def traced(directory: Path, seed: int) -> list[Operation]:
    """What a busy store does to its files, with checkpoints and compactions in between."""
    traffic = Traffic(directory, seed)
    for _ in range(STEPS):
        traffic.step()
    while not traffic.compactions:
        traffic.step()
    traffic.finish()
    return traffic.disk.trace


def faults_of(trace: list[Operation], place: Path, seed: int, states: int) -> list[str]:
    """What is wrong with the states that losses of power at many moments may have left."""
    rng = random.Random(seed)
    begun = next(i for i, o in enumerate(trace) if promises([o]))
    faults = []
    for number in range(states):
        cut = rng.randrange(begun, len(trace) + 1)
        try:
            judge(trace[:cut], place / f"state-{number}", seed + number)
        except (AssertionError, BusError) as error:
            faults.append(f"state {number}, after {cut} operations: {error}")
    return faults


@pytest.mark.timeout(600)
def test_whatever_a_loss_of_power_leaves_of_a_store(tmp_path: Path, seed: int) -> None:
    trace = traced(tmp_path / "store", seed)
    assert faults_of(trace, tmp_path, seed, STATES) == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [Sync, SyncNames])
def test_a_store_without_its_syncs_would_be_found_out(tmp_path: Path, kind: type) -> None:
    """The states are hard enough: without one kind of sync some of them are wrong."""
    trace = traced(tmp_path / "store", 7)
    # Its beginning is for certain: a store that nobody has used yet is not what is judged.
    begun = next(i for i, o in enumerate(trace) if promises([o]))
    weak = [*trace[:begun], *(_void(o) if isinstance(o, kind) else o for o in trace[begun:])]
    assert faults_of(weak, tmp_path, 7, STATES) != []
