"""Work that joins a transaction: sends, settlements, cancellations.

Owns how an operation joins an open transaction: its limits, its scope, the check of locks, which a
fragment makes at once, and the command for the commit. Nothing is changed anywhere before the
commit. Called by sending and receiving links and by the management node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from partibus.domain.errors import BusError
from partibus.fragment.commands import Outcome, Settle, SubQueueType
from partibus.fragment.handle import Fragment
from partibus.fragment.message import NewMessage, Overlay
from partibus.fragment.transactions.commands import SILENT, CheckLocks
from partibus.gateway.links.submission import fragment_unavailable
from partibus.gateway.namespace import Entity
from partibus.gateway.operations.fanout import CountPart, FanOut
from partibus.gateway.tracing import Tracing
from partibus.gateway.transactions.destination import Part
from partibus.gateway.transactions.transaction import Transaction

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

Failure = Callable[[BusError], None]


@dataclass(eq=False)
class Settling:
    """Locks of one fragment that are settled in the same way."""

    fragment: Fragment
    subqueue: SubQueueType
    tokens: list[int]
    outcome: Outcome
    overlay: Overlay | None


def place_messages(
    connection: "ClientConnection",
    transaction: Transaction,
    entity: Entity,
    via: Entity | None,
    session: object,
    messages: list[NewMessage],
    payloads: Sequence[bytes],
) -> list[Part]:
    """Count messages, and find the fragments that take them at the commit."""
    transaction.count_messages(len(messages))
    connection.transactions.require_room(sum([len(message.body) for message in messages]))
    start = connection.gateway.random_start()
    parts = transaction.scope.send(entity, via, session, messages, payloads, start)
    for part in parts:
        keeper, path = transaction.scope.keeper(part)
        if not keeper.is_available:
            raise fragment_unavailable(keeper, path)
    return parts


def enlist_messages(
    transaction: Transaction, parts: Sequence[Part], tracing: Tracing | None
) -> None:
    """Store messages at the commit."""
    for part in parts:
        transaction.add_messages(part)
        if tracing is not None:
            transaction.traces(tracing).sent("send", part.path, part.messages)


def enlist_settlements(
    entity: Entity,
    session: object,
    transaction: Transaction,
    settlings: Sequence[Settling],
    finish: Callable[[], None],
    fail: Failure,
) -> None:
    """Check the locks now, and settle them at the commit if all of them are held."""
    transaction.count_operations(sum([len(settling.tokens) for settling in settlings]))
    for settling in settlings:
        transaction.scope.settle(entity, settling.fragment, session)

    def held(counts: list[int | None]) -> None:
        for one in settlings:
            command = Settle(SILENT, None, one.subqueue, one.tokens, one.outcome, one.overlay)
            transaction.add(one.fragment, command, 0)
        finish()
        transaction.let_go()

    def lost(error: BusError, counts: list[int | None]) -> None:
        transaction.fail(error)
        fail(error)
        transaction.let_go()

    transaction.hold()
    fan_out = FanOut[int](len(settlings), held, lost)
    for part, one in enumerate(settlings):
        port = CountPart(fan_out, part)
        one.fragment.submit(CheckLocks(port, one.subqueue, one.tokens, one.outcome))
