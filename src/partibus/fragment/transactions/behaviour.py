"""What transactions need of a single fragment, besides its ordinary commands.

Owns the check of locks before they are settled in a transaction, the release of messages at its end
and not before, and the answer that waits for all of its parts. `atomic` puts a transaction
together; called by the machine.
"""

from partibus.domain.errors import BusError, MessageLockLost, SessionLockLost
from partibus.fragment.changes import Change
from partibus.fragment.commands import Command, Settle, SubQueueType
from partibus.fragment.effects import Done, Effects, Failed, Settled
from partibus.fragment.message import Held
from partibus.fragment.ports import AnswerPort
from partibus.fragment.queue.dispatch import dispatch
from partibus.fragment.queue.settlement import refusal_of
from partibus.fragment.queue.subqueue import SubQueue
from partibus.fragment.state import State
from partibus.fragment.transactions.commands import CheckLocks


class Releasing(Change):
    """Messages wait again at the end of a transaction, uncounted; it has no record."""

    __slots__ = ("messages", "subqueue")

    def __init__(self, subqueue: SubQueueType, messages: list[Held]) -> None:
        self.records = []
        self.subqueue = subqueue
        self.messages = messages


class Discharge(Change):
    """No change of its own: the answer to a transaction, after all of its parts."""

    __slots__ = ("count", "port")

    def __init__(self, port: AnswerPort, count: int) -> None:
        self.records = []
        self.port = port
        self.count = count


def lock_lost(subqueue: SubQueue) -> BusError:
    """The error for a lock that is not held, of a message or of its session (LCK-5)."""
    return MessageLockLost() if subqueue.sessions is None else SessionLockLost()


def check_locks(state: State, command: Command, now_ms: int, out: Effects) -> None:
    """Whether all locks are held and the subqueue allows this settlement."""
    assert isinstance(command, CheckLocks)
    subqueue = state.subqueues[command.subqueue]
    error = refusal_of(subqueue, command.outcome)
    if error is None and any(
        subqueue.valid_lock(token, now_ms) is None for token in command.tokens
    ):
        error = lock_lost(subqueue)
    if error is None:
        out.outward.append(Done(command.port, len(command.tokens)))
    else:
        out.outward.append(Failed(command.port, error))


def release_at_end(state: State, command: Settle, now_ms: int, out: Effects) -> None:
    """Prepare a release: outside of a transaction it happens at once and needs no store."""
    subqueue = state.subqueues[command.subqueue]
    held: list[Held] = []
    lost: list[int] = []
    for token in command.tokens:
        message = subqueue.valid_lock(token, now_ms)
        if message is None:
            lost.append(token)
        else:
            message.busy = True
            held.append(message)
    out.changes.append(Releasing(command.subqueue, held))
    if lost and command.port is not None:
        out.outward.append(Settled(command.port, command.request, lost, None))


def released(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """The transaction is durable: the messages wait again."""
    assert isinstance(change, Releasing)
    subqueue = state.subqueues[change.subqueue]
    for held in change.messages:
        subqueue.unlock(held)
        subqueue.put_back(held)
    dispatch(state, subqueue, now_ms, out)


def abort_release(state: State, change: Change, error: BusError, out: Effects) -> None:
    """The transaction failed: the messages stay locked."""
    assert isinstance(change, Releasing)
    subqueue = state.subqueues[change.subqueue]
    for held in change.messages:
        subqueue.stay_locked(held)


def discharged(state: State, change: Change, now_ms: int, out: Effects) -> None:
    """All of a transaction is durable and carried out."""
    assert isinstance(change, Discharge)
    out.outward.append(Done(change.port, change.count))


def abort_discharge(state: State, change: Change, error: BusError, out: Effects) -> None:
    """All of a transaction was undone."""
    assert isinstance(change, Discharge)
    out.outward.append(Failed(change.port, error))
