"""Random commands, lapses, crashes and failing stores against a simple model of sessions.

The model knows for each session its messages and its holder. Whatever happens, a session has
one holder at most, its messages come in order, nothing confirmed is lost or there twice, and
the session whose head waits longest is given next.
"""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partibus.domain.errors import (
    BusError,
    OperationTimeout,
    SessionCannotBeLocked,
    SessionLockLost,
    StoreUnavailable,
)
from partibus.fragment.commands import Detach, DropLocks, Outcome, SubQueueType, Tick
from partibus.fragment.message import MessageState
from partibus.fragment.sessions.commands import SessionConsumer
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.fragment import FragmentBench, SessionInbox

LOCK_MS = 10_000
FAR_MS = 1 << 46
MAX_DELIVERY = 4
NAMES = st.sampled_from(["a", "b", "c"])
OUTCOMES = [
    Outcome.COMPLETE,
    Outcome.COMPLETE,
    Outcome.ABANDON,
    Outcome.RELEASE,
    Outcome.DEFER,
    Outcome.DEAD_LETTER,
]


class Expected:
    """What the model knows of one message."""

    def __init__(self, body: bytes, name: str) -> None:
        self.body = body
        self.name = name
        self.state = MessageState.ACTIVE
        self.delivery_count = 0
        self.token = 0
        self.due_ms = 0
        self.is_dead = False


class Holder:
    """Who holds a session, as the model knows it."""

    def __init__(self, inbox: SessionInbox, consumer: SessionConsumer) -> None:
        self.inbox = inbox
        self.consumer = consumer
        self.until_ms = inbox.locked_until_ms


class SessionModel(RuleBasedStateMachine):
    """Drives a fragment and the model side by side."""

    @initialize()
    def begin(self) -> None:
        spec = FragmentSpec(
            lock_duration_ms=LOCK_MS, max_delivery_count=MAX_DELIVERY, requires_session=True
        )
        self.bench = FragmentBench(spec)
        self.expected: dict[int, Expected] = {}
        self.holders: dict[str, Holder] = {}
        self.states: dict[str, bytes] = {}
        self.next_sequence = 1
        self.is_down = False
        self.body_number = 0

    @property
    def now_ms(self) -> int:
        return self.bench.clock.now_ms()

    # --- what clients do ------------------------------------------------------------------

    @rule(names=st.lists(NAMES, min_size=1, max_size=4), delay_ms=st.sampled_from([0, 0, 0, 4_000]))
    def send(self, names: list[str], delay_ms: int) -> None:
        due_ms = self.now_ms + delay_ms if delay_ms else 0
        for name in names:
            self.body_number += 1
            body = b"%d" % self.body_number
            confirmed = len(self.bench.ports.confirmations)
            self.bench.send(body, scheduled_ms=due_ms, session_id=name)
            assert (len(self.bench.ports.confirmations) == confirmed) == self.is_down
            if not self.is_down:
                message = Expected(body, name)
                if delay_ms:
                    message.state, message.due_ms = MessageState.SCHEDULED, due_ms
                self.add(message)

    @rule(name=NAMES, deletes=st.sampled_from([False, False, True]))
    def accept_certain(self, name: str, deletes: bool) -> None:
        inbox, consumer = self.bench.accept(name, deletes=deletes)
        if self.is_down:
            assert type(inbox.errors[0]) is StoreUnavailable
        elif name in self.holders:
            assert type(inbox.errors[0]) is SessionCannotBeLocked
        else:
            assert inbox.session_id == name
            self.hold(inbox, consumer)

    @rule(deletes=st.sampled_from([False, False, True]))
    def accept_any(self, deletes: bool) -> None:
        wanted = self.oldest()
        inbox, consumer = self.bench.accept(deletes=deletes)
        if self.is_down or wanted is None:
            assert type(inbox.errors[0]) is OperationTimeout
        else:
            assert inbox.session_id == wanted
            self.hold(inbox, consumer)

    @rule(name=NAMES, count=st.integers(1, 4))
    def receive(self, name: str, count: int) -> None:
        holder = self.holders.get(name)
        if holder is None:
            return
        waiting = [] if self.is_down else self.waiting(name)[:count]
        self.bench.demand(holder.consumer, count, drain=True)
        got = holder.inbox.take()
        assert [message.sequence for message in got] == waiting
        for message in got:
            expected = self.expected[message.sequence]
            assert message.body == expected.body
            assert message.delivery_count == expected.delivery_count
            if holder.consumer.deletes:
                del self.expected[message.sequence]
            else:
                assert message.locked_until_ms == holder.until_ms
                expected.token = message.token

    @rule(name=NAMES, outcome=st.sampled_from(OUTCOMES), data=st.data())
    def settle(self, name: str, outcome: Outcome, data: st.DataObject) -> None:
        flying = {e.token: e for e in self.in_flight(name)}
        if not flying:
            return
        tokens = data.draw(st.lists(st.sampled_from(list(flying)), unique=True, min_size=1))
        lost, error = self.bench.settle(tokens, outcome)
        if self.is_overdue(name):
            assert lost == tokens
            return
        assert lost == []
        assert (error is not None) == (self.is_down and outcome is not Outcome.RELEASE)
        if error is None:
            for token in tokens:
                self.settled(flying[token], outcome)

    @rule(name=NAMES, data=st.data(), deletes=st.booleans())
    def receive_deferred(self, name: str, data: st.DataObject, deletes: bool) -> None:
        deferred = [
            sequence
            for sequence, e in self.expected.items()
            if e.name == name and e.state is MessageState.DEFERRED and not e.token and not e.is_dead
        ]
        if not deferred:
            return
        number = data.draw(st.sampled_from(deferred))
        holder = self.holders.get(name)
        lock = holder.inbox.lock if holder is not None else 77
        got = self.bench.receive_deferred(number, session_id=name, lock=lock, deletes=deletes)
        if holder is None or self.is_overdue(name):
            assert isinstance(got, SessionLockLost)
        elif self.is_down and deletes:
            assert isinstance(got, StoreUnavailable)
        else:
            assert not isinstance(got, BusError)
            assert [message.sequence for message in got] == [number]
            if deletes:
                del self.expected[number]
            else:
                self.expected[number].token = got[0].token

    @rule(name=NAMES)
    def renew(self, name: str) -> None:
        holder = self.holders.get(name)
        if holder is None:
            return
        answer = self.bench.renew_session(holder.inbox)
        if self.is_overdue(name):
            assert answer == 0
        else:
            assert answer == self.now_ms + LOCK_MS
            holder.until_ms = answer

    @rule(name=NAMES, state=st.sampled_from([None, b"", b"one", b"another"]))
    def set_state(self, name: str, state: bytes | None) -> None:
        holder = self.holders.get(name)
        if holder is None:
            return
        answer = self.bench.set_state(holder.inbox, state)
        if self.is_overdue(name):
            assert isinstance(answer, SessionLockLost)
        elif self.is_down:
            assert isinstance(answer, StoreUnavailable)
        elif state is None:
            self.states.pop(name, None)
        else:
            self.states[name] = state

    @rule(name=NAMES)
    def get_state(self, name: str) -> None:
        holder = self.holders.get(name)
        if holder is not None and not self.is_overdue(name):
            assert self.bench.get_state(holder.inbox) == self.states.get(name)

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        holder = self.holders.pop(name, None)
        if holder is None:
            return
        self.bench.submit(Detach(holder.consumer))
        if holder.until_ms > self.now_ms:
            for message in self.in_flight(name):
                message.token = 0
        else:
            # Released in spite of its time being up: nobody had noticed yet.
            for message in self.in_flight(name):
                message.token = 0

    @rule(name=NAMES | st.none(), start=st.integers(0, 30))
    def peek(self, name: str | None, start: int) -> None:
        got = self.bench.peek(start, 1000, session_id=name)
        wanted = [
            sequence
            for sequence, e in sorted(self.expected.items())
            if not e.is_dead and sequence >= start and name in (None, e.name)
        ]
        assert [message.sequence for message in got] == wanted
        for message in got:
            assert message.state is self.expected[message.sequence].state

    @rule(name=NAMES, count=st.integers(1, 2))
    def purge(self, name: str, count: int) -> None:
        doomed = self.waiting(name)[:count]
        answer = self.bench.purge(count, FAR_MS, session_id=name)
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

    @rule(delta_ms=st.sampled_from([-7_200_000, -LOCK_MS, LOCK_MS, 7_200_000]))
    def clock_is_set(self, delta_ms: int) -> None:
        self.bench.step_clock_ms(delta_ms)
        for holder in self.holders.values():
            holder.until_ms += delta_ms
        if not self.is_down:
            self.clock_ticked()

    @precondition(lambda self: not self.is_down)
    @rule()
    def locks_are_dropped(self) -> None:
        self.bench.submit(DropLocks())
        for holder in self.holders.values():
            holder.until_ms = self.now_ms
        self.clock_ticked()

    @precondition(lambda self: not self.is_down)
    @rule()
    def crash_and_recover(self) -> None:
        self.bench.start()
        self.bench.run()
        self.holders.clear()
        for message in self.expected.values():
            message.token = 0

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

    def hold(self, inbox: SessionInbox, consumer: SessionConsumer) -> None:
        assert inbox.session_id is not None
        assert inbox.session_id not in self.holders
        assert inbox.locked_until_ms == self.now_ms + LOCK_MS
        self.holders[inbox.session_id] = Holder(inbox, consumer)

    def waiting(self, name: str) -> list[int]:
        """The messages of a session that can be received, in order."""
        return sorted(
            sequence
            for sequence, e in self.expected.items()
            if e.name == name and e.state is MessageState.ACTIVE and not e.token and not e.is_dead
        )

    def oldest(self) -> str | None:
        heads = [(self.waiting(name)[:1], name) for name in "abc" if name not in self.holders]
        return min([(head, name) for head, name in heads if head], default=(None, None))[1]

    def in_flight(self, name: str) -> list[Expected]:
        return [e for e in self.expected.values() if e.name == name and e.token]

    def is_overdue(self, name: str) -> bool:
        """Its time is up, but nobody has noticed: the store was down."""
        return self.holders[name].until_ms <= self.now_ms

    def settled(self, message: Expected, outcome: Outcome) -> None:
        message.token = 0
        if outcome is Outcome.COMPLETE:
            del self.expected[next(s for s, e in self.expected.items() if e is message)]
        elif outcome is Outcome.DEAD_LETTER:
            self.bury(message)
        elif outcome is Outcome.ABANDON:
            self.count(message)
        elif outcome is Outcome.DEFER:
            message.state = MessageState.DEFERRED

    def bury(self, message: Expected) -> None:
        message.is_dead = True
        message.state = MessageState.ACTIVE

    def count(self, message: Expected) -> None:
        message.delivery_count += 1
        if message.delivery_count >= MAX_DELIVERY:
            self.bury(message)

    def clock_ticked(self) -> None:
        """Bring fragment and model to the same moment."""
        self.bench.submit(Tick())
        for name, holder in list(self.holders.items()):
            if holder.until_ms <= self.now_ms:
                assert [type(error) for error in holder.inbox.errors] == [SessionLockLost]
                del self.holders[name]
                for message in self.in_flight(name):
                    message.token = 0
                    self.count(message)
            else:
                assert not holder.inbox.errors
        due = [
            (e.due_ms, sequence)
            for sequence, e in self.expected.items()
            if e.state is MessageState.SCHEDULED and e.due_ms <= self.now_ms
        ]
        for _, sequence in sorted(due):
            message = self.expected.pop(sequence)
            message.state = MessageState.ACTIVE
            self.add(message)

    @invariant()
    def counts_are_exact(self) -> None:
        counts = self.bench.state.counts()
        alive = [e for e in self.expected.values() if not e.is_dead]
        assert counts.active == sum(e.state is MessageState.ACTIVE for e in alive)
        assert counts.deferred == sum(e.state is MessageState.DEFERRED for e in alive)
        assert counts.scheduled == sum(e.state is MessageState.SCHEDULED for e in alive)
        assert counts.locked == sum(e.token > 0 for e in alive)
        assert counts.dead_letter == len(self.expected) - len(alive)
        size = sum(len(e.body) for e in self.expected.values())
        assert counts.size_bytes == size + sum(map(len, self.states.values()))

    @invariant()
    def sessions_are_those_with_messages_state_or_holder(self) -> None:
        assert self.bench.state.sessions is not None
        if self.is_down:
            return
        alive = {e.name for e in self.expected.values() if not e.is_dead}
        wanted = alive | set(self.states) | set(self.holders)
        assert set(self.bench.state.sessions.by_id) == wanted
        active = {
            e.name
            for e in self.expected.values()
            if not e.is_dead and e.state is MessageState.ACTIVE
        }
        in_flight = {e.name for e in self.expected.values() if e.token}
        listed, _ = self.bench.list_sessions()
        assert set(listed) == active | in_flight | set(self.states)

    def teardown(self) -> None:
        """All that is left comes in order, once its sessions are held again."""
        if not hasattr(self, "bench"):
            return
        if self.is_down:
            self.store_heals()
        self.crash_and_recover()
        for name in "abc":
            inbox, consumer = self.bench.accept(name)
            self.bench.demand(consumer, 1000)
            assert [m.sequence for m in inbox.take()] == self.waiting(name)
        dead = self.bench.receive(1000, SubQueueType.DEAD_LETTER)
        assert {m.body for m in dead} == {e.body for e in self.expected.values() if e.is_dead}


SessionModel.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestSessionModel = SessionModel.TestCase
