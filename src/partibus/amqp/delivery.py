"""Deliveries that we sent, and the states that settle a delivery [3.4, 4.5].

Owns the encoded outcomes that we write, the small classes that a peer's states decode to, and
`Delivery`. Must never decide what an outcome means for a message: the owner does. Used by links,
dispositions and code that settles.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.decode import DecodeError
from partibus.amqp.codec.encode import (
    ENCODED_FALSE,
    ENCODED_NULL,
    ENCODED_TRUE,
    encode_binary,
    encode_described_list,
)
from partibus.amqp.codec.types import Described
from partibus.amqp.errors import AmqpError, encode_symbol_map, error_from_value, string_keyed

if TYPE_CHECKING:
    from partibus.amqp.link import Link

_RECEIVED: Final = 0x23
_ACCEPTED: Final = 0x24
_REJECTED: Final = 0x25
_RELEASED: Final = 0x26
_MODIFIED: Final = 0x27
_DECLARED: Final = 0x33
_TRANSACTIONAL: Final = 0x34

_CODES: Final = {
    "amqp:received:list": _RECEIVED,
    "amqp:accepted:list": _ACCEPTED,
    "amqp:rejected:list": _REJECTED,
    "amqp:released:list": _RELEASED,
    "amqp:modified:list": _MODIFIED,
    "amqp:declared:list": _DECLARED,
    "amqp:transactional-state:list": _TRANSACTIONAL,
}


class Delivery:
    """One outgoing message. `delivery_id` is -1 until its first frame was written."""

    __slots__ = ("context", "delivery_id", "link", "message_format", "settled", "tag")

    def __init__(
        self, link: "Link", tag: bytes, settled: bool, message_format: int, context: object
    ) -> None:
        self.link = link
        self.tag = tag
        self.settled = settled
        self.message_format = message_format
        self.context = context
        self.delivery_id = -1

    def __repr__(self) -> str:
        return f"Delivery({self.link!r}, {self.delivery_id}, {self.tag!r})"


# --- what we write ----------------------------------------------------------------------------

ACCEPTED: Final = encode_described_list(_ACCEPTED, [])
RELEASED: Final = encode_described_list(_RELEASED, [])
# The confirmation of a dead-letter: the Python client raises when it carries an error.
REJECTED: Final = encode_described_list(_REJECTED, [ENCODED_NULL])


def modified(
    delivery_failed: bool, undeliverable_here: bool, annotations: dict[str, object] | None = None
) -> bytes:
    """The outcome of abandon and, with `undeliverable_here`, of defer."""
    return encode_described_list(
        _MODIFIED,
        [
            ENCODED_TRUE if delivery_failed else ENCODED_FALSE,
            ENCODED_TRUE if undeliverable_here else ENCODED_FALSE,
            ENCODED_NULL if annotations is None else encode_symbol_map(annotations),
        ],
    )


MODIFIED: Final = modified(False, False)
MODIFIED_FAILED: Final = modified(True, False)
MODIFIED_UNDELIVERABLE: Final = modified(False, True)


def rejected(error: AmqpError) -> bytes:
    return encode_described_list(_REJECTED, [error.encode()])


def declared(txn_id: bytes) -> bytes:
    return encode_described_list(_DECLARED, [encode_binary(txn_id)])


def transactional_state(txn_id: bytes, outcome: bytes | None = None) -> bytes:
    return encode_described_list(_TRANSACTIONAL, [encode_binary(txn_id), outcome or ENCODED_NULL])


# --- what we read -----------------------------------------------------------------------------


class DeliveryState:
    """What a peer reports about a delivery."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Accepted(DeliveryState):
    __slots__ = ()


class Released(DeliveryState):
    __slots__ = ()


class Received(DeliveryState):
    """Not an outcome: how far a delivery has come, for links that resume."""

    __slots__ = ()


class Rejected(DeliveryState):
    __slots__ = ("error",)

    def __init__(self, error: AmqpError | None) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"Rejected({self.error!r})"


@dataclass(eq=False)
class Modified(DeliveryState):
    delivery_failed: bool
    undeliverable_here: bool
    annotations: dict[str, object]

    def __repr__(self) -> str:
        return f"Modified({self.delivery_failed}, {self.undeliverable_here}, {self.annotations!r})"


class Declared(DeliveryState):
    __slots__ = ("txn_id",)

    def __init__(self, txn_id: bytes) -> None:
        self.txn_id = txn_id

    def __repr__(self) -> str:
        return f"Declared({self.txn_id!r})"


@dataclass(eq=False)
class TransactionalState(DeliveryState):
    txn_id: bytes
    outcome: DeliveryState | None

    def __repr__(self) -> str:
        return f"TransactionalState({self.txn_id!r}, {self.outcome!r})"


_THE_ACCEPTED: Final = Accepted()
_THE_RELEASED: Final = Released()
_THE_RECEIVED: Final = Received()


def state_from_value(value: object) -> DeliveryState | None:
    """The state in a decoded field; None for null and for states that we do not know."""
    if value is None:
        return None
    if not isinstance(value, Described) or not isinstance(value.value, list):
        raise DecodeError("a delivery state is not a described list")
    fields = value.value
    descriptor = value.descriptor
    code = _CODES.get(str(descriptor)) if isinstance(descriptor, str) else descriptor
    if code == _ACCEPTED:
        return _THE_ACCEPTED
    if code == _RELEASED:
        return _THE_RELEASED
    if code == _RECEIVED:
        return _THE_RECEIVED
    if code == _MODIFIED:
        return Modified(
            _field(fields, 0) is True, _field(fields, 1) is True, string_keyed(_field(fields, 2))
        )
    if code == _REJECTED:
        return Rejected(error_from_value(_field(fields, 0)))
    if code == _DECLARED:
        return Declared(_txn_id(fields))
    if code == _TRANSACTIONAL:
        return TransactionalState(_txn_id(fields), state_from_value(_field(fields, 1)))
    return None


def _field(fields: list[object], index: int) -> object:
    return fields[index] if index < len(fields) else None


def _txn_id(fields: list[object]) -> bytes:
    txn_id = _field(fields, 0)
    if not isinstance(txn_id, bytes):
        raise DecodeError("a transactional state has no txn-id")
    return txn_id
