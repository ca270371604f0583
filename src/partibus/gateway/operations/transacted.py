"""Operations of the management node that join a transaction (SCH-7, TXN-1).

Owns how each of them joins: settlement by token, scheduling, and the cancellation of scheduled
messages. Answers are provisional, as on links; scheduled messages get their numbers at once, since
clients wait for them before they commit.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from partibus.domain.errors import BusError, InvalidOperation, NotImplementedHere
from partibus.domain.sequence import client_sequence
from partibus.fragment.commands import CancelScheduled
from partibus.fragment.transactions.commands import SILENT, EnqueueNumbered, ReserveNumbers
from partibus.gateway.namespace import Entity
from partibus.gateway.operations.deferred import by_fragment
from partibus.gateway.operations.fanout import FanOut, FragmentPort
from partibus.gateway.operations.locks import disposition
from partibus.gateway.operations.schedule import messages_to_schedule, tell_numbers
from partibus.gateway.transactions.enlistment import Settling, enlist_settlements, place_messages
from partibus.gateway.transactions.transaction import Transaction
from partibus.message.subqueues import subqueue_path

if TYPE_CHECKING:
    from partibus.gateway.management import ManagementRequest

Numbers = tuple[int, int]
"""The first of the reserved numbers, and the incarnation that they are valid for."""


class NumbersPart(FragmentPort[Numbers]):
    """The port of one fragment that reserves numbers."""

    __slots__ = ()

    def reserved(self, first_sequence: int, incarnation: int) -> None:
        self.put((first_sequence, incarnation))


def update_disposition(request: "ManagementRequest", transaction: Transaction) -> None:
    """Settle by token at the commit; the locks are checked now."""
    groups, outcome, overlay = disposition(request)
    settlings = [
        Settling(group.fragment, request.subqueue, group.numbers, outcome, overlay)
        for group in groups
    ]
    tracing = request.node.connection.gateway.namespace.tracing
    if tracing is not None:
        path = subqueue_path(request.entity.record.path, request.subqueue)
        for group in groups:
            found = tracing.settling(group.fragment.fragment_id, group.numbers)
            transaction.traces(tracing).settled(path, found, outcome)
    session = request.node.session
    enlist_settlements(
        request.entity, session, transaction, settlings, request.succeed, request.fail
    )


def schedule_message(request: "ManagementRequest", transaction: Transaction) -> None:
    """Store messages at the commit; their numbers are reserved and returned now."""
    messages, payloads = messages_to_schedule(request)
    node = request.node
    parts = place_messages(
        node.connection, transaction, request.entity, None, node.session, messages, payloads
    )
    transaction.scope.number(parts)
    tracing = node.connection.gateway.namespace.tracing

    def finish(results: list[Numbers | None]) -> None:
        numbers: dict[int, int] = {}
        for part, result in zip(parts, results, strict=True):
            assert result is not None
            first, incarnation = result
            command = EnqueueNumbered(SILENT, part.messages, part.byte_count, first, incarnation)
            transaction.add(part.fragment, command, part.byte_count)
            if tracing is not None:
                transaction.traces(tracing).sent("schedule", part.path, part.messages)
            for place, message in enumerate(part.messages):
                numbers[id(message)] = client_sequence(part.fragment.index, first + place)
        tell_numbers(request, [numbers[id(message)] for message in messages])
        transaction.let_go()

    def fail(error: BusError, results: Sequence[object]) -> None:
        transaction.fail(error)
        request.fail(error)
        transaction.let_go()

    transaction.hold()
    fan_out = FanOut[Numbers](len(parts), finish, fail)
    for place, part in enumerate(parts):
        port = NumbersPart(fan_out, place)
        part.fragment.submit(ReserveNumbers(port, len(part.messages)))


def cancel_scheduled_message(request: "ManagementRequest", transaction: Transaction) -> None:
    """Cancel at the commit, which fails if one of the messages is no longer scheduled."""
    groups = by_fragment(request.entity, request.numbers("sequence-numbers"))
    transaction.count_operations(sum([len(numbers) for _, numbers in groups]))
    for fragment, _ in groups:
        transaction.scope.settle(request.entity, fragment, request.node.session)
    for fragment, numbers in groups:
        transaction.add(fragment, CancelScheduled(SILENT, numbers), 0)
    request.succeed()


Joining = Callable[["ManagementRequest", Transaction], None]

IN_TRANSACTIONS: Final[Mapping[str, Joining]] = {
    "update-disposition": update_disposition,
    "schedule-message": schedule_message,
    "cancel-scheduled-message": cancel_scheduled_message,
}


def refusal(name: str, entity: Entity) -> BusError:
    """Why an operation cannot be part of a transaction."""
    if name in ("add-rule", "remove-rule"):
        if len(entity.fragments) > 1:
            return InvalidOperation(
                f"Rules of subscriptions of the partitioned '{entity.record.path}' cannot be "
                "added or removed inside a transaction (SEED-74). Do it outside."
            )
        return NotImplementedHere(
            "This version of the server adds and removes rules only outside transactions."
        )
    return InvalidOperation(
        f"The operation '{name}' cannot be part of a transaction; allowed: "
        f"{', '.join(IN_TRANSACTIONS)}. Run it outside the transaction."
    )
