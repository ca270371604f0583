"""One open transaction: the work it has collected, its limits and its end.

Owns everything between declare and discharge of one transaction. Nothing of its work reaches a
fragment before it is committed; then all of it is sent as one command and applied completely or not
at all (TXN-2). A refused operation fails the whole commit: a client that did not wait for the
answer must not get a part of it. Locks whose deliveries the client has already settled are released
when it is not committed (TXN-20). Made by `open_transactions`; links and the management node add to
it through `enlistment`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from partibus.domain.errors import (
    BusError,
    OperationTimeout,
    TransactionRolledBack,
    TransactionSizeExceeded,
    TransactionTimedOut,
    TransactionUnknown,
)
from partibus.domain.limits import Profile
from partibus.fragment.commands import Command, Outcome, Settle, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.transactions.commands import Transact
from partibus.gateway.operations.fanout import FanOut, SettlePart
from partibus.gateway.tracing import Tracing
from partibus.gateway.transactions.destination import Part, work_of
from partibus.gateway.transactions.scope import Scope
from partibus.gateway.transactions.traces import TransactionTraces

Answer = Callable[[BusError | None], None]
"""Called once with the outcome of a discharge: None on success."""


@dataclass(eq=False, slots=True)
class Transaction:
    """The work of one transaction."""

    txn_id: bytes
    profile: Profile
    scope: Scope = field(init=False, default_factory=Scope)
    deadline_ms: int | None = field(init=False, default=None)
    """When it is rolled back; None before its first operation (TXN-7)."""
    failure: BusError | None = field(init=False, default=None)
    """Why it can only be rolled back; None while everything is fine."""
    byte_count: int = field(init=False, default=0)
    is_discharged: bool = field(init=False, default=False)
    """The client has asked for its commit."""
    is_submitted: bool = field(init=False, default=False)
    """Its work was submitted to the fragments."""
    _message_count: int = field(init=False, default=0)
    _operation_count: int = field(init=False, default=0)
    _work: list[Part | tuple[int, Command]] = field(init=False, default_factory=list)
    _forgotten: list[tuple[Fragment, SubQueueType, list[int]]] = field(
        init=False, default_factory=list
    )
    """Locks whose deliveries the client has settled as part of the transaction."""
    _under_way: int = field(init=False, default=0)
    """Operations that a fragment is still checking; a discharge waits for them."""
    _answer: Answer | None = field(init=False, default=None)
    """Of a commit that waits for pending operations."""
    _traces: "TransactionTraces | None" = field(init=False, default=None)
    """None unless the server exports traces, and some of its work is traced."""

    # --- work -------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """An operation begins; the time-out runs from the first one (TXN-7)."""
        if self.failure is not None:
            raise _rolled_back(self.failure)
        if self.deadline_ms is None:
            self.deadline_ms = now_ms + self.profile.transaction_ms_max

    def count_messages(self, count: int) -> None:
        """Count messages that are sent (TXN-8)."""
        self._message_count += count
        most = self.profile.transaction_messages_max
        if self._message_count > most:
            raise TransactionSizeExceeded(
                f"Cannot send more than {most} messages in a single transaction. Use several."
            )

    def count_operations(self, count: int) -> None:
        """Count messages that are settled or cancelled (TXN-8)."""
        self._operation_count += count
        most = self.profile.transaction_operations_max
        if self._operation_count > most:
            raise TransactionSizeExceeded(
                f"Cannot settle more than {most} messages in a single transaction. Use several."
            )

    def add(self, fragment: Fragment, command: Command, byte_count: int) -> None:
        """Do this at the commit, after what was added before."""
        if self.failure is None:
            self._work.append((fragment.fragment_id, command))
            self.byte_count += byte_count

    def add_messages(self, part: Part) -> None:
        """Store these at the commit, or put them into the outbox, after what was added before."""
        if self.failure is None:
            self._work.append(part)
            self.byte_count += part.byte_count

    def forget(self, fragment: Fragment, subqueue: SubQueueType, tokens: list[int]) -> None:
        """The client has settled the deliveries of these locks, whatever the outcome."""
        self._forgotten.append((fragment, subqueue, tokens))

    def hold(self) -> None:
        """A fragment checks an operation; a discharge waits for it."""
        self._under_way += 1

    def let_go(self) -> None:
        """An operation was accepted or refused."""
        self._under_way -= 1
        answer = self._answer
        if answer is not None and not self._under_way:
            self._answer = None
            self._submit(answer)

    def traces(self, tracing: Tracing) -> TransactionTraces:
        """Where the traced work of the transaction is recorded."""
        if self._traces is None:
            self._traces = TransactionTraces(tracing, self.txn_id)
        return self._traces

    # --- its end ----------------------------------------------------------------------------

    def fail(self, error: BusError) -> None:
        """From now on it can only be rolled back; what was collected is dropped."""
        if self.failure is None and not self.is_submitted:
            self.failure = error
            self._drop()
            self._trace_end(_rolled_back(error))
            self._give_back(_nothing)

    def expire(self) -> None:
        """Its time is up (TXN-7)."""
        seconds = self.profile.transaction_ms_max // 1000
        self.fail(
            TransactionTimedOut(
                f"The transaction was rolled back: it was not discharged within {seconds} seconds "
                "of its first operation. Repeat its work in another transaction."
            )
        )

    def is_due(self, now_ms: int) -> bool:
        """Whether its time is up."""
        due = self.deadline_ms is not None and self.deadline_ms <= now_ms
        return due and self.failure is None and not self.is_submitted

    def roll_back(self, done: Callable[[], None] | None = None) -> None:
        """End it without any effect: nothing of it has left this object (TXN-16). Calls `done` when
        what the client has settled waits again."""
        if self.failure is None and not self.is_submitted:
            self.failure = TransactionUnknown()
            self._drop()
            self._trace_end(TransactionRolledBack("The client has rolled the transaction back."))
        self._give_back(_nothing if done is None else done)

    def _give_back(self, done: Callable[[], None]) -> None:
        """Abandon what only the transaction held: the client has no delivery to settle (TXN-20)."""
        forgotten, self._forgotten = self._forgotten, []
        if not forgotten:
            done()
            return
        fan_out = FanOut[int](len(forgotten), lambda lost: done(), lambda error, lost: done())
        for part, (fragment, subqueue, tokens) in enumerate(forgotten):
            port = SettlePart(fan_out, part)
            fragment.submit(Settle(port, None, subqueue, tokens, Outcome.ABANDON))

    def commit(self, answer: Answer) -> None:
        """Make all of it durable and visible at once, or none of it."""
        self.is_discharged = True
        if self._under_way:
            self._answer = answer
        else:
            self._submit(answer)

    def _submit(self, answer: Answer) -> None:
        if self.failure is not None:
            answer(_rolled_back(self.failure))
            return
        self.is_submitted = True
        collected, self._work = self._work, []
        pin = self.scope.pin
        if pin is None or not collected:
            answer(None)
            return
        work = [
            work_of(one, pin.store, pin.fragment) if isinstance(one, Part) else one
            for one in collected
        ]
        port = CommitPort(self._traced(answer), self._give_back)
        pin.fragment.submit(Transact(port, work, self.byte_count))

    def _traced(self, answer: Answer) -> Answer:
        """The same callback, followed by the spans of the work."""
        traces = self._traces
        if traces is None:
            return answer

        def after_answer(error: BusError | None) -> None:
            answer(error)
            traces.ended(error)

        return after_answer

    def _trace_end(self, error: BusError) -> None:
        """The transaction failed: end its spans."""
        if self._traces is not None:
            self._traces.ended(error)

    def _drop(self) -> None:
        self._work = []
        self.byte_count = 0


@dataclass(eq=False, slots=True)
class CommitPort:
    """Receives the outcome of a commit from the fragment's broker."""

    answer: Answer
    give_back: Callable[[Callable[[], None]], None]

    def done(self, count: int) -> None:
        """All of it is durable."""
        self.answer(None)

    def failed(self, error: BusError) -> None:
        """Nothing of it happened; or the outcome is unknown, when a worker was lost."""
        if isinstance(error, OperationTimeout):
            self.answer(TransactionTimedOut(f"The transaction is in doubt. {error.text}"))
        else:
            self.give_back(partial(self.answer, _rolled_back(error)))


def _nothing() -> None:
    """Ignores the outcome."""


def _rolled_back(cause: BusError) -> BusError:
    """The error for a transaction that cannot be committed (TXN-12)."""
    if isinstance(cause, TransactionUnknown | TransactionTimedOut):
        return cause
    return TransactionRolledBack(f"The transaction was rolled back. {cause.text}")
