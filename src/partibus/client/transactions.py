"""Transactions of the client: a message is settled and others are sent, all or nothing.

Owns the control link [4.5], the links whose work is part of a transaction, and the order of the
steps: declare, work, and discharge only when the bus has accepted every part. Many transactions run
in parallel, each step of all of them in one exchange. The outcome of a discharge without an answer
is unknown: only the messages themselves show it. Called by tools that move messages.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from partibus.amqp.codec.encode import (
    ENCODED_NULL,
    ENCODED_TRUE,
    encode_binary,
    encode_described_list,
)
from partibus.amqp.codec.sections import AMQP_VALUE
from partibus.amqp.delivery import (
    ACCEPTED,
    Accepted,
    Declared,
    Delivery,
    DeliveryState,
    Rejected,
    TransactionalState,
    transactional_state,
)
from partibus.amqp.terminus import encode_coordinator
from partibus.client.bus import Bus
from partibus.client.errors import RemoteError
from partibus.client.links import ReceivedMessage, Receiver, Sender
from partibus.client.requests import ANSWER_SECONDS_MAX
from partibus.domain import conditions

_DECLARE: Final = 0x31
_DISCHARGE: Final = 0x32
_VALUE: Final = bytes((0x00, 0x53, AMQP_VALUE))


class TransactionOutcome(Enum):
    """The outcome of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    IN_DOUBT = "in doubt"


class Answer:
    """The answer of the bus to one part of the work; None until it comes."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state: DeliveryState | None = None

    @property
    def is_taken(self) -> bool:
        """Whether a send or a settlement has joined its transaction."""
        state = self.state
        return isinstance(state, TransactionalState) and not isinstance(state.outcome, Rejected)

    def error(self, context: str) -> RemoteError:
        state = self.state
        return RemoteError(state.error if isinstance(state, Rejected) else None, context)


@dataclass(slots=True)
class Move:
    """One transaction: a received message is completed and another one is sent instead."""

    message: ReceivedMessage
    sender: "AnsweredSender | None"
    """None only completes the message."""
    payload: bytes = b""
    outcome: TransactionOutcome = TransactionOutcome.OPEN
    error: RemoteError | None = None


class AnsweredSender(Sender):
    """A sender that keeps the answer to each message separately."""

    async def put(self, payload: bytes, state: bytes = b"") -> Answer:
        """Send as soon as there is room; `state` makes it part of a transaction."""
        link = self.usable()
        while not self.writable or link.sendable() <= 0:
            await self.moved()
        self._next_tag += 1
        tag, answer = self._next_tag.to_bytes(4, "big"), Answer()
        if state:
            link.send_with_state(payload, tag, state, answer)
        else:
            link.send(payload, tag, False, 0, answer)
        self._in_flight += 1
        return answer

    async def answered(self) -> None:
        """Wait until the bus has answered everything sent so far."""
        while self._in_flight > 0:
            await self.moved()

    def settled(self, deliveries: Sequence[Delivery], state: DeliveryState | None) -> None:
        for delivery in deliveries:
            answer = delivery.context
            if isinstance(answer, Answer):
                answer.state = state
        self._in_flight -= len(deliveries)
        self.wake()


class TransactedReceiver(Receiver):
    """A receiver whose messages may be completed in transactions."""

    def __init__(self, flush: Callable[[], None]) -> None:
        super().__init__(flush, 0)
        self._open: dict[int, Answer] = {}

    def complete(self, message: ReceivedMessage, txn_id: bytes) -> Answer:
        """Complete a message with the commit."""
        answer = self._open[message.delivery_id] = Answer()
        self.usable().propose(message.delivery_id, transactional_state(txn_id, ACCEPTED))
        return answer

    async def answered(self) -> None:
        """Wait until the bus has answered all requests."""
        while self._open:
            await self.moved()

    def settled(self, first: int, last: int, state: DeliveryState | None) -> None:
        span = (last - first) & 0xFFFFFFFF
        for delivery_id in [n for n in self._open if (n - first) & 0xFFFFFFFF <= span]:
            self._open.pop(delivery_id).state = state
        super().settled(first, last, state)


class TransactedLinks:
    """One entity to take messages from, and others to send to: links of one AMQP session, so that a
    transaction may span all of them (TXN-5), and a control link."""

    def __init__(self, bus: Bus, receiver: TransactedReceiver, control: AnsweredSender) -> None:
        self._bus = bus
        self.receiver = receiver
        self._control = control
        self._senders: dict[str, AnsweredSender] = {}

    @classmethod
    async def open(cls, bus: Bus, path: str) -> "TransactedLinks":
        """Attach a receiver and a control link; senders follow when they are needed."""
        await bus.authorize(path)
        client = bus.client
        receiver, control = TransactedReceiver(client.flush), AnsweredSender(client.flush)
        session, name = client.engine.begin(), str(uuid.uuid4())
        await client.attach(receiver, session, name, path)
        begun, target = client.engine.begin(), encode_coordinator()
        await client.attach(control, begun, f"{name}-control", "", target=target)
        return cls(bus, receiver, control)

    async def sender(self, path: str) -> AnsweredSender:
        """A sender in the receiver's session."""
        known = self._senders.get(path.lower())
        if known is not None:
            return known
        await self._bus.authorize(path)
        client = self._bus.client
        sender, session = AnsweredSender(client.flush), self.receiver.usable().session
        try:
            await client.attach(sender, session, str(uuid.uuid4()), path)
        finally:
            # Settlements are reported to the session; the receiver waits for them.
            session.context = self.receiver
        self._senders[path.lower()] = sender
        return sender

    # --- the work -------------------------------------------------------------------------

    async def carry_out(self, moves: Sequence[Move]) -> None:
        """Each move in a separate transaction; its outcome is recorded in the move.

        RemoteError when the connection ends, TimeoutError when no answer comes: then the outcome of
        moves whose commit was requested is unknown, the others did not happen.
        """
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await self._carry_out(moves)

    async def _carry_out(self, moves: Sequence[Move]) -> None:
        txn_ids = await self._declare(len(moves))
        answers = await self._work(moves, txn_ids)
        discharges: list[Answer] = []
        for move, txn_id, parts in zip(moves, txn_ids, answers, strict=True):
            refused = next((part for part in parts if not part.is_taken), None)
            if refused is not None:
                move.error = refused.error("The bus refused a part of a transaction")
            move.outcome = (
                TransactionOutcome.IN_DOUBT if refused is None else TransactionOutcome.ROLLED_BACK
            )
            discharges.append(await self._control.put(_discharge(txn_id, refused is not None)))
        await self._control.answered()
        for move, answer in zip(moves, discharges, strict=True):
            _note(move, answer)

    async def _declare(self, count: int) -> list[bytes]:
        declared = [await self._control.put(_declare()) for _ in range(count)]
        await self._control.answered()
        ids: list[bytes] = []
        for answer in declared:
            if not isinstance(answer.state, Declared):
                raise answer.error("The bus did not declare the transaction")
            ids.append(answer.state.txn_id)
        return ids

    async def _work(self, moves: Sequence[Move], txn_ids: list[bytes]) -> list[list[Answer]]:
        """The parts of every transaction, and the answers to each of them."""
        answers: list[list[Answer]] = []
        for move, txn_id in zip(moves, txn_ids, strict=True):
            parts = [self.receiver.complete(move.message, txn_id)]
            if move.sender is not None:
                parts.append(await move.sender.put(move.payload, transactional_state(txn_id)))
            answers.append(parts)
        await self.receiver.answered()
        for sender in {id(move.sender): move.sender for move in moves}.values():
            if sender is not None:
                await sender.answered()
        return answers


def _note(move: Move, answer: Answer) -> None:
    """Record the answer to a discharge."""
    if move.outcome is not TransactionOutcome.IN_DOUBT:
        return
    if isinstance(answer.state, Accepted):
        move.outcome = TransactionOutcome.COMMITTED
        return
    move.error = answer.error("The bus did not commit a transaction")
    if move.error.condition != conditions.TRANSACTION_TIMEOUT:
        move.outcome = TransactionOutcome.ROLLED_BACK


def _declare() -> bytes:
    return _VALUE + encode_described_list(_DECLARE, [ENCODED_NULL])


def _discharge(txn_id: bytes, fail: bool) -> bytes:
    fields = [encode_binary(txn_id), ENCODED_TRUE] if fail else [encode_binary(txn_id)]
    return _VALUE + encode_described_list(_DISCHARGE, fields)
