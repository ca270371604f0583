"""The end of a run: everything left is received and completed, wherever it is.

Owns the receivers that empty every subqueue of every entity, including deferred messages, and the
check whether anything is left, made on the machines themselves.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from partibus.client.connection import BusClient
from partibus.simulation.clients.client import ClientEnvironment, SimulatedClient
from partibus.simulation.clients.in_sessions import SessionReceiver
from partibus.simulation.clients.receiving import DeferringClient, ReceivingClient
from partibus.simulation.event_loop import SimulatedLoop
from partibus.simulation.process import ServerProcess
from partibus.simulation.world import Violation

UNDELIVERED = (
    ("target", "hop/$deadletterqueue"),
    ("target", "hop/$transfer/$deadletterqueue"),
    ("target", "staged/$transfer/$deadletterqueue"),
    ("moves-out", "moves-in/$transfer/$deadletterqueue"),
)


class DrainerBase(SimulatedClient):
    """Goes on when the others stop."""

    async def live(self) -> None:
        self.environment = replace(self.environment, is_over=False)
        await super().live()


class DrainingClient(DrainerBase, ReceivingClient):
    """Receives from one place forever, and completes everything."""

    kind = "drain"
    place = ""
    path = ""

    async def behave(self, bus: BusClient) -> None:
        receiver = await self.receiver(bus, self.path, self.place)
        while True:
            async with asyncio.timeout(60.0):
                messages = await receiver.receive(20)
            for message in messages:
                await self.complete(receiver, message)


class DrainingSessions(DrainerBase, ReceivingClient):
    """Takes one session after the other and empties it."""

    kind = "drain-sessions"

    async def behave(self, bus: BusClient) -> None:
        while True:
            receiver = SessionReceiver(self, bus, None)
            await self.receiver(bus, "sessions", "sessions", receiver)
            while messages := await receiver.collect(20):
                for message in messages:
                    await self.complete(receiver, message)
            receiver.give_up()
            await receiver.close()


class DrainingDeferred(DrainerBase, DeferringClient):
    """Looks for deferred messages and receives them."""

    kind = "drain-deferred"

    async def behave(self, bus: BusClient) -> None:
        management = await self.management(bus, "plain")
        while True:
            peeked = await management.peek(0, 200)
            self._numbers = [m.sequence_number for m in peeked if m.state == "deferred"]
            while self._numbers:
                await self.take_deferred(management)
            await asyncio.sleep(1.0)


class Drain:
    """All clients that empty the bus."""

    def __init__(self, environment: ClientEnvironment, processes: Sequence[ServerProcess]) -> None:
        self._environment = environment
        self._processes = processes
        self.unserved: Callable[[], str] = str
        """What is not served; empty when everything is served."""
        self._clients: list[SimulatedClient] = []

    def begin(self, loop: SimulatedLoop) -> None:
        """Empty every subqueue at once."""
        pairs = [("sessions", "sessions/$deadletterqueue")]
        for place in self._environment.known_places:
            pairs += [(place, place), (place, f"{place}/$deadletterqueue")]
        pairs += UNDELIVERED  # messages that could not be read are left there
        for number, (place, path) in enumerate(pairs, 1000):
            client = DrainingClient(self._environment, number)
            client.place, client.path = place, path
            self._clients.append(client)
        self._clients.append(DrainingSessions(self._environment, 1998))
        self._clients.append(DrainingDeferred(self._environment, 1999))
        for each in self._clients:
            loop.create_task(each.live())

    def end(self) -> None:
        """Prevent further connections."""
        for each in self._clients:
            each.environment.is_over = True

    @property
    def violation(self) -> Violation | None:
        """A violation that one of them has found."""
        return next((c.violation for c in self._clients if c.violation is not None), None)

    def is_empty(self) -> bool:
        """Whether nothing is left, in any process, and all of them run."""
        if not all(process.is_up for process in self._processes) or self.unserved():
            return False
        at_rest = all(b.is_at_rest for p in self._processes for b in p.brokers.values())
        return at_rest and not self.left()

    def left(self) -> str:
        """What is left, by fragment."""
        found = [self.unserved()] if self.unserved() else []
        for process in self._processes:
            for number, machine in process.machines.items():
                counts = machine.state.counts()
                rest = (
                    counts.active
                    + counts.dead_letter
                    + counts.transfer_dead_letter
                    + counts.transfer
                    + counts.scheduled
                    + counts.deferred
                    + counts.staged
                )
                if rest:
                    found.append(f"{machine.state.spec.path} ({number}): {counts}")
            if not process.is_up:
                found.append(f"{process.name} is down")
        return "; ".join(found)
