"""Entities come and go, and the process dies at any moment between catalog, store and memory.

A small node of one catalog on disk and one store that can be opened again. Every step of its
loop is a moment at which it may die. Afterwards an entity has exactly the messages that were
confirmed in its present life, a deleted one is not there, and the store holds no byte for it.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import Change, EntityRecord
from partibus.domain.entity import QueueSpec
from partibus.fragment.broker import Broker
from partibus.fragment.commands import (
    Consumer,
    Demand,
    Detach,
    Enqueue,
    Outcome,
    Settle,
    SubQueueType,
)
from partibus.fragment.machine import Machine
from partibus.fragment.message import NewMessage
from partibus.fragment.spec import FragmentSpec
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.fragment import Inbox, Ports
from partibus.testing.scheduler import ManualScheduler

NAMES = ("red", "green", "blue")
SPEC = FragmentSpec(lock_duration_ms=10_000, max_delivery_count=10)


class Died(Exception):
    """The process is no more."""


class Node:
    """What the server's node does with a change, on one store and by hand."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.store = MemoryStore(notify=self.scheduler.call_soon, replayable=True)
        self.steps_left = 1 << 30
        self.machines: dict[str, list[Machine]] = {}
        self.start()

    def start(self) -> None:
        self.scheduler.crash()
        self.catalog = Catalog(self.file, clock=self.clock)
        self.broker = Broker(self.store, self.clock, self.scheduler)
        self.broker.open()
        self.machines = {}
        for record in self.catalog.entities():
            self._serve(record)
        for fragment_id in self.broker.strangers():
            assert fragment_id in self.catalog.identity.tombstones()
            self.broker.drop_stranger(fragment_id)
        self.broker.on_removed = self.catalog.dropped
        self.catalog.subscribe(self._changed)

    def _serve(self, record: EntityRecord) -> None:
        self.machines[record.path] = [
            self.broker.add(placement.fragment_id, SPEC) for placement in record.fragments
        ]

    def _changed(self, change: Change) -> None:
        self.step()  # between the catalog and everything else
        if change.after is not None:
            self._serve(change.after)
        elif change.before is not None:
            for placement in change.before.fragments:
                self.broker.drop(placement.fragment_id)
                self.step()
            del self.machines[change.path]

    def step(self) -> None:
        self.steps_left -= 1
        if self.steps_left <= 0:
            raise Died

    def run(self) -> None:
        while self.scheduler._soon:
            self.step()
            self.scheduler._soon.popleft()()

    def receive(self, path: str) -> list[bytes]:
        got: list[bytes] = []
        for machine in self.machines[path]:
            inbox, fragment_id = Inbox(), machine.state.fragment_id
            consumer = Consumer(fragment_id, inbox, SubQueueType.MAIN, False)
            self.broker.submit(machine, Demand(consumer, 100, True))
            self.broker.submit(machine, Detach(consumer))
            self.scheduler.run()
            got += [message.body for message in inbox.messages]
            tokens = [message.token for message in inbox.messages]
            release = Settle(None, None, SubQueueType.MAIN, tokens, Outcome.RELEASE)
            self.broker.submit(machine, release)
            self.scheduler.run()
        return got


class Life:
    """One life of an entity, as its clients know it."""

    def __init__(self) -> None:
        self.sends: list[tuple[bytes, Ports]] = []
        self.is_created = False
        """Its creation was answered."""
        self.is_ending = False
        """Its deletion was asked for."""

    @property
    def sure(self) -> set[bytes]:
        return {body for body, ports in self.sends if ports.confirmations}

    @property
    def possible(self) -> set[bytes]:
        return {body for body, _ in self.sends}


Model = dict[str, Life]


@contextmanager
def node_on_disk() -> Iterator[Node]:
    with tempfile.TemporaryDirectory() as directory:
        node = Node(Path(directory) / "catalog.db")
        try:
            yield node
        finally:
            node.catalog.close()


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["create", "create", "send", "send", "send", "delete", "checkpoint"]),
        st.sampled_from(NAMES),
        st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


def act(node: Node, model: Model, action: str, name: str, flag: bool, body: bytes) -> None:
    if action == "create" and name not in model:
        model[name] = Life()
        node.catalog.create(name, QueueSpec(enable_partitioning=flag, fragments=3 if flag else 1))
        model[name].is_created = True
    elif action == "send" and name in model:
        ports, machines = Ports(), node.machines[name]
        model[name].sends.append((body, ports))
        command = Enqueue(ports, [NewMessage(body, -1)], [1], len(body))
        node.broker.submit(machines[int(body) % len(machines)], command)
        if flag:
            node.run()
        else:
            node.step()  # the next action finds it on its way
    elif action == "delete" and name in model:
        model[name].is_ending = True
        node.catalog.delete(name)
        del model[name]
        if flag:
            node.run()
    elif action == "checkpoint":
        node.run()
        node.broker._checkpoint()
        node.run()


def check(node: Node, model: Model) -> None:
    live = 0
    for name in NAMES:
        life = model.get(name)
        if node.catalog.lookup(name) is None:
            assert life is None or life.is_ending or not life.is_created
            continue
        assert life is not None, "a deletion that was answered holds"
        got = node.receive(name)
        live += sum(map(len, got))
        assert len(set(got)) == len(got), "nothing is there twice"
        assert life.sure <= set(got) <= life.possible
    assert node.store.live_bytes == live


@settings(deadline=None, max_examples=150)
@given(actions=ACTIONS, dies_after=st.integers(1, 120))
def test_a_process_that_dies_at_any_moment(
    actions: list[tuple[str, str, bool]], dies_after: int
) -> None:
    with node_on_disk() as node:
        model: Model = {}
        node.steps_left = dies_after
        try:
            for number, (action, name, flag) in enumerate(actions):
                act(node, model, action, name, flag, b"%d" % number)
            node.run()
        except Died:
            pass
        node.catalog.close()
        node.steps_left = 1 << 30
        node.start()
        node.scheduler.run()
        check(node, model)
        # And after what happened it can be done all over.
        for name in NAMES:
            if node.catalog.lookup(name) is not None:
                node.catalog.delete(name)
        node.run()
        assert node.store.live_bytes == 0
        assert node.broker.fragment_count == 0
        node.catalog.create("red", QueueSpec())
        assert node.receive("red") == []
