"""The control link of transactions: declare and discharge [4.5].

Owns the reading of control messages and their answers. A transaction belongs to the control link
that declared it: when that closes, with its connection or alone, open transactions are rolled back
(TXN-11). `transaction` owns the work of a transaction.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.decode import DecodeError, decode_value
from partibus.amqp.codec.sections import AMQP_VALUE, parse_sections
from partibus.amqp.codec.types import Described
from partibus.amqp.delivery import ACCEPTED, declared
from partibus.amqp.events import TransferReceived
from partibus.amqp.link import Link
from partibus.domain import errors
from partibus.gateway.error_mapping import rejection

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

CREDIT: Final = 100
_DECLARE: Final = 0x31
_DISCHARGE: Final = 0x32
_CODES: Final = {"amqp:declare:list": _DECLARE, "amqp:discharge:list": _DISCHARGE}
_VALUE_DESCRIPTOR: Final = bytes((0x00, 0x53, AMQP_VALUE))


def require_transactions(connection: "ClientConnection") -> None:
    """Refuse a control link where transactions are not supported.

    No token is required: Java's client declares a transaction before it puts its first token. Each
    operation checks its own rights, and a connection without a token ends after 20 s (SAS-9).
    """
    if not connection.gateway.namespace.profile.has_tier_features:
        raise errors.InvalidOperation("Transactions are not available in the Basic tier (TXN-18).")


@dataclass(eq=False, slots=True)
class CoordinatorLink:
    """One control link of a client."""

    connection: "ClientConnection"
    link: Link
    _declared: dict[bytes, None] = field(init=False, default_factory=dict)  # in their order
    """Open transactions of this link."""
    _credit_used: int = field(init=False, default=0)
    _is_closed: bool = field(init=False, default=False)

    def open(self) -> None:
        """Grant the client its first credit."""
        self.link.set_credit(CREDIT)

    def transfer(self, event: TransferReceived) -> None:
        """A control message; it is answered with an outcome, so it must not be sent settled
        (TXN-11)."""
        if event.settled:
            error = errors.InvalidOperation(
                "Messages to a transaction coordinator must not be sent settled."
            )
            self.connection.drop(self.link, error)
            return
        self._credit_used += 1
        try:
            self._handle(event.delivery_id, _control(event.payload))
        except errors.BusError as error:
            self._settle(event.delivery_id, rejection(error))

    def _handle(self, delivery_id: int, control: tuple[int, list[object]]) -> None:
        code, fields = control
        if code == _DECLARE:
            self._declare(delivery_id, fields)
        else:
            self._discharge(delivery_id, fields)

    def _declare(self, delivery_id: int, fields: list[object]) -> None:
        if fields and fields[0] is not None:
            raise errors.NotImplementedHere(
                "Transactions with a global id (distributed transactions) are not supported."
            )
        transaction = self.connection.transactions.declare()
        self._declared[transaction.txn_id] = None
        self._settle(delivery_id, declared(transaction.txn_id))

    def _discharge(self, delivery_id: int, fields: list[object]) -> None:
        txn_id = fields[0] if fields else None
        if not isinstance(txn_id, bytes):
            raise errors.ArgumentError("A discharge must name a transaction by its txn-id.")
        if txn_id not in self._declared:
            raise errors.TransactionUnknown
        fail = len(fields) > 1 and fields[1] is True

        def answer(error: errors.BusError | None) -> None:
            self._declared.pop(txn_id, None)
            self._settle(delivery_id, ACCEPTED if error is None else rejection(error))

        self.connection.transactions.discharge(txn_id, fail, answer)

    def _settle(self, delivery_id: int, outcome: bytes) -> None:
        if self._is_closed:
            return
        self.link.settle(delivery_id, outcome)
        if self._credit_used * 2 >= CREDIT:
            self._credit_used = 0
            self.link.set_credit(CREDIT)
        self.connection.has_output()

    def closed(self) -> None:
        """The link is gone: roll back what was not discharged (TXN-11)."""
        self._is_closed = True
        for txn_id in self._declared:
            self.connection.transactions.roll_back(txn_id)
        self._declared.clear()


def _control(payload: bytes) -> tuple[int, list[object]]:
    """The request of a control message, by its code, and its fields."""
    try:
        offset = parse_sections(payload).body_offset
        if offset < 0 or payload[offset : offset + 3] != _VALUE_DESCRIPTOR:
            raise DecodeError("there is no value")
        value = decode_value(payload, offset + 3, len(payload))[0]
    except DecodeError as cause:
        raise errors.MalformedMessage(
            f"The control message is not well-formed: {cause}."
        ) from cause
    if isinstance(value, Described) and isinstance(value.value, list):
        descriptor = value.descriptor
        code = _CODES.get(str(descriptor)) if isinstance(descriptor, str) else descriptor
        if code in (_DECLARE, _DISCHARGE):
            return int(code), value.value
    raise errors.MalformedMessage("A transaction coordinator accepts only declare and discharge.")
