"""The spans of the work of one transaction, made when it has ended.

Owns what is remembered of traced sends and settlements until then. A span lasts from the operation
to the answer to the discharge, so that it shows how long the transaction was open; one that was
rolled back is an error. Made by the transaction, where the server exports traces.
"""

from collections.abc import Sequence

from partibus.domain.errors import BusError
from partibus.fragment.commands import Outcome
from partibus.fragment.message import NewMessage
from partibus.gateway.tracing import DISPOSITIONS, Operation, Tracing
from partibus.message.trace_context import TracedMessage, traced_message

Attributes = dict[str, str | int]


class TransactionTraces:
    """Traced work of an open transaction."""

    __slots__ = ("_tracing", "_txn_id", "_work")

    def __init__(self, tracing: Tracing, txn_id: bytes) -> None:
        self._tracing = tracing
        self._txn_id = txn_id.hex()
        self._work: list[tuple[Operation, str, str, TracedMessage, int, Attributes]] = []

    def sent(self, name: str, path: str, messages: Sequence[NewMessage]) -> None:
        """Messages are to be stored by the commit."""
        now_ns = self._tracing.now_ns()
        for message in messages:
            traced = traced_message(message.body)
            if traced is not None:
                self._work.append((Operation.SEND, name, path, traced, now_ns, {}))

    def settled(self, path: str, messages: Sequence[TracedMessage], outcome: Outcome) -> None:
        """Messages are to be settled by the commit."""
        word, now_ns = DISPOSITIONS[outcome], self._tracing.now_ns()
        for message in messages:
            attributes: Attributes = {"messaging.servicebus.disposition_status": word}
            self._work.append((Operation.SETTLE, word, path, message, now_ns, attributes))

    def ended(self, error: BusError | None) -> None:
        """The transaction was committed or rolled back."""
        work, self._work = self._work, []
        end_ns = self._tracing.now_ns()
        for operation, name, path, message, start_ns, attributes in work:
            attributes["partibus.transaction.id"] = self._txn_id
            self._tracing.record(
                operation, name, path, message, start_ns, end_ns, attributes, error
            )
