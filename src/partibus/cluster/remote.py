"""The gateway's end of fragments that another process runs.

Owns the unanswered requests to that process, and the receivers of its fragments. When it is lost
everything pending is answered at once: what was never sent is refused as unavailable, so that a
send without a key may go elsewhere; what was sent has an unknown outcome and is never retried
automatically, since that could duplicate it. Receivers stay and send their demand again when it is
back. It knows no socket: `cluster.peers` carries the rows.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from partibus.cluster import codes
from partibus.cluster.command_rows import ENCODERS
from partibus.cluster.rows import ANSWERS, ROW_BYTES, PeerWriter, Row, is_request, to_error, to_held
from partibus.domain.errors import ArgumentError, OperationTimeout, StoreUnavailable
from partibus.domain.scheduler import Scheduler
from partibus.fragment.commands import (
    Command,
    Consumer,
    Demand,
    Detach,
    Enqueue,
    Interest,
    Receiver,
    Settle,
    SubQueueType,
)
from partibus.fragment.handle import STORE_DOWN
from partibus.fragment.outbox.commands import Transfer
from partibus.fragment.sessions.commands import (
    AcceptSession,
    SessionConsumer,
    SessionReceiver,
    SetSessionState,
)
from partibus.fragment.transactions.commands import Transact

_log: Final = logging.getLogger(__name__)


class FarConsumer:
    """A receiver of this process, as the far process knows it."""

    __slots__ = (
        "base",
        "consumer",
        "fragment_id",
        "is_draining",
        "is_leaving",
        "is_open",
        "number",
    )

    def __init__(self, number: int, fragment_id: int, consumer: Consumer) -> None:
        self.number = number
        self.fragment_id = fragment_id
        self.consumer = consumer
        self.is_open = False
        """Whether the far process knows it."""
        self.base = 0
        """What had been delivered to it before the far process knew it."""
        self.is_draining = False
        self.is_leaving = False


class FarBroker:
    """Another worker's fragments."""

    def __init__(self, worker: int, scheduler: Scheduler, kind: str = "worker") -> None:
        self.worker = worker
        self.name = f"{kind} {worker}"
        """The name of the far process in errors and in the log."""
        self._scheduler = scheduler
        self.absence = f"{self.name}, which runs it, cannot be reached. Try again."
        """Why requests fail while there is no connection."""
        self._writer: PeerWriter | None = None
        self._stores_down: frozenset[int] = frozenset()
        self.live_bytes: dict[int, int] = {}
        """The live bytes of the far process's stores, as of its last answer, by their numbers."""
        self._next_number = 1
        self._pending: dict[int, Command] = {}
        self._unanswered: dict[int, int] = {}
        """Sends not yet answered, of commands that were answered in part."""
        self._consumers: dict[Consumer, FarConsumer] = {}
        self._by_number: dict[int, FarConsumer] = {}
        self._later: list[Callable[[], None]] = []
        """Answers to requests made while it was unreachable; given in the next turn."""
        self._handlers: dict[int, Callable[[Row], None]] = {
            codes.DELIVERED: self._delivered,
            codes.DRAINED: self._drained,
            codes.AVAILABLE: self._available,
            codes.DETACHED: self._detached,
            codes.STORES_DOWN: self._stores_changed,
            codes.CONFIRMED: self._sends_answered,
            codes.REFUSED: self._sends_answered,
            codes.ACCEPTED: self._accepted,
            codes.NOT_ACCEPTED: self._not_accepted,
            codes.SESSION_LOST: self._session_lost,
            codes.UNSENDABLE: self._answer_missing,
            codes.PONG: self._pong,
            codes.LANES: self._lanes_changed,
        }
        self.on_lanes: Callable[[int, dict[int, int]], None] | None = None
        """Notified which lanes the far process serves, by their epochs."""

    @property
    def is_connected(self) -> bool:
        """Whether the far process is reachable."""
        return self._writer is not None

    @property
    def is_at_rest(self) -> bool:
        """Whether all requests have been answered."""
        return not self._pending and not self._later

    def is_available(self, store: int) -> bool:
        """Whether a store of the far process accepts messages, as far as is known here."""
        writer = self._writer
        return writer is not None and store not in self._stores_down and not writer.is_full

    @property
    def _reach(self) -> str:
        """Why commands cannot reach the far process, as the middle of a sentence."""
        if self._writer is not None and self._writer.is_full:
            return (
                f"{self.name}, which runs it, processes messages more slowly than they "
                "are sent, and too many are already waiting. Send more slowly and try "
                "again."
            )
        return self.absence

    def obstacle(self, store: int) -> str:
        """Why a store of the far process accepts no messages."""
        return STORE_DOWN if self.is_down(store) else self._reach

    def is_down(self, store: int) -> bool:
        """Whether the far process has reported that a store is down."""
        return self.is_connected and store in self._stores_down

    # --- start and end ------------------------------------------------------------------

    def connected(self, writer: PeerWriter) -> None:
        """It is reachable, and knows nothing of earlier requests."""
        self._answer_later()
        self._writer = writer
        self._stores_down = frozenset()
        for far in list(self._consumers.values()):
            far.consumer.receiver.resumed()

    def disconnected(self, unsent: Iterable[Row]) -> None:
        """It is unreachable; `unsent` are the rows that were certainly never sent."""
        self._writer = None
        pending, self._pending = self._pending, {}
        self._unanswered.clear()
        never_sent = {row[1] for row in unsent if is_request(row)}
        for number, command in pending.items():
            if number in never_sent:
                command.refuse(self._unavailable())
            else:
                command.refuse(self._outcome_unknown())
        for far in list(self._consumers.values()):
            self._interrupt(far)
        self._report_lanes({})

    def unsendable(self, row: Row) -> None:
        """A row could not be encoded and was never sent: refuse only its command."""
        command = self._pending.pop(row[1], None) if is_request(row) else None
        if command is not None:
            text = (
                "The request holds a value that the workers of this server cannot pass to each "
                "other, such as a time or number out of range. Correct the value and try again."
            )
            self._soon(partial(command.refuse, ArgumentError(text)))

    def _interrupt(self, far: FarConsumer) -> None:
        far.is_open = False
        if far.is_leaving:
            self._forget(far)
            return
        was_draining, far.is_draining = far.is_draining, False
        if was_draining:
            far.consumer.receiver.drained()
        far.consumer.receiver.interrupted()

    def _unavailable(self) -> StoreUnavailable:
        return StoreUnavailable(f"The fragment is not available: {self._reach}")

    def _outcome_unknown(self) -> OperationTimeout:
        return OperationTimeout(
            f"{self.name.capitalize()}, which runs this fragment, was lost before it answered: "
            "the outcome is unknown. Try again."
        )

    def _soon(self, answer: Callable[[], None]) -> None:
        """Never answer inside the submitting call, just as a fragment of this process."""
        if not self._later:
            self._scheduler.call_soon(self._answer_later)
        self._later.append(answer)

    def _answer_later(self) -> None:
        answers, self._later = self._later, []
        for answer in answers:
            answer()

    # --- to the far process -------------------------------------------------------------------

    def submit(self, fragment_id: int, command: Command) -> None:
        """Submit a command."""
        encode = ENCODERS.get(type(command))
        writer = self._writer
        if encode is None:
            self._submit_of_consumer(command)
            return
        byte_count = ROW_BYTES
        if isinstance(command, Enqueue | Transact | Transfer):
            byte_count += command.byte_count
            if writer is not None and writer.is_full:
                writer = None
        elif isinstance(command, SetSessionState):
            byte_count += len(command.state or b"")
        if writer is None:
            self._soon(partial(command.refuse, self._unavailable()))
            return
        number = 0
        if not isinstance(command, Settle) or command.port is not None:
            number = self._next_number
            self._next_number = number + 1
            self._pending[number] = command
        writer.post(encode(command, number, fragment_id), byte_count)

    def consumer(
        self, fragment_id: int, receiver: Receiver, subqueue: SubQueueType, deletes: bool
    ) -> Consumer:
        """A receiver of one of the fragments; the far process learns of it with its first
        demand."""
        consumer = Consumer(fragment_id, receiver, subqueue, deletes)
        self._know(fragment_id, consumer)
        return consumer

    def session_consumer(
        self, fragment_id: int, receiver: SessionReceiver, deletes: bool
    ) -> SessionConsumer:
        """A receiver of one session of one of the fragments."""
        consumer = SessionConsumer(fragment_id, receiver, deletes)
        self._know(fragment_id, consumer)
        return consumer

    def _know(self, fragment_id: int, consumer: Consumer) -> None:
        far = FarConsumer(self._next_number, fragment_id, consumer)
        self._next_number += 1
        self._consumers[consumer] = far
        self._by_number[far.number] = far

    def _submit_of_consumer(self, command: Command) -> None:
        if isinstance(command, Demand):
            self._demand(self._consumers[command.consumer], command)
        elif isinstance(command, Interest):
            far = self._consumers[command.consumer]
            writer = self._open(far)
            if writer is not None:
                writer.post((codes.INTEREST, far.number), ROW_BYTES)
        elif isinstance(command, AcceptSession):
            self._accept(self._consumers[command.consumer], command)
        elif isinstance(command, Detach):
            self._leave(self._consumers[command.consumer])
        else:
            raise AssertionError(f"{type(command).__name__} is not for a far fragment")

    def _demand(self, far: FarConsumer, command: Demand) -> None:
        writer = self._open(far)
        if writer is not None:
            far.is_draining = command.drain
            limit = command.limit - far.base
            writer.post((codes.DEMAND, far.number, limit, command.drain), ROW_BYTES)
        elif command.drain:
            self._soon(far.consumer.receiver.drained)

    def _accept(self, far: FarConsumer, command: AcceptSession) -> None:
        """Receivers that wait for any session ask again when the far process is back."""
        writer = self._open(far)
        if writer is not None:
            mode = (command.is_exclusive, command.takes_over)
            row = (codes.ACCEPT, far.number, command.session_id, command.waits, *mode)
            writer.post(row, ROW_BYTES)
        elif command.session_id is not None or not command.waits:
            receiver = command.consumer.session_receiver
            self._soon(partial(receiver.not_accepted, self._unavailable()))

    def _open(self, far: FarConsumer) -> PeerWriter | None:
        """Make the receiver known to the far process; None when that is unreachable."""
        writer = self._writer
        if writer is not None and not far.is_open:
            consumer = far.consumer
            far.is_open = True
            far.base = consumer.sent
            writer.post(self._open_row(far, consumer), ROW_BYTES)
        return writer

    def _open_row(self, far: FarConsumer, consumer: Consumer) -> Row:
        if isinstance(consumer, SessionConsumer):
            return (codes.OPEN_SESSION, far.number, far.fragment_id, consumer.deletes)
        return (codes.OPEN, far.number, far.fragment_id, int(consumer.subqueue), consumer.deletes)

    def _leave(self, far: FarConsumer) -> None:
        """Messages may still be in flight to it, so it is kept until the far process confirms."""
        if far.is_open and self._writer is not None:
            far.is_leaving = True
            self._writer.post((codes.DETACH, far.number), ROW_BYTES)
        else:
            self._forget(far)

    def _forget(self, far: FarConsumer) -> None:
        del self._consumers[far.consumer]
        del self._by_number[far.number]

    # --- from the far process -----------------------------------------------------------------

    def receive(self, rows: Sequence[Row]) -> None:
        """Rows of the far process, in order."""
        handlers = self._handlers
        for row in rows:
            handler = handlers.get(row[0])
            try:
                if handler is not None:
                    handler(row)
                else:
                    self._answered(row)
            except Exception:
                # One failing callback must not stop the others.
                _log.exception("an answer from %s could not be delivered", self.name)

    def _answered(self, row: Row) -> None:
        command = self._pending.pop(row[1])
        ANSWERS[row[0]](command, row)

    def _sends_answered(self, row: Row) -> None:
        """Usually all sends of a command are answered at once; it stays pending until the last
        answer."""
        number, places = row[1], row[3]
        if places is None:
            self._answered(row)
            return
        command = self._pending[number]
        assert isinstance(command, Enqueue | Transfer)
        left = self._unanswered.pop(number, len(command.requests)) - len(places)
        if left > 0:
            self._unanswered[number] = left
        else:
            del self._pending[number]
        ANSWERS[row[0]](command, row)

    def _answer_missing(self, row: Row) -> None:
        """The far process has an answer that it cannot encode."""
        command = self._pending.pop(row[1])
        self._unanswered.pop(row[1], None)
        command.refuse(to_error(row[2]))

    def _delivered(self, row: Row) -> None:
        consumer = self._by_number[row[1]].consumer
        messages = [to_held(held) for held in row[2]]
        consumer.sent += len(messages)
        consumer.receiver.deliver(messages, row[3])

    def _drained(self, row: Row) -> None:
        far = self._by_number[row[1]]
        far.is_draining = False
        far.consumer.receiver.drained()

    def _available(self, row: Row) -> None:
        self._by_number[row[1]].consumer.receiver.available()

    def _accepted(self, row: Row) -> None:
        self._session_receiver(row).accepted(row[2], row[3], row[4])

    def _not_accepted(self, row: Row) -> None:
        self._session_receiver(row).not_accepted(to_error(row[2]))

    def _session_lost(self, row: Row) -> None:
        self._session_receiver(row).session_lost(to_error(row[2]))

    def _session_receiver(self, row: Row) -> SessionReceiver:
        consumer = self._by_number[row[1]].consumer
        assert isinstance(consumer, SessionConsumer)
        return consumer.session_receiver

    def _detached(self, row: Row) -> None:
        self._forget(self._by_number[row[1]])

    def _pong(self, row: Row) -> None:
        self.live_bytes = {facts[0]: facts[1] for facts in row[2]}

    def _lanes_changed(self, row: Row) -> None:
        self._report_lanes(dict(row[2]))

    def _report_lanes(self, lanes: dict[int, int]) -> None:
        if self.on_lanes is not None:
            self.on_lanes(self.worker, lanes)

    def _stores_changed(self, row: Row) -> None:
        self._stores_down = frozenset(row[2])


def nobody(scheduler: Scheduler) -> FarBroker:
    """Stands for the server of lanes that are currently not served, and refuses everything."""
    far = FarBroker(0, scheduler)
    far.absence = "its lane is moving to another node. Try again."
    return far


class RemoteFragment:
    """A fragment run by another process."""

    __slots__ = ("_far", "_store", "fragment_id", "index")

    def __init__(self, far: FarBroker, fragment_id: int, index: int, store: int) -> None:
        self._far = far
        self._store = store
        self.fragment_id = fragment_id
        self.index = index

    def submit(self, command: Command) -> None:
        self._far.submit(self.fragment_id, command)

    def consumer(self, receiver: Receiver, subqueue: SubQueueType, deletes: bool) -> Consumer:
        return self._far.consumer(self.fragment_id, receiver, subqueue, deletes)

    def session_consumer(self, receiver: SessionReceiver, deletes: bool) -> SessionConsumer:
        return self._far.session_consumer(self.fragment_id, receiver, deletes)

    @property
    def local(self) -> None:
        return None

    @property
    def is_available(self) -> bool:
        return self._far.is_available(self._store)

    @property
    def obstacle(self) -> str:
        return self._far.obstacle(self._store)
