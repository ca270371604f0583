"""One run of the simulator, from its plan to its verdict.

Owns the order: entities, processes and clients are created; steps are taken, faults are injected
and checks are made; then every fault ends, and everything that was accepted has to drain.
"""

import asyncio
import contextlib
import gc
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from partibus.control.access.policies import ensure_root_policy
from partibus.control.catalog.catalog import Catalog
from partibus.fragment.commands import Command
from partibus.simulation import contents
from partibus.simulation.clients.client import ClientEnvironment, SimulatedClient
from partibus.simulation.clients.draining import Drain
from partibus.simulation.clients.kinds import KINDS
from partibus.simulation.clock import SimulatedClock
from partibus.simulation.disk import SimulatedDisk
from partibus.simulation.entities import fragments_of, make_entities
from partibus.simulation.event_loop import make_loop
from partibus.simulation.fault_injection import Injector, check
from partibus.simulation.injecting import Injecting
from partibus.simulation.ledger import Ledger, Totals
from partibus.simulation.net import Net
from partibus.simulation.plan import Plan
from partibus.simulation.process import Host, ServerProcess, SimulatedProcess
from partibus.simulation.seams import simulated, standing_in
from partibus.simulation.threads import Threads
from partibus.simulation.world import Violation, World

if TYPE_CHECKING:
    from partibus.simulation.cluster.building import SimulatedCluster

LOOK_STEPS = 40
"""How often the bus is checked."""
DRAIN_US_MAX = 600_000_000
"""Everything must have drained this long after the last fault."""
DRAIN_STEPS_MAX = 400_000
COMPANIONS = {
    "mover": "feeder",
    "claimer": "claim-feeder",
    "deleter": "fleeting-sender",
    "mortal-sender": "slow-receiver",
}
"""Which behaviours need each other: senders for receivers, and receivers for senders."""
TIME_FAULTS = {
    "clock jump",
    "clock drift",
    "pause",
    "long pause",
    "read error",
    "slow disk",
    "uncached reads",
}
"""With these it is unknown when the bus decided to do something."""
CLOCK_FAULTS = {"clock jump", "clock drift", "node clock"}
LAST_ANSWERS_US = 3_000_000
LEAVING_US_MAX = 90_000_000


@dataclass(slots=True)
class Verdict:
    """The result of a run."""

    plan: Plan
    steps: int
    trace_hash: str
    violation: str | None
    totals: Totals
    faults: list[tuple[int, int, str]] = field(default_factory=list)
    events: list[tuple[int, int, str, str]] = field(default_factory=list)


class Simulation:
    """A world and everything in it."""

    def __init__(self, plan: Plan, *, keeps_events: bool = False) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        if keeps_events:
            self.world.events = []
        self.net = Net(self.world)
        self.threads = Threads(self.world)
        self.ledger = Ledger(self.world)
        self.processes: Sequence[ServerProcess] = []
        self._bounds = contents.Bounds()
        self._cluster: SimulatedCluster | None = None
        self._stands = contextlib.ExitStack()
        """Replacements in the product's modules for a cluster."""

    def run(self) -> Verdict:
        """Take all steps, heal, drain, and check."""
        logging.disable(logging.CRITICAL)
        gc.disable()  # a collection during a run would end objects that the run has to end
        violation: str | None = None
        try:
            with simulated(self.world, self.threads), self._stands:
                try:
                    self._build()
                    self._work()
                    self._heal()
                except Violation as found:
                    violation = str(found)
                finally:
                    self._end()
        finally:
            gc.enable()
            logging.disable(logging.NOTSET)
        world = self.world
        return Verdict(
            self.plan,
            world.steps,
            world.trace_hash,
            violation,
            self.ledger.totals,
            self._injector.done,
            world.events or [],
        )

    # --- the parts ----------------------------------------------------------------------------

    def _build(self) -> None:
        plan, world = self.plan, self.world
        self._catalog = Catalog(stores=plan.stores, clock=SimulatedClock(world))
        ensure_root_policy(self._catalog, loopback_only=True)
        entities = make_entities(self._catalog, plan)
        if plan.nodes:
            self._build_cluster()
        else:
            self._build_workers()
        self._loop = make_loop(world, self.net, "clients")
        self._environment = ClientEnvironment(
            world,
            self.net,
            self.ledger,
            [process.name for process in self.processes],
            entities,
            plan.lock_ms * 1000,
            not CLOCK_FAULTS.isdisjoint(plan.faults),
            "read error" in plan.faults,
            "flipped read" in plan.faults,
            len(self.processes) == 1 and TIME_FAULTS.isdisjoint(plan.faults),
            self._submit,
            fragments_of(self._catalog),
        )
        if plan.nodes:
            # A node may deliver what its successor has settled, until it learns of that.
            self.ledger.decided_us = _before_all
        elif plan.workers > 1:
            # A worker may keep a message for a while that another one has passed to it.
            self.ledger.decided_us = self._environment.locked_us
        self._clients: list[SimulatedClient] = []
        for process in self.processes:
            process.start()
        self._warm_up()
        self._loop.run(self._make_clients)

    def _build_workers(self) -> None:
        """The processes of one server, with their disks."""
        plan, world = self.plan, self.world
        host = Host(world, self.net, self.threads, self._catalog, plan)
        disks: dict[int, SimulatedDisk] = {}
        for number in range(plan.stores):
            name = f"store-{number}"
            disk = disks[number] = SimulatedDisk(name, self.threads, world.chance(name))
            disk.on_fault = partial(world.note, name)
        processes = [SimulatedProcess(host, disks, n) for n in range(plan.workers)]
        by_name = {process.name: process for process in processes}
        self.threads.has_crashed = lambda name: by_name[name].has_crashed
        self._injector: Injecting = Injector(world, self.net, plan, processes)
        self.processes = processes

    def _build_cluster(self) -> None:
        """The nodes of a cluster, with their databases."""
        from partibus.simulation.cluster.building import SimulatedCluster

        cluster = SimulatedCluster(self.world, self.net, self.threads, self._catalog, self.plan)
        self._stands.enter_context(standing_in(cluster.stand_ins))
        self._cluster = cluster
        self._injector = cluster.injector
        self.processes = cluster.nodes

    def _warm_up(self) -> None:
        """Wait until all workers have found each other: a bus that never starts shows nothing."""
        names = [process.name for process in self.processes]
        while not all(self.net.is_listening(name) for name in names):
            self.world.step()
            check(self.world)

    def _make_clients(self) -> None:
        for number, kind in enumerate(self.plan.clients):
            if number in self.plan.without_clients:
                continue
            client = KINDS[kind](self._environment, number)
            if kind == "session-sender":
                self._environment.session_senders.append(client.name)
            self._clients.append(client)
            self._loop.create_task(client.live())
            if kind in COMPANIONS:
                companion = KINDS[COMPANIONS[kind]](self._environment, number)
                self._clients.append(companion)
                self._loop.create_task(companion.live())

    def _submit(self, fragment_id: int, command: Command) -> None:
        """A command that reaches no process is never answered."""
        for process in self.processes:
            if process.is_up and fragment_id in process.machines:
                process.submit(fragment_id, command)
                return

    # --- the run ------------------------------------------------------------------------------

    def _work(self) -> None:
        world, plan = self.world, self.plan
        end = world.steps + plan.steps
        fault_at = world.steps + plan.fault_gap if plan.faults else end + 1
        checkpoint_at = plan.checkpoint_gap
        while world.steps < end and not world.is_over:
            world.step()
            if world.faults:
                check(world)
            if world.steps >= fault_at:
                fault_at = world.steps + self._injector.inject()
            if world.steps >= checkpoint_at:
                checkpoint_at += plan.checkpoint_gap
                self._checkpoint()
            if not world.steps % LOOK_STEPS:
                self._look()

    def _checkpoint(self) -> None:
        for process in self.processes:
            if process.is_up:
                process.checkpoint()

    def _look(self) -> None:
        for client in self._clients:
            if client.violation is not None:
                raise client.violation
        for process in self.processes:
            if process.is_up:
                contents.check_contents(process)
                self._bounds.check(process)
        if self._cluster is not None:
            self._cluster.check()

    def _heal(self) -> None:
        self.world.note("world", "heals")
        self._environment.is_over = True
        self._injector.heal()
        self._drain()
        self.ledger.close()
        self._checkpoint()
        self._see_everybody_off()
        for process in self.processes:
            contents.check_room(process, self.plan.segment_bytes)

    def _drain(self) -> None:
        """Receive everything that is left, until nothing more comes."""
        world, drain = self.world, self._new_drain()
        self._loop.run(drain.begin, self._loop)
        end_us = world.now_us + DRAIN_US_MAX
        end_steps = world.steps + DRAIN_STEPS_MAX
        self._listen_on()
        while not drain.is_empty() or any(map(_has_business, self._clients)):
            for _ in range(LOOK_STEPS):
                world.step()
                check(world)
            self._look()
            if drain.violation is not None:
                raise drain.violation
            if world.now_us > end_us or world.steps > end_steps:
                raise Violation(f"the bus does not drain: {drain.left()}")
            if drain.is_empty():  # what was in transit when it first was may still arrive
                self._listen_on()
        drain.end()

    def _new_drain(self) -> Drain:
        drain = Drain(self._environment, self.processes)
        if self._cluster is not None:
            drain.unserved = self._cluster.unserved
        return drain

    def _see_everybody_off(self) -> None:
        """Everybody leaves; what was kept for them is released, at the latest when a silent
        connection is given up. A message whose sender was gone before it was answered may be
        stored only now; it is received like any other."""
        self.net.part()
        end_us = self.world.now_us + LEAVING_US_MAX
        self._listen_on()
        while left := "; ".join(filter(None, map(contents.leftovers, self.processes))):
            if self.world.now_us > end_us:
                raise Violation(f"everything is settled, everybody has left, and {left}")
            if self._new_drain().left():
                self._drain()
                self.net.part()
            self._listen_on()

    def _listen_on(self) -> None:
        """The bus is empty; its last answers are in transit."""
        end_us = self.world.now_us + LAST_ANSWERS_US
        while self.world.now_us < end_us:
            self.world.step()
            check(self.world)
        self._look()

    def _end(self) -> None:
        for process in self.processes:
            process.die(is_silent=True)
        self._loop.die()
        self.threads.kill_all()
        self._catalog.close()
        _end_programs(self.world.graveyard)
        self.world.forget()
        self.net.connections.clear()


def _end_programs(graveyard: list[object]) -> None:
    """Programs that never end are cancelled wherever they are."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        for left in graveyard:
            if isinstance(left, asyncio.Task) and not left.done():
                with contextlib.suppress(BaseException):
                    left.get_coro().close()
    finally:
        sys.unraisablehook = hook


def _has_business(client: SimulatedClient) -> bool:
    """Whether the bus owes it an answer, or it has something to do yet."""
    return client.is_leaving or client.unanswered > 0


def _before_all(payload: bytes, written_us: int) -> int:
    """It is unknown when a message was chosen."""
    return 0


def run_plan(plan: Plan, *, keeps_events: bool = False) -> Verdict:
    """Run it."""
    assert asyncio._get_running_loop() is None, "the simulator brings its own loops"
    return Simulation(plan, keeps_events=keeps_events).run()
