"""Random commands, crashes and failing stores against a simple model of a queue.

The model knows for each message where it must be and how often it was delivered. Whatever
happens, nothing confirmed is lost, nothing is there twice, order and counts are right.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partibus.fragment.commands import Lane, Outcome
from partibus.fragment.message import Overlay
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import Delivered, FragmentBench

LOCK_MS = 10_000
MAX_DELIVERY = 4
LANES = st.sampled_from(list(Lane))


class Expected:
    """What the model knows of one message."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.lane = Lane.MAIN
        self.delivery_count = 0
        self.lock: tuple[int, int] | None = None
        self.reason: str | None = None


class QueueModel(RuleBasedStateMachine):
    """Drives a fragment and the model side by side."""

    @initialize()
    def begin(self) -> None:
        spec = FragmentSpec(lock_duration_ms=LOCK_MS, max_delivery_count=MAX_DELIVERY)
        self.bench = FragmentBench(spec)
        self.expected: dict[int, Expected] = {}
        self.next_sequence = 1
        self.is_down = False
        self.body_number = 0

    # --- what clients do ------------------------------------------------------------------

    @rule(count=st.integers(1, 5))
    def send(self, count: int) -> None:
        bodies = []
        for _ in range(count):
            self.body_number += 1
            bodies.append(b"%d" % self.body_number)
        confirmed = len(self.bench.ports.confirmations)
        self.bench.send(*bodies)
        if self.is_down:
            assert len(self.bench.ports.confirmations) == confirmed
            return
        assert len(self.bench.ports.confirmations) == confirmed + count
        for body in bodies:
            self.expected[self.next_sequence] = Expected(body)
            self.next_sequence += 1

    @rule(count=st.integers(1, 6), lane=LANES)
    def receive(self, count: int, lane: Lane) -> None:
        got = self.bench.receive(count, lane)
        wanted = [] if self.is_down else self.available(lane)[:count]
        assert [m.sequence for m in got] == wanted
        for message in got:
            self.check(message)
            self.expected[message.sequence].lock = (message.token, message.locked_until_ms)

    @rule(count=st.integers(1, 4), lane=LANES)
    def receive_and_delete(self, count: int, lane: Lane) -> None:
        got = self.bench.receive(count, lane, deletes=True)
        wanted = [] if self.is_down else self.available(lane)[:count]
        assert [m.sequence for m in got] == wanted
        for message in got:
            self.check(message)
            del self.expected[message.sequence]

    @rule(outcome=st.sampled_from(list(Outcome)), lane=LANES, data=st.data())
    def settle(self, outcome: Outcome, lane: Lane, data: st.DataObject) -> None:
        held = [e for e in self.expected.values() if e.lock and e.lane is lane]
        tokens = [e.lock[0] for e in held if e.lock]
        chosen = data.draw(st.lists(st.sampled_from([*tokens, 10**9]), unique=True, max_size=4))
        now_ms = self.bench.clock.now_ms()
        overlay = Overlay(b"", "asked") if outcome is Outcome.DEAD_LETTER else None
        lost, error = self.bench.settle(chosen, outcome, lane, overlay)
        valid = [e for e in held if e.lock and e.lock[0] in chosen and e.lock[1] > now_ms]
        assert set(lost) == set(chosen) - {e.lock[0] for e in valid if e.lock}
        refused = outcome is Outcome.DEAD_LETTER and lane is Lane.DEAD_LETTER
        if outcome is not Outcome.RELEASE:
            assert (error is not None) == (refused or (self.is_down and bool(valid)))
        if error is None:
            for message in valid:
                self.settled(message, outcome)

    @rule(data=st.data(), lane=LANES)
    def renew(self, data: st.DataObject, lane: Lane) -> None:
        held = [e for e in self.expected.values() if e.lock and e.lane is lane]
        if not held:
            return
        message = data.draw(st.sampled_from(held))
        assert message.lock is not None
        token, until_ms = message.lock
        now_ms = self.bench.clock.now_ms()
        answer = self.bench.renew([token], lane)
        if until_ms > now_ms:
            assert answer == [now_ms + LOCK_MS]
            message.lock = (token, now_ms + LOCK_MS)
        else:
            assert answer == [0]

    # --- what the world does ----------------------------------------------------------------

    @rule(delta_ms=st.sampled_from([1, 100, LOCK_MS // 2, LOCK_MS + 500]))
    def time_passes(self, delta_ms: int) -> None:
        self.bench.scheduler.advance_ms(delta_ms)
        if not self.is_down:
            self.lapse()

    @precondition(lambda self: not self.is_down)
    @rule()
    def crash_and_recover(self) -> None:
        self.bench.start()
        for message in self.expected.values():
            message.lock = None

    @precondition(lambda self: not self.is_down)
    @rule()
    def checkpoint(self) -> None:
        self.bench.broker._checkpoint()
        self.bench.run()

    @precondition(lambda self: not self.is_down)
    @rule()
    def store_fails(self) -> None:
        assert isinstance(self.bench.store, MemoryStore)
        self.bench.store.fail()
        self.bench.run()
        self.is_down = True

    @precondition(lambda self: self.is_down)
    @rule()
    def store_heals(self) -> None:
        assert isinstance(self.bench.store, MemoryStore)
        self.bench.store.heal()
        self.bench.run()
        self.is_down = False
        self.lapse()

    # --- the model ------------------------------------------------------------------------

    def available(self, lane: Lane) -> list[int]:
        return sorted(
            s for s, e in self.expected.items() if e.lane is lane and e.lock is None
        )

    def check(self, message: Delivered) -> None:
        expected = self.expected[message.sequence]
        assert message.body == expected.body
        assert message.delivery_count == expected.delivery_count
        reason = message.overlay.reason if message.overlay is not None else None
        assert reason == expected.reason

    def settled(self, message: Expected, outcome: Outcome) -> None:
        message.lock = None
        if outcome is Outcome.COMPLETE:
            sequence = next(s for s, e in self.expected.items() if e is message)
            del self.expected[sequence]
        elif outcome is Outcome.DEAD_LETTER:
            message.lane = Lane.DEAD_LETTER
            message.reason = "asked"
        elif outcome is Outcome.ABANDON:
            self.count(message)

    def count(self, message: Expected) -> None:
        message.delivery_count += 1
        if message.lane is Lane.MAIN and message.delivery_count >= MAX_DELIVERY:
            message.lane = Lane.DEAD_LETTER
            message.reason = "MaxDeliveryCountExceeded"

    def lapse(self) -> None:
        now_ms = self.bench.clock.now_ms()
        # Timers closer than 20 ms together are served together.
        for message in self.expected.values():
            if message.lock is not None and message.lock[1] <= now_ms:
                message.lock = None
                self.count(message)

    @invariant()
    def counts_are_exact(self) -> None:
        state = self.bench.state
        for lane in (state.main, state.dead):
            wanted = sum(1 for e in self.expected.values() if e.lane is lane.lane)
            assert lane.message_count == wanted
            locked = sum(
                1 for e in self.expected.values() if e.lane is lane.lane and e.lock is not None
            )
            assert len(lane.locks) == locked
        assert state.size_bytes == sum(len(e.body) for e in self.expected.values())


QueueModel.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestQueueModel = QueueModel.TestCase
