"""Several processes in one test, taken step by step and killed at any of them.

Owns a namespace over a few processes with a store each: every callback of every process is
one step, taken when the test says so. A process that is killed forgets all that it had not made
durable; its appends under way may have reached the store all the same, its commands may still
arrive elsewhere, and those who wait for its answers hear that the outcome is not known.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from partibus.control.catalog.catalog import Catalog
from partibus.control.catalog.record import EntityRecord
from partibus.domain.entity import QueueSpec
from partibus.domain.errors import BusError, OperationTimeout, StoreUnavailable
from partibus.forwarding.couriers import Couriers
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Command, SubQueueType
from partibus.fragment.handle import LocalFragment
from partibus.fragment.message import Held
from partibus.gateway.namespace import Namespace
from partibus.server.fragment_specs import fragment_spec
from partibus.store.interface import StoreState
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock


class Timer:
    """A timer that can be called off."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Steps:
    """A scheduler that runs one callback at a time."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, Timer]] = []
        self._count = 0

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        timer = Timer(callback)
        self._count += 1
        heappush(self._timers, (self._clock.now_ms() + delay_ms, self._count, timer))
        return timer

    def step(self) -> bool:
        """Run the next callback that is due; False when there is none."""
        while self._timers and self._timers[0][0] <= self._clock.now_ms():
            callback = heappop(self._timers)[2].callback
            if callback is not None:
                self._soon.append(callback)
        if not self._soon:
            return False
        self._soon.popleft()()
        return True

    def clear(self) -> None:
        self._soon.clear()
        self._timers.clear()


class FarPort:
    """Carries the one answer of a command back to the process that asked, if it still lives."""

    def __init__(self, asker: "Process", asked: "Process", command: Any) -> None:
        self._asker = asker
        self._asked = asked
        self._port = command.port
        self._incarnation = asker.incarnation
        self._command = command
        asked.open_requests.append(self)

    def _tell(self, tell: Callable[[], None]) -> None:
        if self in self._asked.open_requests:
            self._asked.open_requests.remove(self)
            if self._asker.incarnation == self._incarnation:
                self._asker.steps.call_soon(tell)

    def confirmed(self, requests: Sequence[int], first: int, dropped: Sequence[int] = ()) -> None:
        self._tell(lambda: self._port.confirmed(requests, first, dropped))

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self._tell(lambda: self._port.refused(requests, error))

    def done(self, count: int) -> None:
        self._tell(lambda: self._port.done(count))

    def failed(self, error: BusError) -> None:
        self._tell(lambda: self._port.failed(error))

    def lose(self) -> None:
        """The process that was asked is gone."""
        self._command.port = self._port
        self._tell(lambda: self._command.refuse(OperationTimeout()))


class FarFragment:
    """A fragment of another process."""

    def __init__(self, asker: "Process", asked: "Process", fragment_id: int, index: int) -> None:
        self._asker = asker
        self._asked = asked
        self.fragment_id = fragment_id
        self.index = index
        self.is_available = True
        self.obstacle = ""

    def submit(self, command: Command) -> None:
        asked: Any = command
        if not self._asked.is_alive:
            self._asker.steps.call_soon(lambda: asked.refuse(StoreUnavailable()))
            return
        asked.port = FarPort(self._asker, self._asked, asked)
        incarnation = self._asked.incarnation

        def arrive() -> None:
            if self._asked.incarnation == incarnation:
                self._asked.fragments[self.fragment_id].submit(command)

        under_way = self._asker.under_way

        def carry() -> None:
            if arrive in under_way:
                under_way.remove(arrive)
                arrive()

        under_way.append(arrive)
        self._asked.steps.call_soon(carry)


class Process:
    """One process with one store."""

    def __init__(self, relays: "Relays") -> None:
        self._relays = relays
        self.steps = Steps(relays.clock)
        self.store = MemoryStore(notify=self.steps.call_soon, replayable=True)
        self.incarnation = 0
        self.is_alive = False
        self.open_requests: list[FarPort] = []
        self.under_way: list[Callable[[], None]] = []
        """Commands to others that have not arrived."""
        self.fragments: dict[int, LocalFragment] = {}

    def start(self) -> None:
        self.incarnation += 1
        self.is_alive = True
        self.broker = Broker(self.store, self._relays.clock, self.steps)
        self.broker.open()
        self.namespace = Namespace(self._relays.catalog)
        failures = self._relays.forward_failures
        self.couriers = Couriers(self.namespace, self.steps, failures)
        self.fragments = {}
        for record in self._relays.catalog.entities():
            self.serve(record)

    def serve(self, record: EntityRecord) -> None:
        spec = fragment_spec(record, self._relays.catalog)
        for index, placement in enumerate(record.fragments):
            fragment_id, owner = placement.fragment_id, self._relays.processes[placement.store]
            if owner is not self:
                self.namespace.put_fragment(FarFragment(self, owner, fragment_id, index))
                continue
            fragment = LocalFragment(self.broker, self.broker.add(fragment_id, spec), index)
            self.fragments[fragment_id] = fragment
            self.namespace.put_fragment(fragment)
            self.couriers.put(fragment, record)

    def follow(self, record: EntityRecord) -> None:
        if self.is_alive:
            for placement in record.fragments:
                if placement.fragment_id in self.fragments:
                    state = self.fragments[placement.fragment_id].machine.state
                    state.spec = fragment_spec(record, self._relays.catalog)
            self.couriers.changed(record)

    def kill(self, appends_kept: int) -> None:
        """The power goes; the first of the appends under way have reached the disk."""
        is_up = self.store.state is StoreState.UP
        kept = self.store._waiting[:appends_kept] if is_up else []
        self.store._log += kept
        if kept:
            self.store._acknowledged = kept[-1].end
        # A store that heals later must not tell the dead what became of their appends.
        self.store._waiting.clear()
        self.store.on_state = None
        self._relays.late += self.under_way
        self.under_way.clear()
        self.steps.clear()
        self.is_alive = False
        self.incarnation += 1
        lost, self.open_requests = self.open_requests, []
        for port in lost:
            self.open_requests.append(port)
            port.lose()


class Relays:
    """The processes and their namespace."""

    def __init__(
        self, process_count: int, forward_failures: SubQueueType = SubQueueType.DEAD_LETTER
    ) -> None:
        self.forward_failures = forward_failures
        self.clock = ManualClock()
        self.catalog = Catalog(stores=process_count, clock=self.clock)
        self.late: list[Callable[[], None]] = []
        """Commands of processes that are no more, which still arrive some time."""
        self.processes = [Process(self) for _ in range(process_count)]
        for process in self.processes:
            process.start()

    def create(self, path: str, spec: QueueSpec) -> EntityRecord:
        record = self.catalog.create(path, spec)
        for process in self.processes:
            if process.is_alive:
                process.serve(record)
        return record

    def update(self, path: str, spec: QueueSpec) -> None:
        record = self.catalog.update(path, spec)
        for process in self.processes:
            process.follow(record)

    def settle_down(self) -> None:
        """Everything is up, and everything happens that can."""
        for process in self.processes:
            if not process.is_alive:
                process.start()
        self.late_commands_arrive()
        for _ in range(40):
            self.run()
            self.clock.advance_ms(2500)
        self.run()

    def late_commands_arrive(self) -> None:
        """What processes said before they were killed is heard now."""
        late, self.late = self.late, []
        for arrive in late:
            arrive()

    def run(self) -> None:
        """Take turns until nothing is due."""
        is_moving = True
        while is_moving:
            is_moving = sum([process.steps.step() for process in self.processes]) > 0

    # --- looking ------------------------------------------------------------------------------

    def fragment(self, path: str, index: int) -> LocalFragment:
        placement = self.catalog.entity(path).fragments[index]
        return self.processes[placement.store].fragments[placement.fragment_id]

    def owner(self, path: str, index: int) -> Process:
        return self.processes[self.catalog.entity(path).fragments[index].store]

    def everything(self) -> Counter[bytes]:
        """The last four bytes of every message, wherever it is."""
        found: Counter[bytes] = Counter()
        for process in self.processes:
            for fragment in process.fragments.values():
                state = fragment.machine.state
                held: list[Held] = [parcel.held for parcel in state.outbox.copies(0)]
                for subqueue in state.subqueues:
                    held += subqueue.ready.copies(0)
                    held += [*subqueue.deferred.copies(0), *subqueue.locks.values()]
                    held += subqueue.leaving.values()
                found.update(self.tails(process, held))
        return found

    def tails(self, process: Process, held: Sequence[Held]) -> list[bytes]:
        bodies = process.store.read_now([(one.position, one.length) for one in held])
        assert bodies is not None
        return [body[-4:] for body in bodies]

    def waiting(
        self, path: str, index: int, subqueue: SubQueueType = SubQueueType.MAIN
    ) -> list[bytes]:
        """What waits in one subqueue of a fragment, in order."""
        state = self.fragment(path, index).machine.state
        held = list(state.subqueues[subqueue].ready.copies(0))
        return self.tails(self.owner(path, index), held)
