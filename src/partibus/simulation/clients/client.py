"""What all simulated clients share: a connection, patience, and a place in the ledger.

Owns the life of a client: it connects to some worker, works until something goes wrong, waits a
while and connects again, as programs with an SDK do. Behaviours are subclasses with a `behave`;
they use the project's own client, byte for byte.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from partibus.amqp.events import TransferReceived
from partibus.amqp.settings import ConnectionSettings
from partibus.client.connection import BusClient
from partibus.client.errors import RemoteError
from partibus.client.links import LinkOwner, ReceivedMessage, Receiver
from partibus.client.management import Management
from partibus.client.message import IncomingMessage, OutgoingMessage
from partibus.client.requests import open_request_links
from partibus.control.access.policies import ROOT_POLICY_NAME
from partibus.domain import conditions
from partibus.fragment.commands import Command
from partibus.simulation.ledger import Copy, Ledger, Letter
from partibus.simulation.net import Net
from partibus.simulation.world import START_MS, Violation, World

KEY = "SAS_KEY_VALUE"
IDLE_TIMEOUT_MS = 30_000
PATIENCE_S = 20.0
"""How long an operation may take before a client gives up on its connection."""
RETRY_S = 0.1
RETRY_S_MAX = 3.0
"""After each failed attempt to connect the wait doubles, up to this."""
UNCERTAIN = (
    conditions.MICROSOFT_TIMEOUT,
    conditions.INTERNAL_ERROR,
    conditions.MICROSOFT_OPERATION_CANCELLED,
)
"""Refusals that do not guarantee that nothing was done."""
FAILURES = (RemoteError, OSError, TimeoutError)
T = TypeVar("T")


@dataclass(slots=True)
class ClientEnvironment:
    """The environment of a client."""

    world: World
    net: Net
    ledger: Ledger
    fronts: list[str]
    """The processes that accept connections of clients."""
    entities: dict[str, list[str]]
    """By entity sent to, the places where each message comes out."""
    lock_us: int
    clocks_jump: bool
    revokes_sessions: bool
    """Whether the bus may take a session away: it does when it cannot read a message."""
    sets_aside: bool
    """Whether the bus may set a message aside until its process restarts: it does when it reads
    other bytes than it wrote."""
    keeps_time: bool
    """Whether the bus writes a message at the time at which it decides to deliver it."""
    submit: Callable[[int, Command], None]
    """Submits a command to the worker that runs a fragment, if it is up."""
    homes: dict[str, list[int]]
    """The fragments of each entity."""
    session_senders: list[str] = field(default_factory=list)
    """The names of session senders, which are prefixes of session names."""
    is_over: bool = False
    """The run is about to end: start nothing more."""

    def locked_us(self, payload: bytes, _: int) -> int:
        """When a message was locked, by its own timestamps; 0 if the clocks cannot be trusted."""
        until_ms = IncomingMessage(payload).locked_until_ms
        if until_ms is None or self.clocks_jump:
            return 0
        return (until_ms - START_MS) * 1000 - self.lock_us

    @property
    def known_places(self) -> list[str]:
        """Where messages come out, except those received in sessions."""
        places = [place for found in self.entities.values() for place in found]
        return [place for place in dict.fromkeys(places) if place != "sessions"]


@dataclass(slots=True)
class Answer:
    """Whether the bus did what was asked."""

    is_granted: bool = False


@contextmanager
def granted(link: LinkOwner | Management) -> Iterator[Answer]:
    """Ask for something over a link; a refusal is raised unless it guarantees that nothing was
    done."""
    answer = Answer()
    try:
        yield answer
    except RemoteError as error:
        is_usable = link.is_usable if isinstance(link, Management) else link.error is None
        if not is_usable or error.condition in UNCERTAIN:
            raise
    else:
        answer.is_granted = True


class SimulatedClient:
    """One simulated program."""

    kind = "client"
    is_leaving = False
    """Whether it has something left to do before a run may end."""

    def __init__(self, environment: ClientEnvironment, number: int) -> None:
        self.environment = environment
        self.ledger = environment.ledger
        self.world = environment.world
        self.name = f"{self.kind}-{number}"
        self.chance = environment.world.chance(self.name)
        self.violation: Violation | None = None
        self.unanswered = 0
        """Sends whose answer it awaits: until then the bus may still store what was sent."""
        self._tries = 0
        """Failed attempts to connect since the last success."""

    async def live(self) -> None:
        """Work until the end of the run."""
        await asyncio.sleep(self.chance.random() * 0.01)
        while not self.environment.is_over:
            try:
                await self._connected()
            except FAILURES as error:
                self.world.note(self.name, f"failed: {type(error).__name__}")
                self._tries += 1
                wait_s = min(RETRY_S_MAX, RETRY_S * 2**self._tries)
                await asyncio.sleep(0.01 + self.chance.random() * wait_s)
            except Violation as violation:
                self.violation = violation
                return

    async def _connected(self) -> None:
        settings = ConnectionSettings(
            container_id=self.name, hostname="bus", idle_timeout_ms=IDLE_TIMEOUT_MS
        )
        fronts = self.environment.fronts
        connecting = BusClient.connect(
            fronts[self.chance.randrange(len(fronts))],
            0,
            user=ROOT_POLICY_NAME,
            password=KEY,
            settings=settings,
            seconds_max=15.0,
        )
        async with connecting as bus:
            self._tries = 0
            await self.behave(bus)

    async def behave(self, bus: BusClient) -> None:
        """What this client does with a connection; it ends when it should be closed."""
        raise NotImplementedError

    # --- parts of behaviours ------------------------------------------------------------------

    def rounds(self, least: int, most: int) -> Iterator[None]:
        """Some turns of its work, as long as the run is not over."""
        for _ in range(self.chance.randrange(least, most)):
            if self.environment.is_over:
                return
            yield

    async def think(self, seconds: float = 0.02) -> None:
        """Pause for a while."""
        await asyncio.sleep(self.chance.random() * seconds)

    async def receiver(
        self, bus: BusClient, path: str, place: str, watched: "WatchedReceiver | None" = None
    ) -> "WatchedReceiver":
        """A receiver with locks whose messages are recorded as they arrive."""
        owner = watched or WatchedReceiver(self, bus, place, self.chance.choice((0, 1, 20)))
        owner.takes_dead_letters = path != place
        async with asyncio.timeout(PATIENCE_S):
            await bus.attach(
                owner,
                bus.engine.begin(),
                f"{self.name}.{self.world.now_us}",
                path,
                settled=owner.deletes,
                properties=owner.attach_properties,
                filters=owner.filters,
            )
        return owner

    async def management(self, bus: BusClient, path: str, link: str | None = None) -> Management:
        """The management node of an entity."""
        return Management(await open_request_links(bus, f"{path}/$management"), path, link)

    def write(self, entity: str, *, session: str = "", size: int | None = None) -> Letter:
        """A new message for an entity."""
        places = self.environment.entities[entity]
        length = self.chance.choice((0, 50, 400, 3000, 10_000)) if size is None else size
        return self.ledger.write(places, session=session, size=length)

    def message(self, letter: Letter) -> OutgoingMessage:
        """The message of a letter."""
        return OutgoingMessage(
            body=letter.body(),
            message_id=f"m{letter.number}",
            session_id=letter.session or None,
        )

    @asynccontextmanager
    async def answer(self) -> AsyncIterator[None]:
        """Await the answer of a send, as long as its patience lasts."""
        self.unanswered += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        finally:
            self.unanswered -= 1

    async def store(
        self, letters: Sequence[Letter], link: LinkOwner | Management, request: Awaitable[T]
    ) -> T | None:
        """Await the answer to a request that stores messages; None when the bus refused them."""
        found: T | None = None
        with granted(link) as answer:
            async with self.answer():
                found = await request
        for letter in letters:
            (self.ledger.accepted if answer.is_granted else self.ledger.refused)(letter)
        return found

    async def end(
        self, management: Management, letter: Letter, copy: Copy, request: Awaitable[object]
    ) -> bool:
        """End a copy by a request; returns whether it ended. Without an answer it is in doubt."""
        was_asked, copy.is_asked = copy.is_asked, True
        with granted(management) as answer:
            await request
        if answer.is_granted:
            self.ledger.done(letter, copy)
        else:
            copy.is_asked = was_asked
        return answer.is_granted


class WatchedReceiver(Receiver):
    """Reports every message to the ledger when its bytes arrive, not only when it is handled."""

    def __init__(
        self,
        client: SimulatedClient,
        bus: BusClient,
        place: str,
        prefetch: int,
        filters: dict[str, object] | None = None,
        attach_properties: dict[str, object] | None = None,
    ) -> None:
        super().__init__(bus.flush, prefetch)
        self.deletes = False
        """Whether delivered messages are gone (receive and delete)."""
        self.takes_dead_letters = False
        self.filters = filters
        self.attach_properties = attach_properties
        self._client = client
        self._place = place
        self._letters: dict[int, tuple[Letter, Copy]] = {}

    def take(self, event: TransferReceived) -> None:
        environment = self._client.environment
        letter, copy = environment.ledger.arrived(
            self._place, event.payload, environment.net.arriving_us
        )
        if letter.due_us and not environment.clocks_jump:
            environment.ledger.not_early(letter, 1_000)
        if letter.life_us and environment.keeps_time and not self.takes_dead_letters:
            environment.ledger.not_late(letter, environment.net.arriving_us)
        if letter.session and copy.arrivals == 1 and not environment.sets_aside:
            environment.ledger.in_order(letter, self._place)
        self._letters[event.delivery_id] = (letter, copy)
        if self.deletes:
            environment.ledger.done(letter, copy)
        super().take(event)

    def letter(self, message: ReceivedMessage) -> tuple[Letter, Copy]:
        """The ledger's letter of a message."""
        return self._letters[message.delivery_id]
