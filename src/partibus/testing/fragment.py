"""A fragment on a memory store, driven by hand: for tests of the machine and its broker.

Owns a broker with one fragment, a manual clock, and ports that remember their calls.
Shipped, because extensions of the machine need the same bench.
"""

from collections.abc import Sequence

from partibus.domain.errors import BusError
from partibus.fragment import commands
from partibus.fragment.broker import Broker
from partibus.fragment.commands import Command, Consumer, Outcome, SubQueueType
from partibus.fragment.message import Held, NewMessage, Overlay
from partibus.fragment.sessions import commands as sessions
from partibus.fragment.spec import FragmentSpec
from partibus.fragment.upkeep.slices import SLICE
from partibus.store.interface import Store
from partibus.store.memory import MemoryStore
from partibus.testing.clock import ManualClock
from partibus.testing.scheduler import ManualScheduler


class Ports:
    """Records every answer."""

    def __init__(self) -> None:
        self.confirmations: list[int] = []
        self.refusals: list[tuple[int, BusError]] = []
        self.settlements: list[tuple[object, list[int], BusError | None]] = []
        self.renewals: list[list[int]] = []
        self.first_sequences: list[int] = []
        self.dropped: list[list[int]] = []
        self.answers: list[int | BusError] = []
        self.lookups: list[list[Delivered] | BusError] = []
        self.states: list[bytes | None] = []
        self.listings: list[tuple[list[str], int]] = []

    def state_found(self, state: bytes | None) -> None:
        self.states.append(state)

    def listed(self, session_ids: Sequence[str], passed_over: int) -> None:
        self.listings.append((list(session_ids), passed_over))

    def confirmed(
        self, requests: Sequence[int], first_sequence: int, dropped: Sequence[int] = ()
    ) -> None:
        self.confirmations.extend(requests)
        self.first_sequences.append(first_sequence)
        self.dropped.append(list(dropped))

    def done(self, count: int) -> None:
        self.answers.append(count)

    def found(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        self.lookups.append([Delivered(h, b) for h, b in zip(messages, bodies, strict=True)])

    def failed(self, error: BusError) -> None:
        self.answers.append(error)
        self.lookups.append(error)

    def refused(self, requests: Sequence[int], error: BusError) -> None:
        self.refusals.extend((request, error) for request in requests)

    def settled(self, request: object, lost: Sequence[int], error: BusError | None) -> None:
        self.settlements.append((request, list(lost), error))

    def renewed(self, until_ms: Sequence[int]) -> None:
        self.renewals.append(list(until_ms))


class Delivered:
    """One delivery as it was when it arrived."""

    __slots__ = (
        "body",
        "delivery_count",
        "locked_until_ms",
        "overlay",
        "sequence",
        "state",
        "token",
    )

    def __init__(self, held: Held, body: bytes) -> None:
        self.sequence = held.sequence
        self.token = held.token
        self.delivery_count = held.delivery_count
        self.locked_until_ms = held.locked_until_ms
        self.overlay = held.overlay
        self.state = held.state
        self.body = body


class Inbox:
    """A receiver that records its deliveries."""

    def __init__(self) -> None:
        self.messages: list[Delivered] = []
        self.drained_count = 0
        self.available_count = 0
        self.interrupted_count = 0
        self.resumed_count = 0

    def deliver(self, messages: Sequence[Held], bodies: Sequence[bytes]) -> None:
        self.messages += [Delivered(h, b) for h, b in zip(messages, bodies, strict=True)]

    def drained(self) -> None:
        self.drained_count += 1

    def available(self) -> None:
        self.available_count += 1

    def interrupted(self) -> None:
        self.interrupted_count += 1

    def resumed(self) -> None:
        self.resumed_count += 1

    def take(self) -> list[Delivered]:
        """Everything since the last call."""
        taken, self.messages = self.messages, []
        return taken


class SessionInbox(Inbox):
    """A receiver of one session that records what happens to it."""

    def __init__(self) -> None:
        super().__init__()
        self.session_id: str | None = None
        self.locked_until_ms = 0
        self.lock = 0
        self.errors: list[BusError] = []
        """Why no session is held, or why it was lost."""

    @property
    def is_holding(self) -> bool:
        """Whether a session was accepted and not lost."""
        return self.session_id is not None and not self.errors

    def accepted(self, session_id: str, locked_until_ms: int, lock: int) -> None:
        assert self.session_id is None
        self.session_id = session_id
        self.locked_until_ms = locked_until_ms
        self.lock = lock

    def not_accepted(self, error: BusError) -> None:
        self.errors.append(error)

    def session_lost(self, error: BusError) -> None:
        self.errors.append(error)


class FragmentBench:
    """One fragment, its broker, its store and its clock."""

    def __init__(
        self, spec: FragmentSpec, store: Store | None = None, slice_messages: int = SLICE
    ) -> None:
        self.slice_messages = slice_messages
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.store = store or MemoryStore(notify=self.scheduler.call_soon, replayable=True)
        self.spec = spec
        self.ports = Ports()
        self._request = 0
        self.first_token = 1
        self.start()

    def start(self) -> None:
        """Open the store and recover, as a new process would after a crash of this one."""
        self.scheduler.crash()
        self.broker = Broker(
            self.store,
            self.clock,
            self.scheduler,
            first_token=self.first_token,
            slice_messages=self.slice_messages,
        )
        self.broker.open()
        self.machine = self.broker.add(1, self.spec)
        self.state = self.machine.state

    def restart(self) -> None:
        """Stop cleanly and start again; a new incarnation numbers its locks differently."""
        self.broker.close()
        self.run()
        self.first_token += 1 << 32
        self.start()

    def run(self) -> None:
        """Run everything that is due."""
        self.scheduler.run()

    def step_clock_ms(self, delta_ms: int) -> None:
        """Set the clock of the machine, and let the step be noticed."""
        self.clock.step_wall_ms(delta_ms)
        self.broker.clock_stepped(self.clock.follow())
        self.run()

    def submit(self, command: Command) -> None:
        """Submit a command and run everything that follows."""
        self.broker.submit(self.machine, command)
        self.run()

    def send(
        self, *bodies: bytes, ttl_ms: int = -1, scheduled_ms: int = 0, session_id: str | None = None
    ) -> list[int]:
        """Send messages, each its own request; returns the request numbers."""
        first = self._request + 1
        self._request += len(bodies)
        requests = list(range(first, self._request + 1))
        messages = [NewMessage(body, ttl_ms, scheduled_ms, session_id) for body in bodies]
        size = sum(len(body) for body in bodies)
        self.submit(commands.Enqueue(self.ports, messages, requests, size))
        return requests

    def receiver(
        self, subqueue: SubQueueType = SubQueueType.MAIN, deletes: bool = False
    ) -> tuple[Inbox, Consumer]:
        """A receiver without demand."""
        inbox = Inbox()
        return inbox, Consumer(1, inbox, subqueue, deletes)

    def demand(self, consumer: Consumer, more: int, drain: bool = False) -> None:
        """Allow a receiver this many more messages."""
        self.submit(commands.Demand(consumer, consumer.sent + more, drain))

    def receive(
        self, count: int, subqueue: SubQueueType = SubQueueType.MAIN, deletes: bool = False
    ) -> list[Delivered]:
        """Receive what is there now, up to `count`, and leave."""
        inbox, consumer = self.receiver(subqueue, deletes)
        self.demand(consumer, count, drain=True)
        self.submit(commands.Detach(consumer))
        return inbox.take()

    def settle(
        self,
        tokens: Sequence[int],
        outcome: Outcome = Outcome.COMPLETE,
        subqueue: SubQueueType = SubQueueType.MAIN,
        overlay: Overlay | None = None,
    ) -> tuple[list[int], BusError | None]:
        """Settle; returns the lost tokens and the error."""
        command = commands.Settle(self.ports, None, subqueue, list(tokens), outcome, overlay)
        self.submit(command)
        _, lost, error = self.ports.settlements.pop()
        return lost, error

    def renew(self, tokens: Sequence[int], subqueue: SubQueueType = SubQueueType.MAIN) -> list[int]:
        """Renew locks; returns the new times, 0 for a lost lock."""
        self.submit(commands.Renew(self.ports, subqueue, list(tokens)))
        return self.ports.renewals.pop()

    def cancel(self, *sequences: int) -> int | BusError:
        """Cancel scheduled messages."""
        self.submit(commands.CancelScheduled(self.ports, list(sequences)))
        return self.ports.answers.pop()

    def receive_deferred(
        self,
        *sequences: int,
        subqueue: SubQueueType = SubQueueType.MAIN,
        deletes: bool = False,
        session_id: str | None = None,
        lock: int = 0,
    ) -> list[Delivered] | BusError:
        """Receive deferred messages by number."""
        numbers = list(sequences)
        self.submit(
            commands.ReceiveDeferred(self.ports, subqueue, numbers, deletes, session_id, lock)
        )
        return self.ports.lookups.pop()

    def peek(
        self,
        from_sequence: int = 0,
        count: int = 250,
        subqueue: SubQueueType = SubQueueType.MAIN,
        byte_count_max: int = 1 << 18,
        session_id: str | None = None,
    ) -> list[Delivered]:
        """Peek at messages."""
        self.submit(
            commands.Peek(self.ports, subqueue, from_sequence, count, byte_count_max, session_id)
        )
        answer = self.ports.lookups.pop()
        assert not isinstance(answer, BusError)
        return answer

    def purge(
        self,
        count: int,
        before_ms: int | None = None,
        subqueue: SubQueueType = SubQueueType.MAIN,
        session_id: str | None = None,
    ) -> int | BusError:
        """Delete waiting messages."""
        moment_ms = self.clock.now_ms() + 1 if before_ms is None else before_ms
        self.submit(commands.Purge(self.ports, subqueue, count, moment_ms, session_id))
        return self.ports.answers.pop()

    # --- sessions -------------------------------------------------------------------------

    def accept(
        self,
        session_id: str | None = None,
        *,
        waits: bool = False,
        deletes: bool = False,
        is_exclusive: bool = True,
        takes_over: int = 0,
    ) -> tuple[SessionInbox, sessions.SessionConsumer]:
        """A receiver that has asked for a session, or for any."""
        inbox = SessionInbox()
        consumer = sessions.SessionConsumer(1, inbox, deletes)
        self.submit(sessions.AcceptSession(consumer, session_id, waits, is_exclusive, takes_over))
        return inbox, consumer

    def renew_session(self, inbox: SessionInbox) -> int:
        """Renew the lock of a session; returns the new time, 0 for a lost one."""
        self.submit(sessions.RenewSession(self.ports, inbox.session_id or "", inbox.lock))
        (until_ms,) = self.ports.renewals.pop()
        return until_ms

    def set_state(self, inbox: SessionInbox, state: bytes | None) -> int | BusError:
        """Store the state of a session."""
        self.submit(sessions.SetSessionState(self.ports, inbox.session_id or "", inbox.lock, state))
        return self.ports.answers.pop()

    def get_state(self, inbox: SessionInbox) -> bytes | BusError | None:
        """The state of a session."""
        count = len(self.ports.states)
        self.submit(sessions.GetSessionState(self.ports, inbox.session_id or "", inbox.lock))
        if len(self.ports.states) > count:
            return self.ports.states.pop()
        error = self.ports.answers.pop()
        assert isinstance(error, BusError)
        return error

    def list_sessions(
        self, updated_after_ms: int | None = None, skip: int = 0, count: int = 100
    ) -> tuple[list[str], int]:
        """The ids of sessions, and how many before them were skipped."""
        self.submit(sessions.ListSessions(self.ports, updated_after_ms, skip, count))
        return self.ports.listings.pop()
