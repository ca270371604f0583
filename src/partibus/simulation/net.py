"""The network: connections between simulated processes and clients.

Owns every connection of a world, and what may happen to one: bytes arrive late, split anywhere, or
never; an end is notified of the other's death, later or not at all. Bytes that do arrive are in
order and intact, as TCP guarantees. Knows no protocol.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from partibus.simulation.world import World

if TYPE_CHECKING:
    from partibus.simulation.event_loop import SimulatedLoop

PEERS = "peer:"
"""The prefix of the addresses at which nodes reach each other."""
LATENCY_US_MIN = 50
LATENCY_US_MAX = 1500
UNREACHABLE_S = 5.0
"""How long it takes to notice that a process is unreachable."""
HANDSHAKE_WRITES = 2
"""How many first writes of a client are kept, to arrive again: they only greet."""
SPLIT_SHARE = 0.15
"""How often bytes that were written at once arrive in two pieces."""


class Net:
    """All connections."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.arriving_us = 0
        """When the bytes that are being delivered now were written."""
        self.connections: dict[Connection, None] = {}
        self.peers_broken_us = -1
        """When a connection between workers was last lost, or one of them did not answer."""
        self.latency_us = LATENCY_US_MAX
        self._listeners: dict[str, tuple[SimulatedLoop, Callable[[], asyncio.Protocol]]] = {}
        self._chance = world.chance("net")
        self._cuts: dict[frozenset[str], int] = {}
        """Pairs of processes that cannot reach each other, and until when."""

    def listen(
        self, loop: "SimulatedLoop", factory: Callable[[], asyncio.Protocol], place: str
    ) -> "Listening":
        """Accept connections at an address."""
        self._listeners[place] = (loop, factory)
        return Listening(self, place)

    def is_listening(self, place: str) -> bool:
        """Whether connections are accepted there."""
        return place in self._listeners

    def close(self, place: str) -> None:
        """Accept no more connections."""
        self._listeners.pop(place, None)

    async def connect(
        self, loop: "SimulatedLoop", factory: Callable[[], asyncio.Protocol], place: str
    ) -> tuple["SimulatedTransport", asyncio.Protocol]:
        """A connection to an address; OSError when nothing listens there."""
        await asyncio.sleep(self.delay_us() / 1_000_000)
        found = self._listeners.get(place)
        if found is None or not found[0].is_alive:
            raise ConnectionRefusedError(f"nobody listens at {place}")
        if self._is_cut(loop.name, found[0].name):
            await asyncio.sleep(UNREACHABLE_S)
            raise ConnectionError(f"{place} does not answer")
        connection = Connection(self, place, loop, found[0])
        near, far = connection.ends
        self.world.after(self.delay_us(), found[0].run, far.begin, found[1]())
        protocol = factory()
        near.begin(protocol)
        return near, protocol

    def peers_break(self, until_us: int) -> None:
        """What depends on a connection that began before this time may be held by others too."""
        self.peers_broken_us = max(self.peers_broken_us, until_us)

    def take_leave(self, loop: "SimulatedLoop") -> None:
        """What depends on the connections of clients to a process may be gone from now on."""
        for connection in self.connections:
            is_of_it = any(end.loop is loop for end in connection.ends)
            if is_of_it and not connection.is_between_workers:
                connection.note_break()

    def cut(self, one: str, other: str, length_us: int) -> None:
        """Cut two processes off from each other for a while."""
        self._cuts[frozenset((one, other))] = self.world.now_us + length_us
        for connection in list(self.connections):
            if {end.loop.name for end in connection.ends} == {one, other}:
                connection.break_off(is_silent=True)

    def _is_cut(self, one: str, other: str) -> bool:
        return self._cuts.get(frozenset((one, other)), 0) > self.world.now_us

    def heal(self) -> None:
        """End all cuts."""
        self._cuts.clear()

    def duplicate(self, connection: "Connection", length: int) -> bool:
        """Let the beginning of a connection arrive again, as another one without a near end; False
        when nothing listens there."""
        found = self._listeners.get(connection.place)
        if found is None or not found[0].is_alive:
            return False
        ghost = Connection(self, connection.place, connection.ends[0].loop, found[0])
        near, far = ghost.ends
        self.world.after(self.delay_us(), found[0].run, far.begin, found[1]())
        near.begin(asyncio.Protocol())
        near.write(bytes(connection.greeting[:length]))
        return True

    def delay_us(self) -> int:
        """How long something is in transit."""
        return LATENCY_US_MIN + int(self._chance.random() * self.latency_us)

    def splits(self, length: int) -> int:
        """Where bytes that were written at once are split; 0 when they are not."""
        if length < 2 or self._chance.random() >= SPLIT_SHARE:
            return 0
        return self._chance.randrange(1, length)

    def go_on(self, loop: "SimulatedLoop") -> None:
        """A process continues early: what arrived meanwhile is delivered."""
        loop.go_on()
        for connection in list(self.connections):
            for end in connection.ends:
                if end.loop is loop:
                    loop.run(end.go_on)

    def part(self) -> None:
        """Disconnect every client."""
        for connection in list(self.connections):
            if not connection.is_between_workers:
                connection.break_off(is_silent=False)

    def process_died(self, loop: "SimulatedLoop", is_silent: bool) -> None:
        """The other ends of its connections are notified after a while, or never; those of its
        peers always, since the kernel that they share closes its sockets."""
        for connection in list(self.connections):
            for end in connection.ends:
                if end.loop is loop:
                    connection.break_off(is_silent and not connection.is_on_one_machine)


class Listening:
    """What asyncio calls a server."""

    def __init__(self, net: Net, place: str) -> None:
        self._net = net
        self._place = place

    def close(self) -> None:
        self._net.close(self._place)


class Connection:
    """Two ends."""

    def __init__(self, net: Net, place: str, near: "SimulatedLoop", far: "SimulatedLoop") -> None:
        self.net = net
        self.place = place
        self.is_broken = False
        """Nothing gets through any more."""
        self.is_on_one_machine = place.startswith("/")
        """Over a socket of the machine that the workers share."""
        self.is_between_workers = self.is_on_one_machine or place.startswith(PEERS)
        self._began_us = net.world.now_us
        self._broken_us: int | None = None
        self.stalled_until_us = 0
        self.greeting = bytearray()
        """The first bytes of the near end."""
        self._greetings = 0
        self.ends = (SimulatedTransport(self, near), SimulatedTransport(self, far))
        self.ends[0].other, self.ends[1].other = self.ends[1], self.ends[0]
        net.connections[self] = None

    def break_off(self, is_silent: bool) -> None:
        """Lose what is in transit; with `is_silent` neither end is notified."""
        self.is_broken = True
        self.note_break()
        if is_silent:
            return
        for end in self.ends:
            self.net.world.after(self.net.delay_us(), end.end)

    def greet(self, data: bytes) -> None:
        """The near end writes: the first bytes are kept."""
        if self._greetings < HANDSHAKE_WRITES:
            self._greetings += 1
            self.greeting += data

    def note_break(self) -> None:
        """From now on what depends on the connection may be gone."""
        if self._broken_us is None:
            self._broken_us = self.net.world.now_us
        if self.is_between_workers:
            self.net.peers_break(self.net.world.now_us)

    @property
    def broken_us(self) -> int | None:
        """When it broke; a break between workers breaks what depended on it since before."""
        if self._broken_us is not None:
            return self._broken_us
        return self._began_us if self.net.peers_broken_us >= self._began_us else None

    def forget(self) -> None:
        """Both ends are gone."""
        if all(end.is_over for end in self.ends):
            self.net.connections.pop(self, None)


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    other: "SimulatedTransport"

    def __init__(self, connection: Connection, loop: "SimulatedLoop") -> None:
        super().__init__()
        self.connection = connection
        self.loop = loop
        self.is_over = False
        self._protocol: asyncio.Protocol | None = None
        self._is_closing = False
        self._is_paused = False
        self._arrives_us = 0
        self._in_flight = 0
        self._high = 64 * 1024
        self._low = 16 * 1024
        self._is_blocked = False
        self._flying: deque[tuple[bytes, int]] = deque()
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._end_is_due = False
        self._late: asyncio.Protocol | None = None

    def begin(self, protocol: asyncio.Protocol) -> None:
        """The connection is established."""
        if self._is_frozen():
            self.connection.net.world.at(self.loop.paused_until_us, self.loop.run, self._begin_late)
            self._late = protocol
            return
        self._protocol = protocol
        protocol.connection_made(self)
        if self.is_over:  # it broke before it was accepted
            self.loop.call_soon(protocol.connection_lost, None)
        while self._waiting and not self._is_paused:
            self._hand_over(*self._waiting.popleft())

    def _begin_late(self) -> None:
        """The process continues, and finds a connection that arrived meanwhile."""
        protocol, self._late = self._late, None
        if protocol is not None:
            self.begin(protocol)

    def go_on(self) -> None:
        """The process of this end continues early."""
        self._begin_late()
        self._read_on()

    # --- what asyncio asks for ----------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_over or self._is_closing:
            return
        chunk = bytes(data)
        if self is self.connection.ends[0]:
            self.connection.greet(chunk)
        at = self.connection.net.splits(len(chunk))
        for part in (chunk[:at], chunk[at:]) if at else (chunk,):
            self._send(part)
        if self._in_flight > self._high and not self._is_blocked:
            self._is_blocked = True
            if self._protocol is not None:
                self._protocol.pause_writing()

    def _send(self, part: bytes) -> None:
        connection, world = self.connection, self.connection.net.world
        self._in_flight += len(part)
        earliest = max(world.now_us, connection.stalled_until_us)
        self._arrives_us = max(self._arrives_us, earliest + connection.net.delay_us())
        self._flying.append((part, world.now_us))
        world.at(self._arrives_us, self._arrive)

    def _arrive(self) -> None:
        """What was written first arrives, whichever arrival this is."""
        world = self.connection.net.world
        if world.now_us < self.connection.stalled_until_us and not self.connection.is_broken:
            self._arrives_us = max(self._arrives_us, self.connection.stalled_until_us)
            world.at(self._arrives_us, self._arrive)
            return
        part, sent_us = self._flying.popleft()
        self._in_flight -= len(part)
        if self.connection.is_broken:
            return
        if self._is_blocked and self._in_flight <= self._low:
            self._is_blocked = False
            if self._protocol is not None and not self.is_over:
                self.loop.run(self._protocol.resume_writing)
        self.other.receive(part, sent_us)

    def receive(self, part: bytes, sent_us: int) -> None:
        """Bytes of the other end."""
        if self.is_over or not self.loop.is_alive:
            return
        if self._is_paused or self._protocol is None or self._waiting or self._is_frozen():
            self._waiting.append((part, sent_us))
            if self._is_frozen():
                self.connection.net.world.at(self.loop.paused_until_us, self._read_on)
            return
        self.loop.run(self._hand_over, part, sent_us)

    def _is_frozen(self) -> bool:
        return self.loop.paused_until_us > self.connection.net.world.now_us

    def _hand_over(self, part: bytes, sent_us: int) -> None:
        assert self._protocol is not None
        self.connection.net.arriving_us = sent_us
        self._protocol.data_received(part)

    def close(self) -> None:
        """Close when everything written has arrived."""
        if self._is_closing:
            return
        self._is_closing = True
        world = self.connection.net.world
        world.at(max(self._arrives_us, world.now_us) + 1, self._closed)

    def _closed(self) -> None:
        self.connection.note_break()
        self.end()
        if not self.connection.is_broken:
            self.other.end()

    def abort(self) -> None:
        if not self.is_over:
            self._is_closing = True
            self.connection.break_off(is_silent=False)

    def end(self) -> None:
        """The connection is gone, as this end sees it."""
        if self.is_over:
            return
        if self._waiting and not self._is_closing and not self.connection.is_broken:
            self._end_is_due = True
            return
        self.is_over = self._is_closing = True
        self.connection.forget()
        if self._protocol is not None and self.loop.is_alive:
            self.loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        while self._waiting and not self._is_paused and not self.is_over and not self._is_frozen():
            if self._protocol is None:
                return
            self.loop.run(self._hand_over, *self._waiting.popleft())
        if self._end_is_due and not self._waiting:
            self._end_is_due = False
            self.end()

    def is_reading(self) -> bool:
        return not self._is_paused

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or self._high
        self._low = low or self._low

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def can_write_eof(self) -> bool:
        return False
