"""Random publications, settlements, crashes and failing stores against a model of a topic.

A message says in its own body who gets it: shared, rewritten or as a dead letter. The model
knows for each subscription what it must hold. Whatever happens, every acknowledged message is
in every matching subscription exactly once, what was never acknowledged is in all of them or in
none, and the store counts every holder of a body.
"""

from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partibus.fragment.commands import CancelScheduled, Enqueue, Outcome, SubQueueType
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.topics.selection import Failure, Selection
from partibus.store.memory import MemoryStore
from support.fragment.topic_bench import TopicBench

PLAIN = FragmentSpec(lock_duration_ms=60_000, max_delivery_count=1_000_000)
WAYS = ("none", "shared", "rewritten", "both", "failed", "failed-beside")
WANTED = st.lists(st.sampled_from(WAYS), min_size=5, max_size=5)
"""How a message goes to each of the subscriptions, by the last digit of their keys."""
DUE_MS = 5_000
BATCHES = st.lists(WANTED, min_size=1, max_size=4)


def way(body: bytes, key: int) -> str:
    return body.decode().split(",")[1:][key % 5]


def copies(body: bytes, key: int) -> tuple[list[bytes], list[bytes]]:
    """What of a message waits in a subscription, and what is among its dead letters."""
    changed = body + b"!"
    return {
        "none": ([], []),
        "shared": ([body], []),
        "rewritten": ([changed], []),
        "both": ([body, changed], []),
        "failed": ([], [body]),
        "failed-beside": ([body], [body]),
    }[way(body, key)]


class TopicModel(RuleBasedStateMachine):
    """Drives a topic and the model side by side."""

    @initialize()
    def begin(self) -> None:
        self.bench = TopicBench(subscriptions=dict.fromkeys((2, 3), PLAIN))
        self.bench.selector.answer = self.select
        self.main: dict[int, Counter[bytes]] = {2: Counter(), 3: Counter()}
        self.dead: dict[int, Counter[bytes]] = {2: Counter(), 3: Counter()}
        self.scheduled: dict[bytes, int] = {}
        self.number = 0
        self.next_key = 4
        self.is_down = False

    def select(self, body: bytes) -> Selection:
        keys = list(self.bench.specs)
        how = {key: way(body, key) for key in keys}
        failing = [key for key in keys if how[key].startswith("failed")]
        return Selection(
            [key for key in keys if how[key] in ("shared", "both", "failed-beside")],
            [
                (key, NewMessage(body + b"!", -1))
                for key in keys
                if how[key] in ("rewritten", "both")
            ],
            [Failure(key, Overlay(reason="FilterException")) for key in failing],
        )

    @property
    def store(self) -> MemoryStore:
        assert isinstance(self.bench.store, MemoryStore)
        return self.bench.store

    # --- sending --------------------------------------------------------------------------

    def make(self, batch: list[list[str]], due_ms: int = 0) -> list[NewMessage]:
        messages = []
        for wanted in batch:
            self.number += 1
            body = ",".join([str(self.number), *wanted]).encode()
            messages.append(NewMessage(body, -1, due_ms))
        return messages

    def publish(self, body: bytes) -> None:
        for key in self.main:
            waiting, dead = copies(body, key)
            self.main[key].update(waiting)
            self.dead[key].update(dead)

    @rule(batch=BATCHES)
    def send(self, batch: list[list[str]]) -> None:
        messages = self.make(batch)
        refusals = len(self.bench.ports.refusals)
        self.bench.send(*messages)
        if len(self.bench.ports.refusals) > refusals:
            assert self.is_down
            return
        for message in messages:
            self.publish(message.body)

    @rule(batch=BATCHES)
    @precondition(lambda self: not self.is_down)
    def schedule(self, batch: list[list[str]]) -> None:
        due_ms = self.bench.clock.now_ms() + DUE_MS
        messages = self.make(batch, due_ms)
        self.bench.send(*messages)
        first = self.bench.ports.first_sequences[-1]
        for place, message in enumerate(messages):
            self.scheduled[message.body] = first + place

    @rule(data=st.data())
    @precondition(lambda self: self.scheduled and not self.is_down)
    def cancel(self, data: st.DataObject) -> None:
        body = data.draw(st.sampled_from(sorted(self.scheduled)))
        self.bench.submit(CancelScheduled(self.bench.ports, [self.scheduled.pop(body)]))
        assert self.bench.ports.answers.pop() == 1

    @rule()
    @precondition(lambda self: not self.is_down)
    def wait(self) -> None:
        self.bench.scheduler.advance_ms(DUE_MS + 1_000)
        for body in self.scheduled:
            self.publish(body)
        self.scheduled.clear()

    # --- receiving ------------------------------------------------------------------------

    @rule(data=st.data(), outcome=st.sampled_from(list(Outcome)), count=st.integers(1, 3))
    @precondition(lambda self: self.main and not self.is_down)
    def receive(self, data: st.DataObject, outcome: Outcome, count: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.main)))
        delivered = self.bench.receive(key, count)
        assert len(delivered) == min(count, self.main[key].total())
        if outcome is Outcome.DEFER:
            outcome = Outcome.RELEASE
        if delivered:
            self.bench.settle(key, [message.token for message in delivered], outcome)
        bodies = [message.body for message in delivered]
        if outcome in (Outcome.COMPLETE, Outcome.DEAD_LETTER):
            self.main[key].subtract(bodies)
            self.main[key] = +self.main[key]
        if outcome is Outcome.DEAD_LETTER:
            self.dead[key].update(bodies)

    @rule(data=st.data())
    @precondition(lambda self: self.main and not self.is_down)
    def take(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.main)))
        taken = [message.body for message in self.bench.receive(key, 2, deletes=True)]
        self.main[key].subtract(taken)
        self.main[key] = +self.main[key]

    # --- subscriptions ----------------------------------------------------------------------

    @rule()
    @precondition(lambda self: len(self.main) < 5)
    def subscribe(self) -> None:
        self.bench.subscribe(self.next_key, PLAIN)
        self.main[self.next_key], self.dead[self.next_key] = Counter(), Counter()
        self.next_key += 1

    @rule(data=st.data())
    @precondition(lambda self: len(self.main) > 0 and not self.is_down)
    def unsubscribe(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.main)))
        self.bench.unsubscribe(key)
        self.bench.run()
        del self.main[key], self.dead[key]

    # --- trouble --------------------------------------------------------------------------

    @rule()
    @precondition(lambda self: not self.is_down)
    def checkpoint(self) -> None:
        self.bench.broker._checkpoint()
        self.bench.run()

    @rule()
    @precondition(lambda self: not self.is_down)
    def crash(self) -> None:
        self.bench.start()

    @rule(batch=BATCHES, steps=st.integers(0, 4))
    @precondition(lambda self: not self.is_down)
    def crash_while_sending(self, batch: list[list[str]], steps: int) -> None:
        messages = self.make(batch)
        confirmed = len(self.bench.ports.confirmations)
        command = Enqueue(self.bench.ports, messages, [0], 0)
        self.bench.broker.submit(self.bench.machine, command)
        self.step(steps)
        was_confirmed = len(self.bench.ports.confirmations) > confirmed
        self.bench.start()
        # All of them everywhere, or none anywhere.
        before = {key: Counter(bodies) for key, bodies in self.main.items()}
        if was_confirmed or self.holds() != before:
            for message in messages:
                self.publish(message.body)

    @rule(steps=st.integers(0, 6))
    @precondition(lambda self: not self.is_down and self.scheduled)
    def crash_while_publishing_due(self, steps: int) -> None:
        self.bench.clock.advance_ms(DUE_MS + 1_000)
        self.bench.broker.alarms._wake()
        self.step(steps)
        self.bench.start()
        self.wait()

    @rule(steps=st.integers(0, 6))
    @precondition(lambda self: not self.is_down and self.scheduled)
    def fail_while_publishing_due(self, steps: int) -> None:
        self.bench.clock.advance_ms(DUE_MS + 1_000)
        self.bench.broker.alarms._wake()
        self.step(steps)
        self.store.fail()
        self.bench.run()
        self.store.heal()
        self.wait()

    def step(self, steps: int) -> None:
        soon: list[Callable[[], None]] = self.bench.scheduler._soon
        for _ in range(min(steps, len(soon))):
            if soon:
                soon.popleft()()

    @rule()
    @precondition(lambda self: not self.is_down)
    def fail(self) -> None:
        self.store.fail()
        self.bench.run()
        self.is_down = True

    @rule()
    @precondition(lambda self: self.is_down)
    def heal(self) -> None:
        self.store.heal()
        self.bench.run()
        self.is_down = False

    # --- what must hold -------------------------------------------------------------------

    def holds(self, subqueue: SubQueueType = SubQueueType.MAIN) -> dict[int, Counter[bytes]]:
        return {key: Counter(self.bodies(key, subqueue)) for key in self.bench.machines}

    def bodies(self, key: int, subqueue: SubQueueType) -> list[bytes]:
        tables = self.bench.machines[key].state.subqueues[subqueue]
        assert not tables.locks
        assert not tables.leaving
        return [self.store._bodies[held.position] for held in tables.ready.copies(0)]

    @invariant()
    def every_subscription_has_its_copies(self) -> None:
        assert self.holds() == self.main
        assert self.holds(SubQueueType.DEAD_LETTER) == self.dead

    @invariant()
    def every_holder_is_counted(self) -> None:
        byte_count = sum(map(len, self.scheduled))
        for held in (*self.main.values(), *self.dead.values()):
            byte_count += sum(len(body) * count for body, count in held.items())
        assert self.store.live_bytes == byte_count
        assert self.bench.state.counts().size_bytes == byte_count
        assert self.bench.state.counts().scheduled == len(self.scheduled)


TestTopicModel = TopicModel.TestCase
TestTopicModel.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
