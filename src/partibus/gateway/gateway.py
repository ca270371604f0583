"""The front end: every client connection of this process, and what they share.

Owns the set of connections, the settings that each is offered, and the one periodic sweep
that serves all their time-outs. The listener asks it for a connection, the node closes it.
"""

import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from partibus.amqp.errors import AmqpError
from partibus.amqp.settings import ConnectionSettings
from partibus.control.access.access import AccessControl
from partibus.control.catalog.record import Change, ChangeKind
from partibus.control.live import LiveNamespace
from partibus.domain import conditions
from partibus.domain.clock import Clock
from partibus.domain.limits import Profile
from partibus.domain.observing.event_log import EVENT_LOG
from partibus.domain.scheduler import Scheduler, Timer
from partibus.gateway.connection import ClientConnection
from partibus.gateway.delayed_wire import DelayedWire
from partibus.gateway.entity_orders import EntityOrders
from partibus.gateway.fault_injection import ClientFaults
from partibus.gateway.links.entity_changes import follow
from partibus.gateway.links.receivers import Receivers
from partibus.gateway.memory.account import MemoryAccount
from partibus.gateway.memory.freeing import free_in_turns
from partibus.gateway.meters import Meters
from partibus.gateway.namespace import Namespace
from partibus.gateway.reading_turns import ReadingTurns
from partibus.gateway.rule_changes import RuleChanges
from partibus.gateway.tracing import Tracing
from partibus.gateway.wire import Wire
from partibus.message.lock_token import TokenPrefix

SWEEP_INTERVAL_MS: Final = 1000
"""How often connections are checked; one comparison each, so ten thousand cost a millisecond."""

WAKE_INTERVAL_MS_MIN: Final = 20
"""The minimum time between two checks of a connection."""

PEAK_BYTES_MIN: Final = 32 * 1024 * 1024
"""After a smaller peak, asking the allocator to return memory is not worth its time."""

CAPABILITIES: Final = ("DELAYED_DELIVERY", "SHARED-SUBS")
"""What JMS clients look for in our open before they use it (JMS-1)."""


class Gateway:
    """All clients of one process."""

    def __init__(
        self,
        namespace: Namespace,
        access: AccessControl,
        clock: Clock,
        scheduler: Scheduler,
        settings: ConnectionSettings,
        faults: ClientFaults | None = None,
        lock_prefix: int | None = None,
        live: LiveNamespace | None = None,
        merges_peeks: bool = True,
        memory: MemoryAccount | None = None,
        give_back: Callable[[], None] | None = None,
    ) -> None:
        self.namespace = namespace
        self.access = access
        self.scheduler = scheduler
        self.settings = replace(
            settings,
            offered_capabilities=CAPABILITIES,
            busy_condition=conditions.MICROSOFT_SERVER_BUSY,
            stalled_condition=conditions.MICROSOFT_TIMEOUT,
        )
        self.faults = faults
        """Faults injected into client connections; None unless faults were enabled."""
        self.now_ms = clock.now_ms
        self.monotonic_ms = clock.monotonic_ms
        """For intervals; `now_ms` is for tokens and for times that clients see."""
        self.live = live
        """Where clients change rules; None when the namespace is fixed."""
        self.merges_peeks = merges_peeks
        """Whether a peek merges the answers of all fragments, or the first to answer decides
        (CON-6)."""
        self.rule_changes = None if live is None else RuleChanges(live, namespace.find)
        self.entity_orders = None if live is None else EntityOrders(live)
        self.subscribers: Counter[str] = Counter()
        """Links of JMS consumers by the key of their subscription's path."""
        self._lock_prefix = secrets.randbits(32) if lock_prefix is None else lock_prefix
        """Makes the lock tokens of this namespace different from those of any other; shared by
        workers."""
        self._prefixes: dict[int, TokenPrefix] = {}
        self._connections: dict[ClientConnection, None] = {}  # in the order of arrival
        self.receivers = Receivers(namespace)
        self.host: Callable[[str], Gateway] | None = None
        """Finds the gateway by the name of a key, where a server hosts several namespaces."""
        self._farewells: list[Callable[[], None]] = []
        self._sweep_timer: Timer | None = None
        self._next_sweep_ms = 0
        self.memory = MemoryAccount() if memory is None else memory
        """The memory used for all clients."""
        self.meters = Meters()
        self.turns = ReadingTurns(scheduler)
        self._give_back = give_back
        """Returns free memory to the system."""

    def trace(self, tracing: Tracing) -> None:
        """Make spans of traced messages, on links opened from now on and in couriers."""
        self.namespace.tracing = tracing

    @property
    def profile(self) -> Profile:
        """The limits that apply to clients."""
        return self.namespace.profile

    @property
    def connections(self) -> list[ClientConnection]:
        """Every client, at this moment."""
        return list(self._connections)

    @property
    def connection_count(self) -> int:
        """How many clients are connected."""
        return len(self._connections)

    def start(self) -> None:
        """Start checking time-outs."""
        self._next_sweep_ms = self.monotonic_ms() + SWEEP_INTERVAL_MS
        self._sweep_timer = self.scheduler.call_later_ms(SWEEP_INTERVAL_MS, self._sweep)

    def connect(self, wire: Wire) -> ClientConnection:
        """A new client at the other end of a wire."""
        if self.faults is not None:
            wire = DelayedWire(wire, self.faults, self.scheduler, self.monotonic_ms)
        connection = ClientConnection(self, wire)
        self._connections[connection] = None
        self.meters.opened += 1
        EVENT_LOG.note("connection-opened", **connection.origin.facts())
        return connection

    def adopt(self, connection: ClientConnection, wire: Wire) -> None:
        """Take over a client of another namespace's gateway."""
        if isinstance(wire, DelayedWire) and self.faults is not None:
            wire.faults = self.faults
        self._connections[connection] = None
        self.meters.opened += 1
        connection.wake_by(self.monotonic_ms())

    def forget(self, connection: ClientConnection, held: list[bytes | memoryview]) -> None:
        """A client is gone, and the memory of its unfinished messages can be returned."""
        self._connections.pop(connection, None)
        self.meters.closed += 1
        EVENT_LOG.note("connection-closed", **connection.origin.facts())
        free_in_turns(self.scheduler, held)

    def token_prefix(self, fragment_id: int) -> TokenPrefix:
        """The first half of a fragment's lock tokens in this run."""
        prefix = self._prefixes.get(fragment_id)
        if prefix is None:
            prefix = self._prefixes[fragment_id] = TokenPrefix(self._lock_prefix, fragment_id)
        return prefix

    def random_start(self) -> int:
        """Where a new sender starts its round robin over the fragments (CON-5)."""
        return secrets.randbits(16)

    def follow(self, change: Change) -> None:
        """The catalog has changed: notify the links that it concerns."""
        record = change.after or change.before
        if record is not None:
            EVENT_LOG.note("entity-changed", entity=record.path, change=change.kind.value)
        self.namespace.follow(change)
        follow(change, self._connections)
        if change.kind is ChangeKind.DELETED and change.before is not None:
            for placement in change.before.fragments:
                self._prefixes.pop(placement.fragment_id, None)

    def clock_stepped(self) -> None:
        """The time of day was set: tokens may have expired, or last longer."""
        now_ms = self.monotonic_ms()
        for connection in list(self._connections):
            connection.wake_by(now_ms)

    def expect(self, connection: ClientConnection) -> None:
        """Check a connection in time, when the next sweep would be too late."""
        wake_at_ms = connection.wake_at_ms
        if wake_at_ms < self._next_sweep_ms:
            delay_ms = max(WAKE_INTERVAL_MS_MIN, wake_at_ms - self.monotonic_ms())
            self.scheduler.call_later_ms(delay_ms, partial(self._look_at, connection))

    def _look_at(self, connection: ClientConnection) -> None:
        if connection in self._connections:
            now_ms = self.monotonic_ms()
            if connection.wake_at_ms <= now_ms:
                connection.tick(now_ms)
            self.expect(connection)

    def _sweep(self) -> None:
        self.start()
        now_ms, next_ms = self.monotonic_ms(), self._next_sweep_ms
        for connection in [c for c in self._connections if c.wake_at_ms < next_ms]:
            if connection.wake_at_ms <= now_ms:
                connection.tick(now_ms)
            self.expect(connection)
        if self._give_back is not None and self.memory.take_peak(PEAK_BYTES_MIN):
            self._give_back()

    def at_close(self, farewell: Callable[[], None]) -> None:
        """Register others that serve clients to be notified of the stop."""
        self._farewells.append(farewell)

    def quiesce(self) -> None:
        """The server is about to stop: accept nothing more from clients and deliver nothing more,
        but still answer what they have sent."""
        for connection in list(self._connections):
            connection.quiesce()

    def close(self) -> None:
        """Notify every client that the server stops."""
        for farewell in self._farewells:
            farewell()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for changes in (self.rule_changes, self.entity_orders):
            if changes is not None:
                changes.close()
        self.close_connections("The server is stopping; reconnect.")

    def close_connections(self, reason: str) -> int:
        """End every connection from our side; returns how many there were."""
        error = AmqpError(conditions.CONNECTION_FORCED, reason)
        connections = list(self._connections)
        for connection in connections:
            connection.force_close(error)
        return len(connections)
