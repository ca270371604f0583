"""A transaction that the power cut interrupts is wholly there afterwards, or wholly absent.

Random transactions over two fragments of one store, with plain sends beside them, go to a real
log on a disk that stops for good after so many bytes, in the middle of an entry or between its
write and its sync. Then the directory is opened again, as by the next process. What was
acknowledged is there as a whole, what was refused is not there at all, and of all others
nothing is half there.
"""

import errno
import queue
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.domain.errors import BusError
from partibus.fragment.broker import Broker
from partibus.fragment.commands import (
    Command,
    Consumer,
    Demand,
    Enqueue,
    Outcome,
    Peek,
    Settle,
    SubQueueType,
)
from partibus.fragment.machine import Machine
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.transactions.commands import SILENT, EnqueueNumbered, Transact
from partibus.store.fault_injection import FaultyDisk
from partibus.store.files.disk import OsDisk
from partibus.store.files.log import SegmentStore
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Delivered, Inbox, Ports
from partibus.testing.scheduler import ManualScheduler

SPEC = FragmentSpec(lock_duration_ms=600_000, max_delivery_count=9, size_bytes_max=100_000)
STOCK = 24
"""Messages that wait to be settled by transactions."""
SEGMENT_BYTES = 4096
SYNC_UNITS = 40
"""What a sync counts as beside the bytes of writes, so that cuts fall there too."""
SECTOR_BYTES = 512
"""What a disk writes as a whole: the header of a file is there or not."""
NO_SUCH_LOCK = 1 << 60

OUTCOMES = (Outcome.COMPLETE, Outcome.ABANDON, Outcome.DEAD_LETTER, Outcome.DEFER)


class PowerCut(FaultyDisk):
    """A disk that takes so much and then nothing more, ever."""

    def __init__(self) -> None:
        super().__init__(OsDisk())
        self.units: int | None = None

    def _use(self, units: int) -> int:
        """How much of this is still done."""
        if self.units is None:
            return units
        done = min(units, self.units)
        self.units -= done
        return done

    def _require_power(self) -> None:
        if self.units == 0:
            raise OSError(errno.EIO, "no power")

    def write(self, fd: int, parts: list[bytes], offset: int) -> int:
        self._require_power()
        data = b"".join(parts)
        done = self._use(len(data))
        if done < len(data) and offset + len(data) <= SECTOR_BYTES:
            raise OSError(errno.EIO, "no power")
        return super().write(fd, [data[:done]], offset)

    def sync(self, fd: int) -> None:
        self._require_power()
        self._use(SYNC_UNITS)
        self._require_power()
        super().sync(fd)

    def truncate(self, fd: int, length: int) -> None:
        self._require_power()
        super().truncate(fd, length)

    def allocate(self, fd: int, length: int) -> None:
        self._require_power()
        super().allocate(fd, length)

    def replace(self, source: Path, target: Path) -> None:
        self._require_power()
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        self._require_power()
        super().remove(path)


class Work:
    """One transaction: what it asks for, and what became of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.bodies: dict[int, set[bytes]] = {1: set(), 2: set()}
        self.settled: dict[bytes, Outcome] = {}
        self.parts: list[tuple[int, Command]] = []
        self.is_doomed = False
        self.answer: int | BusError | None = None

    def done(self, count: int) -> None:
        self.answer = count

    def failed(self, error: BusError) -> None:
        self.answer = error


class Process:
    """A broker with two fragments on a log."""

    def __init__(self, directory: Path, disk: FaultyDisk) -> None:
        self.callbacks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.store = SegmentStore(
            directory,
            notify=self.callbacks.put,
            segment_bytes=SEGMENT_BYTES,
            disk=disk,
            probe_interval_s=1e6,
        )
        self.broker = Broker(self.store, self.clock, self.scheduler)
        self.broker.open()
        self.machines: dict[int, Machine] = {i: self.broker.add(i, SPEC) for i in (1, 2)}

    def rest(self) -> None:
        """Until the store has answered everything."""
        self.scheduler.run()
        while not self.broker.is_at_rest:
            self.callbacks.get(timeout=20)()
            self.scheduler.run()

    def submit(self, command: Command) -> None:
        self.broker.submit(self.machines[1], command)

    def send(self, fragment: int, *bodies: bytes) -> Ports:
        ports = Ports()
        messages = [NewMessage(body, -1) for body in bodies]
        command = Enqueue(ports, messages, list(range(len(bodies))), sum(map(len, bodies)))
        self.broker.submit(self.machines[fragment], command)
        return ports

    def receive(self, count: int) -> list[Delivered]:
        inbox = Inbox()
        consumer = Consumer(1, inbox, SubQueueType.MAIN, False)
        self.submit(Demand(consumer, count, True))
        self.rest()
        return inbox.take()

    def peek(
        self, fragment: int, subqueue: SubQueueType = SubQueueType.MAIN
    ) -> dict[bytes, Delivered]:
        ports = Ports()
        command = Peek(ports, subqueue, 0, 100_000, 1 << 30)
        self.broker.submit(self.machines[fragment], command)
        self.rest()
        (answer,) = ports.lookups
        assert not isinstance(answer, BusError)
        return {one.body: one for one in answer}


@st.composite
def works(draw: st.DrawFn) -> list[tuple[Work, bool, bool]]:
    """Transactions; with each, whether a plain send stands beside it, and whether it is waited
    for."""
    given = []
    for number in range(draw(st.integers(1, 8))):
        work = Work(number)
        plan = draw(st.lists(st.sampled_from(["send-1", "send-2", "settle", "number"]), min_size=1))
        for place, what in enumerate(plan):
            body = b"t%d.%d" % (number, place)
            size = draw(st.sampled_from([0, 0, 30, 700]))
            work.parts.append(_part(work, what, body + b"." * size, draw))
        if draw(st.integers(0, 4)) == 0:
            work.is_doomed = True
            lost = Settle(SILENT, None, SubQueueType.MAIN, [NO_SUCH_LOCK], Outcome.COMPLETE)
            work.parts.insert(draw(st.integers(0, len(work.parts))), (1, lost))
        given.append((work, draw(st.booleans()), draw(st.booleans())))
    return given


def _part(work: Work, what: str, body: bytes, draw: st.DrawFn) -> tuple[int, Command]:
    if what == "settle":
        outcome = draw(st.sampled_from(OUTCOMES))
        return 1, Settle(SILENT, None, SubQueueType.MAIN, [], outcome)
    fragment = 2 if what == "send-2" else 1
    work.bodies[fragment].add(body)
    message = NewMessage(body, -1, 10**15 if what == "number" else 0)
    if what == "number":
        return 1, EnqueueNumbered(SILENT, [message], len(body), 0, 0)
    return fragment, Enqueue(SILENT, [message], [0], len(body))


def prepare(process: Process, given: list[tuple[Work, bool, bool]]) -> None:
    """Give every settlement a lock of its own, and every numbered message its number."""
    locks = iter(process.receive(STOCK))
    state = process.machines[1].state
    for work, _, _ in given:
        for _, part in work.parts:
            if isinstance(part, Settle) and not part.tokens:
                lock = next(locks)
                part.tokens.append(lock.token)
                work.settled[lock.body] = part.outcome
            elif isinstance(part, EnqueueNumbered):
                part.first_sequence = state.next_sequence
                state.next_sequence = state.reserved_until = state.next_sequence + 1


def traces(process: Process, work: Work) -> set[bool]:
    """For every part of a transaction whether it is there; one value when it is whole."""
    seen: set[bool] = set()
    for fragment, bodies in work.bodies.items():
        there = process.peek(fragment)
        seen |= {body in there for body in bodies}
    main, dead = process.peek(1), process.peek(1, SubQueueType.DEAD_LETTER)
    for body, outcome in work.settled.items():
        if outcome is Outcome.DEAD_LETTER:
            assert (body in main) != (body in dead)
            seen.add(body in dead)
        elif outcome is Outcome.COMPLETE:
            seen.add(body not in main)
        elif outcome is Outcome.ABANDON:
            seen.add(main[body].delivery_count == 1)
        else:
            seen.add(int(main[body].state) == 1)
    return seen


def settle_count(given: list[tuple[Work, bool, bool]]) -> int:
    return sum(isinstance(part, Settle) for work, _, _ in given for _, part in work.parts)


@settings(deadline=None, max_examples=150)
@given(given=works().filter(lambda g: settle_count(g) <= STOCK), units=st.integers(0, 9000))
def test_a_transaction_is_wholly_there_or_wholly_absent(
    given: list[tuple[Work, bool, bool]], units: int
) -> None:
    with tempfile.TemporaryDirectory() as place:
        disk = PowerCut()
        process = Process(Path(place) / "store", disk)
        process.send(1, *[b"stock%d" % n for n in range(STOCK)])
        process.rest()
        prepare(process, given)
        disk.units = units
        beside: dict[bytes, Ports] = {}
        for work, has_neighbour, waits in given:
            if has_neighbour:
                beside[b"n%d" % work.number] = process.send(2, b"n%d" % work.number)
            process.submit(Transact(work, work.parts, 0))
            if waits:
                process.rest()
        process.rest()
        process.store.close()
        check(Path(place) / "store", given, beside)


def check(
    directory: Path, given: list[tuple[Work, bool, bool]], beside: dict[bytes, Ports]
) -> None:
    after = Process(directory, FaultyDisk(OsDisk()))
    try:
        for work, _, _ in given:
            seen = traces(after, work)
            assert len(seen) <= 1, f"transaction {work.number} is half there"
            if isinstance(work.answer, int):
                assert seen <= {True}, f"transaction {work.number} was acknowledged and is lost"
            else:
                assert work.answer is not None
            if work.is_doomed:
                assert seen <= {False}, f"transaction {work.number} was refused and is there"
        there = after.peek(2)
        for body, ports in beside.items():
            assert body in there or not ports.confirmations
    finally:
        after.store.close()
