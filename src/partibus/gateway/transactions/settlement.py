"""Settlements of a receiving link that are part of a transaction.

Owns the reading of such a disposition and its answers. The answer is provisional: it confirms that
the settlement has joined the transaction; the commit decides about the message, which stays locked
until then (TXN-2, TXN-16). Called by receiving links.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partibus.amqp.delivery import Delivery, TransactionalState, transactional_state
from partibus.domain.address import parse_address
from partibus.domain.errors import ArgumentError, BusError
from partibus.fragment.commands import Outcome
from partibus.fragment.message import Overlay
from partibus.gateway.error_mapping import rejection
from partibus.gateway.links.outcomes import HEADER_SIZE_EXCEEDED, outcome_of, outgrows
from partibus.gateway.links.source import Source, lock_of
from partibus.gateway.transactions.enlistment import Settling, enlist_settlements

if TYPE_CHECKING:
    from partibus.gateway.links.outbound import OutboundLink


def settle_in_transaction(
    link: "OutboundLink",
    deliveries: Sequence[Delivery],
    state: TransactionalState,
    is_settled: bool,
) -> None:
    """Collect settlements for the commit; `is_settled` means that no answer is wanted."""
    transactions = link.connection.transactions

    def fail(error: BusError) -> None:
        transactions.fail(state.txn_id, error)
        if not is_settled:
            link.answer(deliveries, rejection(error))

    try:
        transaction = transactions.begin(state.txn_id)
        if state.outcome is None:
            raise ArgumentError("A settlement in a transaction needs an outcome.")
        outcome, overlay, answer = outcome_of(state.outcome)
        entity = link.connection.gateway.namespace.resolve(parse_address(link.path))

        def finish() -> None:
            if not is_settled:
                link.answer(deliveries, transactional_state(state.txn_id, answer))

        settlings = _settlings(deliveries, outcome, overlay)
        if is_settled:
            for one in settlings:
                transaction.forget(one.fragment, one.subqueue, one.tokens)
        tracing = link.connection.gateway.namespace.tracing
        if tracing is not None:
            locks = [lock_of(delivery) for delivery in deliveries]
            traced = [lock.trace for lock in locks if lock.trace is not None]
            transaction.traces(tracing).settled(link.path, traced, outcome)
        enlist_settlements(entity, link.session, transaction, settlings, finish, fail)
    except BusError as error:
        fail(error)


def _settlings(
    deliveries: Sequence[Delivery], outcome: Outcome, overlay: Overlay | None
) -> list[Settling]:
    """The locks of deliveries by fragment; messages whose headers would exceed their limit are
    dead-lettered, as outside of a transaction (MSG-4)."""
    groups: dict[Source, Settling] = {}
    swollen: list[Settling] = []
    for delivery in deliveries:
        lock = lock_of(delivery)
        source = lock.source
        if overlay is not None and outgrows(lock.header_bytes, outcome, overlay):
            dead = Outcome.DEAD_LETTER, HEADER_SIZE_EXCEEDED
            swollen.append(Settling(source.fragment, source.subqueue, [lock.token], *dead))
        elif source in groups:
            groups[source].tokens.append(lock.token)
        else:
            one = Settling(source.fragment, source.subqueue, [lock.token], outcome, overlay)
            groups[source] = one
    return [*groups.values(), *swollen]
