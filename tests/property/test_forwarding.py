"""Forwarding between processes that may be killed at any step: exactly one copy, in order.

Messages go from a partitioned queue to another and on to a third, each process with a store of
its own. Every callback is a step of its own; in between processes are killed, with any part of
their appends durable, stores fail and heal, checkpoints are taken, and the entities change.
"""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from partibus.domain.entity import EntityStatus, QueueSpec
from partibus.domain.errors import BusError
from partibus.domain.partition_key import fragment_index
from partibus.fragment.commands import Demand, Detach, Enqueue, Outcome, Settle, SubQueueType
from partibus.fragment.message import Overlay
from partibus.message.envelope import to_stored
from partibus.testing.fragment import Inbox
from support.gateway.messages import in_session, keyed, plain
from support.relays import Relays

PROCESSES = 3
KEYS = ("red", "green", "blue")
SOURCE = QueueSpec(enable_partitioning=True, fragments=2, forward_to="middle")
MIDDLE = QueueSpec(enable_partitioning=True, fragments=2, forward_to="end")
END = QueueSpec(forward_dead_lettered_messages_to="grave", lock_duration_ms=5_000)
processes = st.integers(0, PROCESSES - 1)


class Told:
    """What a sender hears."""

    def __init__(self, confirmed: set[bytes], body: bytes) -> None:
        self._confirmed = confirmed
        self._body = body

    def confirmed(self, requests: Sequence[int], first: int, dropped: Sequence[int] = ()) -> None:
        self._confirmed.add(self._body)

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        """It is not known to be there."""

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        """Whatever became of it, the message is somewhere."""


class ForwardingModel(RuleBasedStateMachine):
    """Drives the processes; at the end everything must be where it belongs, once."""

    in_sessions = False
    """Whether the queues that forward require sessions; the keys are their ids then."""

    @initialize()
    def begin(self) -> None:
        self.relays = Relays(PROCESSES)
        for path in ("grave", "end", "middle", "source"):
            specs = {"end": END, "middle": self.spec("middle"), "source": self.spec("source")}
            self.relays.create(path, specs.get(path, QueueSpec()))
        self.relays.run()
        self.sent: dict[str | None, list[bytes]] = {}
        self.confirmed: set[bytes] = set()
        self.count = 0
        self.is_steady = True
        """Nothing was reconfigured or taken out, so all of it arrives at the end, in order."""

    def spec(self, path: str) -> QueueSpec:
        """A queue that forwards, as it is at first."""
        return replace(SOURCE if path == "source" else MIDDLE, requires_session=self.in_sessions)

    def payload(self, key: str | None) -> bytes:
        """The next message."""
        if self.in_sessions:
            return in_session(self.count, str(key), 4)
        return plain(self.count, 4) if key is None else keyed(self.count, key, 4)

    # --- what clients do ----------------------------------------------------------------------

    @rule(key=st.sampled_from((None, *KEYS)), count=st.integers(1, 3))
    def send(self, key: str | None, count: int) -> None:
        for _ in range(count):
            self.count += 1
            payload = self.payload(key)
            body = payload[-4:]
            message = to_stored(payload)
            index = self.count % 2 if key is None else fragment_index(key, 2)
            if self.in_sessions:
                index = fragment_index(str(key), 2)
            if not self.relays.owner("source", index).is_alive:
                continue
            self.sent.setdefault(key, []).append(body)
            command = Enqueue(Told(self.confirmed, body), [message], [1], len(message.body))
            self.relays.fragment("source", index).submit(command)

    @rule(steps=st.lists(processes, min_size=1, max_size=30))
    def steps(self, steps: list[int]) -> None:
        for number in steps:
            self.relays.processes[number].steps.step()

    @rule(delta_ms=st.sampled_from([10, 100, 600, 3_000, 6_000]))
    def time_passes(self, delta_ms: int) -> None:
        self.relays.clock.advance_ms(delta_ms)

    @rule(count=st.integers(1, 3))
    def dead_letter(self, count: int) -> None:
        if not self.relays.owner("end", 0).is_alive:
            return
        self.is_steady = False
        fragment = self.relays.fragment("end", 0)
        inbox = Inbox()
        consumer = fragment.consumer(inbox, SubQueueType.MAIN, False)
        fragment.submit(Demand(consumer, count, True))
        fragment.submit(Detach(consumer))
        for _ in range(4):
            self.relays.owner("end", 0).steps.step()
        tokens = [message.token for message in inbox.take()]
        overlay = Overlay(b"", "asked", "for")
        port = Told(set(), b"")
        fragment.submit(Settle(port, 0, SubQueueType.MAIN, tokens, Outcome.DEAD_LETTER, overlay))

    # --- what the world does ------------------------------------------------------------------

    @rule(number=processes, kept=st.integers(0, 3))
    def kill(self, number: int, kept: int) -> None:
        process = self.relays.processes[number]
        if process.is_alive:
            process.kill(kept)

    @rule(number=processes)
    def start(self, number: int) -> None:
        process = self.relays.processes[number]
        if not process.is_alive:
            process.start()

    @rule()
    def late_commands_arrive(self) -> None:
        self.relays.late_commands_arrive()

    @rule(number=processes)
    def checkpoint(self, number: int) -> None:
        process = self.relays.processes[number]
        if process.is_alive:
            process.broker._checkpoint()

    @rule(number=processes, fails=st.booleans())
    def store_changes(self, number: int, fails: bool) -> None:
        process = self.relays.processes[number]
        if process.is_alive and fails == (process.store.state.value == "up"):
            if fails:
                process.store.fail()
            else:
                process.store.heal()

    # --- what operators do --------------------------------------------------------------------

    @precondition(lambda self: self.count > 3)
    @rule(path=st.sampled_from(["source", "middle"]), goal=st.sampled_from(["middle", "end", ""]))
    def forward_elsewhere(self, path: str, goal: str) -> None:
        if goal != path:
            self.is_steady = False
            self.relays.update(path, replace(self.spec(path), forward_to=goal))

    @precondition(lambda self: self.count > 3)
    @rule(path=st.sampled_from(["middle", "end"]), is_open=st.booleans())
    def switch(self, path: str, is_open: bool) -> None:
        self.is_steady = False
        spec = self.relays.catalog.entity(path).queue
        status = EntityStatus.ACTIVE if is_open else EntityStatus.SEND_DISABLED
        self.relays.update(path, _with_status(spec, status))

    # --- the end ------------------------------------------------------------------------------

    def teardown(self) -> None:
        for process in self.relays.processes:
            if process.store.state.value != "up":
                process.store.heal()
        self.relays.settle_down()
        found = self.relays.everything()
        twice = [body for body, count in found.items() if count > 1]
        assert not twice
        assert self.confirmed <= set(found)
        assert set(found) <= {body for bodies in self.sent.values() for body in bodies}
        if self.is_steady:
            self.everything_arrived_in_order()

    def everything_arrived_in_order(self) -> None:
        arrived = self.relays.waiting("end", 0)
        assert self.confirmed <= set(arrived)
        for key in KEYS:
            mine = [body for body in arrived if body in self.sent.get(key, [])]
            assert mine == sorted(mine)


def _with_status(spec: QueueSpec, status: EntityStatus) -> QueueSpec:
    return replace(spec, status=status)


class SessionForwardingModel(ForwardingModel):
    """The same, through queues that require sessions (FWD-4)."""

    in_sessions = True


for model in (ForwardingModel, SessionForwardingModel):
    model.TestCase.settings = settings(
        max_examples=200,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
TestForwardingModel = ForwardingModel.TestCase
TestSessionForwardingModel = SessionForwardingModel.TestCase
