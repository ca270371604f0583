"""Clients that receive in sessions: a named one, or the next that is free.

Owns the hold of a session, from the attach that the bus grants until the client gives it up or
loses it, as the ledger must know it.
"""

import asyncio

from partibus.amqp.codec.types import Symbol, UInt
from partibus.client.connection import BusClient
from partibus.client.management import Management
from partibus.domain.annotations import LOCKED_UNTIL_PROPERTY, SESSION_FILTER, TIMEOUT_PROPERTY
from partibus.domain.moments import moment_of_ticks
from partibus.simulation.clients.client import PATIENCE_S, WatchedReceiver, granted
from partibus.simulation.clients.receiving import ReceivingClient
from partibus.simulation.ledger import Holder
from partibus.simulation.net import SimulatedTransport
from partibus.simulation.world import START_MS, Violation

WAIT_MS = 500


class SessionClient(ReceivingClient):
    """Holds a session for a while, and completes its messages in their order."""

    kind = "session-receiver"

    def wanted(self) -> str | None:
        """The session to ask for; None for the next that is free."""
        senders = self.environment.session_senders
        if senders and self.chance.random() < 0.3:
            return f"{self.chance.choice(senders)}.{self.chance.randrange(4)}"
        return None

    async def behave(self, bus: BusClient) -> None:
        receiver = SessionReceiver(self, bus, self.wanted())
        try:
            await self.receiver(bus, "sessions", "sessions", receiver)
            assert receiver.link is not None
            management = await self.management(bus, "sessions", receiver.link.name)
            for _ in self.rounds(1, 12):
                await self._look_after(management, receiver.session)
                for message in await self.some(receiver):
                    await self.settle_somehow(receiver, message)
            receiver.give_up()
            async with asyncio.timeout(PATIENCE_S):
                await receiver.close()
        finally:
            receiver.give_up()

    async def _look_after(self, management: Management, session: str) -> None:
        """Renew the lock, or read or write the state; nothing without the lock."""
        roll = self.chance.random()
        states = self.ledger.states.setdefault(session, [None])
        with granted(management):
            if roll < 0.15:
                await management.renew_session_lock(session)
            elif roll < 0.30:
                value = f"{self.name} {self.world.now_us}".encode()
                states.append(value)
                await management.set_session_state(session, value)
                self.ledger.states[session] = [value]
            elif roll < 0.45:
                found = await management.session_state(session)
                if found not in states:
                    raise Violation(f"session {session} has the state {found!r}, none of {states}")


class CompetingSessionClient(SessionClient):
    """Asks for sessions that others hold, like a program that was started twice."""

    kind = "session-rival"

    def wanted(self) -> str | None:
        held = self.ledger.held_sessions("sessions")
        return self.chance.choice(held) if held else super().wanted()


class SessionReceiver(WatchedReceiver):
    """A receiver that holds a session, as the ledger knows."""

    def __init__(self, client: ReceivingClient, bus: BusClient, wanted: str | None) -> None:
        filters: dict[str, object] = {Symbol(SESSION_FILTER): wanted}
        properties: dict[str, object] = {Symbol(TIMEOUT_PROPERTY): UInt(WAIT_MS)}
        prefetch = client.chance.choice((0, 5))
        super().__init__(client, bus, "sessions", prefetch, filters, properties)
        self._bus = bus
        self._owner = client
        self._holder: Holder | None = None
        self.session = ""
        """Which one it holds."""

    def attached(self, link: object) -> None:
        super().attached(link)  # type: ignore[arg-type]
        assert self.link is not None and self.link.source is not None
        session = self.session = str(self.link.source.filters.get(SESSION_FILTER))
        environment = self._owner.environment
        ticks = self.link.properties.get(LOCKED_UNTIL_PROPERTY)
        assert isinstance(ticks, int)
        until_ms = moment_of_ticks(ticks) - START_MS
        until_us = 0 if environment.clocks_jump or environment.revokes_sessions else until_ms * 1000
        self._holder = environment.ledger.holds(
            "sessions", session, self._owner.name, environment.net.arriving_us, until_us
        )
        transport = self._bus._transport
        assert isinstance(transport, SimulatedTransport)
        self._holder.connection = transport.connection

    def give_up(self) -> None:
        """From now on another client may have the session."""
        if self._holder is not None:
            now_us = self._owner.world.now_us
            self._holder.until_us = min(self._holder.until_us, now_us)
