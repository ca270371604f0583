"""The transactions that a client has open on one connection.

Owns their ids, their number, the bytes that they hold in memory, and the time at which the first of
them expires. A transaction is known only to the connection that declared it. Control links declare
and discharge; links of all kinds find a transaction here by the id in their transfers and
dispositions.
"""

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from partibus.domain.errors import (
    BusError,
    QuotaExceeded,
    ServerBusy,
    TransactionSizeExceeded,
    TransactionUnknown,
)
from partibus.gateway.transactions.transaction import Answer, Transaction

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

OPEN_MAX: Final = 1000
"""Transactions that a connection may have open at the same time."""
BYTES_MAX: Final = 128 * 1024 * 1024
"""Message bytes that wait for a commit, over all transactions of a connection: room for the largest
message of any profile."""
ID_BYTES: Final = 16


@dataclass(eq=False, slots=True)
class OpenTransactions:
    """The transactions of one connection."""

    connection: "ClientConnection"
    _by_id: dict[bytes, Transaction] = field(init=False, default_factory=dict)

    def declare(self) -> Transaction:
        """Open a transaction."""
        if len(self._by_id) >= OPEN_MAX:
            raise QuotaExceeded(
                f"A connection may have at most {OPEN_MAX} open transactions; discharge some."
            )
        transaction = Transaction(secrets.token_bytes(ID_BYTES), self.connection.gateway.profile)
        self._by_id[transaction.txn_id] = transaction
        return transaction

    def begin(self, txn_id: bytes) -> Transaction:
        """The transaction that an operation is part of."""
        now_ms = self.connection.gateway.monotonic_ms()
        transaction = self._open(txn_id, now_ms)
        transaction.begin(now_ms)
        assert transaction.deadline_ms is not None
        self.connection.wake_by(transaction.deadline_ms)
        return transaction

    def _open(self, txn_id: bytes, now_ms: int) -> Transaction:
        transaction = self._by_id.get(txn_id)
        if transaction is None or transaction.is_discharged:
            raise TransactionUnknown
        if transaction.is_due(now_ms):
            transaction.expire()
        return transaction

    def require_room(self, byte_count: int) -> None:
        """Refuse more bytes than a connection may have waiting for a commit."""
        held = self.byte_count
        if held + byte_count > BYTES_MAX:
            raise TransactionSizeExceeded(
                f"The messages of this connection's open transactions take {held} bytes; at "
                f"most {BYTES_MAX} are allowed. Commit, or use several connections."
            )
        if held + byte_count > self.connection.unfinished_bytes_max():
            raise ServerBusy(
                "The server has no memory left for more messages that wait for a commit. "
                "Wait a few seconds and try again."
            )

    @property
    def byte_count(self) -> int:
        """The bytes of messages that wait for a commit."""
        if not self._by_id:
            return 0
        return sum([transaction.byte_count for transaction in self._by_id.values()])

    def fail(self, txn_id: bytes, error: BusError) -> None:
        """An operation of a transaction was refused."""
        transaction = self._by_id.get(txn_id)
        if transaction is not None:
            transaction.fail(error)

    # --- the end of transactions ------------------------------------------------------------

    def discharge(self, txn_id: bytes, fail: bool, answer: Answer) -> None:
        """Commit a transaction, or roll it back."""
        transaction = self._open(txn_id, self.connection.gateway.monotonic_ms())
        if fail:
            del self._by_id[txn_id]
            transaction.roll_back(lambda: answer(None))
            return

        def finish(error: BusError | None) -> None:
            self._by_id.pop(txn_id, None)
            answer(error)

        transaction.commit(finish)

    def roll_back(self, txn_id: bytes) -> None:
        """A transaction's control link is gone (TXN-11)."""
        transaction = self._by_id.get(txn_id)
        if transaction is not None and not transaction.is_submitted:
            del self._by_id[txn_id]
            transaction.roll_back()

    def expire(self, now_ms: int) -> None:
        """Roll back what was not discharged in time; the id stays known, with the reason."""
        for transaction in self._by_id.values():
            if transaction.is_due(now_ms):
                transaction.expire()

    def next_deadline_ms(self) -> int | None:
        """When the next of them expires."""
        times = [
            transaction.deadline_ms
            for transaction in self._by_id.values()
            if transaction.deadline_ms is not None
            and transaction.failure is None
            and not transaction.is_submitted
        ]
        return min(times, default=None)
