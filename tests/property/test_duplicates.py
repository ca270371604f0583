"""Random ids, times, crashes and failing stores against a dict that says when each was seen.

Whatever happens: what is confirmed is stored once within its window, what is dropped repeats
something durable, and the numbers of what is stored have no gaps.
"""

import struct
from hashlib import blake2b

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partibus.fragment.commands import Enqueue
from partibus.fragment.message import NewMessage
from partibus.fragment.queue.history import STAMP_MS, History, cutoff_of, stamp_of
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench

WINDOW_MS = 20_000
IDS = st.sampled_from([None, *"abcdefgh"])
KEYS = st.sampled_from([None, None, "k", "l"])
DELAYS_MS = st.sampled_from([0, 0, 0, 5_000])
TIMES_MS = st.sampled_from([1, 7, 500, WINDOW_MS // 2, WINDOW_MS - 1, WINDOW_MS, 3 * WINDOW_MS])

Identity = tuple[str, str | None]


def in_window(seen_ms: int, now_ms: int) -> bool:
    """Stamps are rounded up, so that a window is never shorter than asked for."""
    return now_ms < -(-seen_ms // STAMP_MS) * STAMP_MS + WINDOW_MS


class Sent:
    """A command on its way: what the model says will come of it."""

    def __init__(self, request: int, now_ms: int) -> None:
        self.request = request
        self.seen_ms = now_ms
        self.bodies: list[bytes] = []
        self.identities: list[Identity] = []
        self.dropped: list[int] = []


class DuplicatesModel(RuleBasedStateMachine):
    """Drives a fragment and the dict side by side."""

    @initialize(is_partitioned=st.booleans())
    def begin(self, is_partitioned: bool) -> None:
        spec = FragmentSpec(
            lock_duration_ms=10_000,
            max_delivery_count=10,
            duplicate_window_ms=WINDOW_MS,
            is_partitioned=is_partitioned,
        )
        self.bench = FragmentBench(spec)
        self.seen: dict[Identity, int] = {}
        self.stored: list[bytes] = []
        self.under_way: list[Sent] = []
        self.next_sequence = 1
        self.number = 0
        self.dropped_count = 0
        self.is_down = False

    @property
    def now_ms(self) -> int:
        return self.bench.clock.now_ms()

    # --- what senders do ------------------------------------------------------------------

    @rule(
        messages=st.lists(st.tuples(IDS, KEYS, DELAYS_MS), min_size=1, max_size=6),
        waits=st.booleans(),
    )
    def send(self, messages: list[tuple[str | None, str | None, int]], waits: bool) -> None:
        """Hand over a command; its records may stay under way while other things happen."""
        self.number += 1
        sent = Sent(self.number, self.now_ms)
        command = Enqueue(self.bench.ports, [], [sent.request], 0)
        for place, (message_id, key, delay_ms) in enumerate(messages):
            body = b"%d-%d" % (self.number, place)
            due_ms = self.now_ms + delay_ms if delay_ms else 0
            command.messages.append(NewMessage(body, -1, due_ms, None, key, message_id))
            command.byte_count += len(body)
            self.expect(sent, place, message_id, key, body)
        self.under_way.append(sent)
        self.bench.broker.submit(self.bench.machine, command)
        self.bench.broker._turn()
        if waits:
            self.settle_down()

    def expect(
        self, sent: Sent, place: int, message_id: str | None, key: str | None, body: bytes
    ) -> None:
        if message_id is not None:
            is_partitioned = self.bench.spec.is_partitioned
            identity = (message_id, (key or message_id) if is_partitioned else None)
            claimed = [each for other in (*self.under_way, sent) for each in other.identities]
            seen_ms = self.seen.get(identity)
            if identity in claimed or (seen_ms is not None and in_window(seen_ms, self.now_ms)):
                sent.dropped.append(place)
                return
            sent.identities.append(identity)
        sent.bodies.append(body)

    @rule()
    def settle_down(self) -> None:
        """Let the store answer everything."""
        ports = self.bench.ports
        ports.confirmations, ports.refusals, ports.dropped = [], [], []
        self.bench.run()
        expected = [sent.request for sent in self.under_way]
        if self.is_down:
            assert [request for request, _ in ports.refusals] == expected
            assert ports.confirmations == []
        else:
            assert ports.confirmations == expected
            assert ports.refusals == []
            assert ports.dropped == [sent.dropped for sent in self.under_way]
            for sent in self.under_way:
                self.keep(sent)
        self.under_way = []

    def keep(self, sent: Sent) -> None:
        self.stored += sent.bodies
        self.next_sequence += len(sent.bodies)
        self.dropped_count += len(sent.dropped)
        for identity in sent.identities:
            self.seen[identity] = sent.seen_ms

    # --- what receivers do ----------------------------------------------------------------

    @precondition(lambda self: not self.is_down)
    @rule(count=st.integers(1, 20))
    def receive(self, count: int) -> None:
        """Consuming clears nothing (DUP-5)."""
        self.settle_down()
        for message in self.bench.receive(count, deletes=True):
            self.stored.remove(message.body)

    # --- what the world does --------------------------------------------------------------

    @rule(delta_ms=TIMES_MS)
    def time_passes(self, delta_ms: int) -> None:
        self.settle_down()
        scheduled = self.bench.state.counts().scheduled
        self.bench.scheduler.advance_ms(delta_ms)
        # What became active has got a new number (SCH-4).
        self.next_sequence += scheduled - self.bench.state.counts().scheduled

    @rule(delta_ms=TIMES_MS)
    def time_passes_while_sends_are_under_way(self, delta_ms: int) -> None:
        self.bench.clock.advance_ms(delta_ms)

    @precondition(lambda self: not self.is_down)
    @rule()
    def crash_and_recover(self) -> None:
        """What was under way was never durable; nothing else is forgotten."""
        self.under_way = []
        self.dropped_count = 0
        self.bench.start()
        scheduled = self.bench.state.counts().scheduled
        self.bench.run()
        self.next_sequence += scheduled - self.bench.state.counts().scheduled

    @precondition(lambda self: not self.is_down)
    @rule()
    def checkpoint(self) -> None:
        """Also while sends are under way: it holds what is durable and no more."""
        self.bench.broker._checkpoint()

    @precondition(lambda self: not self.is_down)
    @rule()
    def store_fails(self) -> None:
        assert isinstance(self.bench.store, MemoryStore)
        self.bench.store.fail()
        self.is_down = True
        self.settle_down()

    @precondition(lambda self: self.is_down)
    @rule()
    def store_heals(self) -> None:
        assert isinstance(self.bench.store, MemoryStore)
        self.settle_down()
        self.bench.store.heal()
        self.is_down = False
        scheduled = self.bench.state.counts().scheduled
        self.bench.run()
        self.next_sequence += scheduled - self.bench.state.counts().scheduled

    # --- what must hold -------------------------------------------------------------------

    @invariant()
    def what_is_stored_is_there_once(self) -> None:
        if self.under_way:
            return
        shown = [message.body for message in self.bench.peek(0, 10_000, byte_count_max=1 << 30)]
        assert sorted(shown) == sorted(self.stored)
        state = self.bench.state
        assert state.next_sequence == self.next_sequence, "numbers have no gaps (SEQ-3)"
        assert state.counts().duplicates_dropped == self.dropped_count
        assert state.history.pending == set()


def words(number: int) -> tuple[int, int]:
    high, low = struct.unpack("<QQ", blake2b(b"%d" % number, digest_size=16).digest())
    return high, low


class HistoryModel(RuleBasedStateMachine):
    """The table against a dict, at sizes at which shards split and are swept."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.seen: dict[int, int] = {}
        self.now_ms = 1_700_000_000_000

    @rule(begin=st.integers(0, 20_000), count=st.integers(1, 4_000))
    def add(self, begin: int, count: int) -> None:
        cutoff = cutoff_of(self.now_ms, WINDOW_MS)
        for number in range(begin, begin + count):
            known = self.history.contains(*words(number), cutoff)
            seen_ms = self.seen.get(number)
            assert known == (seen_ms is not None and in_window(seen_ms, self.now_ms))
            if not known:
                self.history.add(*words(number), stamp_of(self.now_ms), cutoff)
                self.seen[number] = self.now_ms

    @rule(delta_ms=TIMES_MS)
    def time_passes(self, delta_ms: int) -> None:
        self.now_ms += delta_ms

    @rule(steps=st.sampled_from([-1_000_000, -7, 7, 1_000_000]))
    def clock_is_set(self, steps: int) -> None:
        """Windows last as long as they would have."""
        delta_ms = steps * STAMP_MS
        self.history.shift_ms(delta_ms)
        self.now_ms += delta_ms
        self.seen = {number: seen_ms + delta_ms for number, seen_ms in self.seen.items()}

    @rule(steps=st.integers(1, 10))
    def sweep(self, steps: int) -> None:
        for _ in range(steps):
            self.now_ms = max(self.now_ms, self.history.next_sweep_ms() or 0)
            self.history.sweep(self.now_ms, WINDOW_MS)

    @rule()
    def restart(self) -> None:
        data = b"".join(self.history.dump())
        self.history = History()
        if len(data) > 2:
            self.history.load(data)

    @rule(begin=st.integers(0, 24_000))
    def ask(self, begin: int) -> None:
        cutoff = cutoff_of(self.now_ms, WINDOW_MS)
        for number in range(begin, begin + 500):
            seen_ms = self.seen.get(number)
            expected = seen_ms is not None and in_window(seen_ms, self.now_ms)
            assert self.history.contains(*words(number), cutoff) == expected

    @invariant()
    def counts_are_exact(self) -> None:
        assert self.history.count == sum(shard.used for shard in self.history.shards())


DuplicatesModel.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
HistoryModel.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestDuplicatesModel = DuplicatesModel.TestCase
TestHistoryModel = HistoryModel.TestCase
