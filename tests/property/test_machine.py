"""Random commands, crashes and failing stores against a simple model of a queue.

The model knows for each message where it must be and how often it was delivered. Whatever
happens, nothing confirmed is lost, nothing is there twice, order, locks and counts are right.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partibus.domain.errors import BusError, MessageNotFound, StoreUnavailable
from partibus.fragment.commands import DropLocks, Outcome, SubQueueType
from partibus.fragment.message import MessageState, Overlay
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.upkeep.slices import SLICE, Allowance
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import Delivered, FragmentBench

LOCK_MS = 10_000
MAX_DELIVERY = 4
SUBQUEUES = st.sampled_from([SubQueueType.MAIN, SubQueueType.DEAD_LETTER])
UNKNOWN = 10**9
FAR_MS = 1 << 46


class Expected:
    """What the model knows of one message."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.subqueue = SubQueueType.MAIN
        self.state = MessageState.ACTIVE
        self.delivery_count = 0
        self.lock: tuple[int, int] | None = None
        self.reason: str | None = None
        self.due_ms = 0
        self.ttl_ms = -1
        self.expires_ms = 0
        self.was_scheduled = False

    @property
    def told(self) -> MessageState:
        """The state that its receiver is told."""
        if self.state is MessageState.DEFERRED:
            return MessageState.DEFERRED
        return MessageState.SCHEDULED if self.was_scheduled else MessageState.ACTIVE


class QueueModel(RuleBasedStateMachine):
    """Drives a fragment and the model side by side."""

    @initialize(
        dead_letters_expired=st.booleans(),
        counts_dead_letters=st.booleans(),
        slice_messages=st.sampled_from([1, 2, SLICE]),
    )
    def begin(
        self, dead_letters_expired: bool, counts_dead_letters: bool, slice_messages: int
    ) -> None:
        spec = FragmentSpec(
            lock_duration_ms=LOCK_MS,
            max_delivery_count=MAX_DELIVERY,
            counts_dead_letters=counts_dead_letters,
            dead_letter_on_expiry=dead_letters_expired,
        )
        self.bench = FragmentBench(spec, slice_messages=slice_messages)
        self.expected: dict[int, Expected] = {}
        self.next_sequence = 1
        self.is_down = False
        self.body_number = 0

    @property
    def now_ms(self) -> int:
        return self.bench.clock.now_ms()

    # --- what clients do ------------------------------------------------------------------

    @rule(
        count=st.integers(1, 5),
        ttl_ms=st.sampled_from([-1, -1, -1, 3_000, 20_000]),
        delay_ms=st.sampled_from([0, 0, 0, 4_000, 15_000]),
    )
    def send(self, count: int, ttl_ms: int, delay_ms: int) -> None:
        bodies = []
        for _ in range(count):
            self.body_number += 1
            bodies.append(b"%d" % self.body_number)
        confirmed = len(self.bench.ports.confirmations)
        due_ms = self.now_ms + delay_ms if delay_ms else 0
        self.bench.send(*bodies, ttl_ms=ttl_ms, scheduled_ms=due_ms)
        if self.is_down:
            assert len(self.bench.ports.confirmations) == confirmed
            return
        assert len(self.bench.ports.confirmations) == confirmed + count
        assert self.bench.ports.first_sequences[-1] == self.next_sequence
        for body in bodies:
            message = Expected(body)
            message.ttl_ms = ttl_ms
            if delay_ms:
                message.state, message.due_ms = MessageState.SCHEDULED, due_ms
            elif ttl_ms >= 0:
                message.expires_ms = self.now_ms + ttl_ms
            self.add(message)

    @rule(count=st.integers(1, 6), subqueue=SUBQUEUES, deletes=st.booleans())
    def receive(self, count: int, subqueue: SubQueueType, deletes: bool) -> None:
        wanted: list[int] = []
        if not self.is_down:
            self.expire()
            wanted = self.in_state(MessageState.ACTIVE, subqueue)[:count]
        got = self.bench.receive(count, subqueue, deletes)
        assert [m.sequence for m in got] == wanted
        for message in got:
            self.check(message)
            if deletes:
                del self.expected[message.sequence]
            else:
                assert message.locked_until_ms == self.now_ms + LOCK_MS
                self.expected[message.sequence].lock = (message.token, message.locked_until_ms)

    @rule(data=st.data(), subqueue=SUBQUEUES, deletes=st.booleans())
    def receive_deferred(self, data: st.DataObject, subqueue: SubQueueType, deletes: bool) -> None:
        deferred = self.in_state(MessageState.DEFERRED, subqueue)
        chosen = data.draw(
            st.lists(st.sampled_from([*deferred, UNKNOWN]), unique=True, min_size=1, max_size=3)
        )
        got = self.bench.receive_deferred(*chosen, subqueue=subqueue, deletes=deletes)
        expired = [
            s
            for s in chosen
            if subqueue is SubQueueType.MAIN
            and s in deferred
            and 0 < self.expected[s].expires_ms <= self.now_ms
        ]
        if self.is_down:
            assert isinstance(got, StoreUnavailable)
        elif UNKNOWN in chosen or expired:
            assert isinstance(got, MessageNotFound)
            for sequence in expired:
                self.bury(self.expected[sequence], "TTLExpiredException")
        else:
            assert not isinstance(got, BusError)
            assert [m.sequence for m in got] == chosen
            for message in got:
                self.check(message)
                if deletes:
                    del self.expected[message.sequence]
                else:
                    lock = (message.token, message.locked_until_ms)
                    self.expected[message.sequence].lock = lock

    @rule(outcome=st.sampled_from(list(Outcome)), subqueue=SUBQUEUES, data=st.data())
    def settle(self, outcome: Outcome, subqueue: SubQueueType, data: st.DataObject) -> None:
        held = [e for e in self.expected.values() if e.lock and e.subqueue is subqueue]
        tokens = [e.lock[0] for e in held if e.lock]
        chosen = data.draw(st.lists(st.sampled_from([*tokens, UNKNOWN]), unique=True, max_size=4))
        overlay = Overlay(b"", "asked") if outcome is Outcome.DEAD_LETTER else None
        valid = [e for e in held if e.lock and e.lock[0] in chosen and e.lock[1] > self.now_ms]
        good = {e.lock[0] for e in valid if e.lock}
        lost, error = self.bench.settle(chosen, outcome, subqueue, overlay)
        assert set(lost) == set(chosen) - good
        refused = outcome is Outcome.DEAD_LETTER and subqueue is SubQueueType.DEAD_LETTER
        if outcome is not Outcome.RELEASE:
            assert (error is not None) == (refused or (self.is_down and bool(valid)))
        if error is None:
            for message in valid:
                self.settled(message, outcome)

    @rule(data=st.data(), subqueue=SUBQUEUES)
    def renew(self, data: st.DataObject, subqueue: SubQueueType) -> None:
        held = [e for e in self.expected.values() if e.lock and e.subqueue is subqueue]
        if not held:
            return
        message = data.draw(st.sampled_from(held))
        assert message.lock is not None
        token, until_ms = message.lock
        answer = self.bench.renew([token], subqueue)
        if until_ms > self.now_ms:
            assert answer == [self.now_ms + LOCK_MS]
            message.lock = (token, self.now_ms + LOCK_MS)
        else:
            assert answer == [0]

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        scheduled = self.in_state(MessageState.SCHEDULED)
        chosen = data.draw(
            st.lists(st.sampled_from([*scheduled, UNKNOWN]), unique=True, min_size=1, max_size=3)
        )
        answer = self.bench.cancel(*chosen)
        if UNKNOWN in chosen:
            assert isinstance(answer, MessageNotFound)
        elif self.is_down:
            assert isinstance(answer, StoreUnavailable)
        else:
            assert answer == len(chosen)
            for sequence in chosen:
                del self.expected[sequence]

    @rule(start=st.integers(0, 40), count=st.integers(1, 50), subqueue=SUBQUEUES)
    def peek(self, start: int, count: int, subqueue: SubQueueType) -> None:
        got = self.bench.peek(start, count, subqueue)
        wanted = sorted(
            s for s, e in self.expected.items() if e.subqueue is subqueue and s >= start
        )
        assert [m.sequence for m in got] == wanted[:count]
        for message in got:
            expected = self.expected[message.sequence]
            assert (message.body, message.state) == (expected.body, expected.state)
            assert message.delivery_count == expected.delivery_count
            assert message.token == 0

    @rule(count=st.integers(1, 4), subqueue=SUBQUEUES)
    def purge(self, count: int, subqueue: SubQueueType) -> None:
        doomed = self.in_state(MessageState.ACTIVE, subqueue)[:count]
        # Messages that came before the clock was set back are of the future.
        answer = self.bench.purge(count, FAR_MS, subqueue=subqueue)
        if self.is_down and doomed:
            assert isinstance(answer, StoreUnavailable)
        else:
            assert answer == len(doomed)
            for sequence in doomed:
                del self.expected[sequence]

    # --- what the world does ----------------------------------------------------------------

    @rule(delta_ms=st.sampled_from([1, 100, LOCK_MS // 2, LOCK_MS + 500]))
    def time_passes(self, delta_ms: int) -> None:
        self.bench.scheduler.advance_ms(delta_ms)
        if not self.is_down:
            self.clock_ticked()

    @rule(delta_ms=st.sampled_from([-7_200_000, -LOCK_MS, -1_000, 1_000, LOCK_MS, 7_200_000]))
    def clock_is_set(self, delta_ms: int) -> None:
        self.bench.step_clock_ms(delta_ms)
        for message in [e for e in self.expected.values() if e.lock is not None]:
            assert message.lock is not None
            message.lock = (message.lock[0], message.lock[1] + delta_ms)
        if not self.is_down:
            self.clock_ticked()

    @rule()
    def locks_are_dropped(self) -> None:
        self.bench.submit(DropLocks())
        for message in [e for e in self.expected.values() if e.lock is not None]:
            assert message.lock is not None
            message.lock = (message.lock[0], self.now_ms)
            if not self.is_down:
                message.lock = None
                self.count(message)

    @precondition(lambda self: not self.is_down)
    @rule()
    def crash_and_recover(self) -> None:
        self.bench.start()
        self.bench.run()
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
        self.clock_ticked()

    # --- the model ------------------------------------------------------------------------

    def add(self, message: Expected) -> None:
        self.expected[self.next_sequence] = message
        self.next_sequence += 1

    def in_state(
        self, state: MessageState, subqueue: SubQueueType = SubQueueType.MAIN
    ) -> list[int]:
        """Unlocked messages of a subqueue in one state, by sequence."""
        return sorted(
            s
            for s, e in self.expected.items()
            if e.subqueue is subqueue and e.state is state and e.lock is None
        )

    def check(self, message: Delivered) -> None:
        expected = self.expected[message.sequence]
        assert message.body == expected.body
        assert message.delivery_count == expected.delivery_count
        assert message.state is expected.told
        reason = message.overlay.reason if message.overlay is not None else None
        assert reason == expected.reason

    def remove(self, message: Expected) -> None:
        del self.expected[next(s for s, e in self.expected.items() if e is message)]

    def bury(self, message: Expected, reason: str) -> None:
        message.subqueue, message.reason = SubQueueType.DEAD_LETTER, reason
        message.state, message.was_scheduled = MessageState.ACTIVE, False

    def settled(self, message: Expected, outcome: Outcome) -> None:
        message.lock = None
        if outcome is Outcome.COMPLETE:
            self.remove(message)
        elif outcome is Outcome.DEAD_LETTER:
            self.bury(message, "asked")
        elif outcome is Outcome.ABANDON:
            self.count(message)
        elif outcome is Outcome.DEFER:
            message.state = MessageState.DEFERRED
            message.delivery_count += self.counts(message)

    def counts(self, message: Expected) -> bool:
        return message.subqueue is SubQueueType.MAIN or self.bench.spec.counts_dead_letters

    def count(self, message: Expected) -> None:
        message.delivery_count += self.counts(message)
        if message.subqueue is SubQueueType.MAIN and message.delivery_count >= MAX_DELIVERY:
            self.bury(message, "MaxDeliveryCountExceeded")

    def expire(self) -> None:
        for sequence in self.in_state(MessageState.ACTIVE):
            message = self.expected[sequence]
            if 0 < message.expires_ms <= self.now_ms:
                if self.bench.spec.dead_letter_on_expiry:
                    self.bury(message, "TTLExpiredException")
                else:
                    del self.expected[sequence]

    def clock_ticked(self) -> None:
        """Bring fragment and model to the same moment, then follow the fragment's timers."""
        from partibus.fragment.commands import Tick

        self.bench.submit(Tick(Allowance(self.bench.slice_messages)))
        assert not self.bench.state.is_behind
        for message in list(self.expected.values()):
            if message.lock is not None and message.lock[1] <= self.now_ms:
                message.lock = None
                self.count(message)
        due = [
            (self.expected[s].due_ms, s)
            for s in self.in_state(MessageState.SCHEDULED)
            if self.expected[s].due_ms <= self.now_ms
        ]
        activated = {m.body: m for m in self.bench.peek(0, 10_000) if m.state == 0}
        for _, sequence in sorted(due):
            message = self.expected.pop(sequence)
            message.state, message.was_scheduled = MessageState.ACTIVE, True
            shown = activated.get(message.body)
            if message.ttl_ms >= 0:
                held = self.active(message.body)
                message.expires_ms = held if held else 1
            assert shown is None or shown.sequence >= self.next_sequence
            self.add(message)
        self.expire()

    def active(self, body: bytes) -> int:
        """When the fragment says that an activated message expires; 0 when it is gone."""
        for held in self.bench.state.main.ready.copies(0):
            if self.bench.store.read_now([(held.position, held.length)]) == [body]:
                return held.expires_ms
        return 0

    @invariant()
    def counts_are_exact(self) -> None:
        counts = self.bench.state.counts()
        everything = self.expected.values()
        main = [e for e in everything if e.subqueue is SubQueueType.MAIN]
        # Expired messages leave with the next sweep; until then both sides may differ by them.
        overdue = [
            e for e in main if e.state is MessageState.ACTIVE and 0 < e.expires_ms <= self.now_ms
        ]
        if overdue:
            return
        assert counts.active == sum(e.state is MessageState.ACTIVE for e in main)
        assert counts.deferred == sum(e.state is MessageState.DEFERRED for e in main)
        assert counts.scheduled == sum(e.state is MessageState.SCHEDULED for e in main)
        assert counts.locked == sum(e.lock is not None for e in everything)
        assert counts.dead_letter == sum(e.subqueue is SubQueueType.DEAD_LETTER for e in everything)
        assert counts.size_bytes == sum(len(e.body) for e in everything)


QueueModel.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestQueueModel = QueueModel.TestCase
