"""The `$management` node of an entity: operations that need no link of their own.

Owns the envelope of management requests and the table of operations; each operation lives in
`operations/`. Answers carry statusCode as an int, statusDescription and, on failure, the
condition as a symbol (amqp-contract 7.2).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from partibus.amqp.codec.text import is_text, text_of
from partibus.amqp.codec.types import Array, Int, Symbol
from partibus.amqp.link import Link
from partibus.domain.address import Address
from partibus.domain.errors import (
    ArgumentError,
    BusError,
    InvalidOperation,
    NotImplementedHere,
    SessionLockLost,
)
from partibus.domain.rights import Rights
from partibus.gateway.links.session import HeldSession
from partibus.gateway.namespace import Entity
from partibus.gateway.operations import sessions
from partibus.gateway.operations.deferred import receive_by_sequence_number
from partibus.gateway.operations.delete import batch_delete_messages
from partibus.gateway.operations.locks import renew_lock, update_disposition
from partibus.gateway.operations.peek import peek_message
from partibus.gateway.operations.rules import add_rule, enumerate_rules, remove_rule
from partibus.gateway.operations.schedule import cancel_scheduled_message, schedule_message
from partibus.gateway.operations.transacted import IN_TRANSACTIONS, refusal
from partibus.gateway.requests import Request, RequestLink
from partibus.gateway.transactions.transaction import Transaction
from partibus.message.subqueues import subqueue_of

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

_PREFIX: Final = "com.microsoft:"
NUMBERS_MAX: Final = 10_000
"""The maximum count of numbers in one field of a request."""


class ManagementRequest:
    """A request to an entity's management node, with the objects that its operation works on."""

    __slots__ = ("_request", "entity", "fields", "link_name", "node", "subqueue")

    def __init__(self, node: "ManagementNode", request: Request) -> None:
        if not isinstance(request.body, Mapping):
            raise ArgumentError("A management request needs a map as its body.")
        self._request = request
        self.node = node
        self.link_name = text_of(request.properties.get("associated-link-name")) or ""
        self.entity = node.entity
        self.subqueue = subqueue_of(node.node)
        self.fields: Mapping[object, object] = request.body

    @property
    def operation(self) -> str:
        """The name of the operation."""
        return self._request.operation

    def succeed(self, body: dict[str, object] | None = None) -> None:
        """Answer 200 with a body."""
        status = {"statusCode": Int(200), "statusDescription": "OK"}
        self._request.answer(status, body if body is not None else {})

    def succeed_empty(self) -> None:
        """Answer 204: success, with no content."""
        self._request.answer({"statusCode": Int(204), "statusDescription": "No Content"}, {})

    def fail(self, error: BusError) -> None:
        """Answer with an error."""
        self.node.fail(self._request, error)

    def fail_fan_out(self, error: BusError, results: Sequence[object]) -> None:
        """Answer with the error of one of several fragments."""
        self.fail(error)

    @property
    def is_in_sessions(self) -> bool:
        """Whether the messages it concerns are received in sessions (DLQ-10)."""
        return self.entity.is_in_sessions(self.subqueue)

    def session_id(self) -> str | None:
        """The session that it names, if any."""
        value = self.fields.get("session-id")
        if value is not None and not is_text(value):
            raise ArgumentError("'session-id' must be a string.")
        return text_of(value)

    def held_session(self) -> HeldSession:
        """The session that it names, which must be held by a link of this connection (SES-12)."""
        session_id = self.session_id()
        if not self.is_in_sessions:
            raise InvalidOperation(
                f"'{self.entity.record.path}' does not require sessions; this operation "
                "works only with sessions."
            )
        if session_id is None:
            return self._session_of_link()
        link = self.node.connection.held_sessions.get((self.entity.record.path, session_id))
        if link is None:
            raise SessionLockLost
        return link.held()

    def _session_of_link(self) -> HeldSession:
        """The session of the link that it names: the Go client names no session itself."""
        path = self.entity.record.path
        for (held_path, _), link in self.node.connection.held_sessions.items():
            if held_path == path and link.name == self.link_name:
                return link.held()
        raise ArgumentError("The request must name a session by its 'session-id'.")

    def number(self, key: str, default: int | None = None) -> int:
        """A field that must be a number."""
        value = self.fields.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ArgumentError(f"'{key}' must be a number.")
        return int(value)

    def numbers(self, key: str) -> list[int]:
        """A field that must be a non-empty array of numbers."""
        array = self.fields.get(key)
        items = array.items if isinstance(array, Array) else array
        if not isinstance(items, list) or not 0 < len(items) <= NUMBERS_MAX:
            raise ArgumentError(f"'{key}' must be an array of 1 to {NUMBERS_MAX} numbers.")
        numbers = [int(item) for item in items if isinstance(item, int)]
        if len(numbers) < len(items):
            raise ArgumentError(f"'{key}' must contain only numbers.")
        return numbers


Operation = Callable[[ManagementRequest], None]

OPERATIONS: Final[Mapping[str, tuple[Operation, Rights]]] = {
    "renew-lock": (renew_lock, Rights.LISTEN),
    "update-disposition": (update_disposition, Rights.LISTEN),
    "peek-message": (peek_message, Rights.LISTEN),
    "receive-by-sequence-number": (receive_by_sequence_number, Rights.LISTEN),
    "batch-delete-messages": (batch_delete_messages, Rights.LISTEN),
    "renew-session-lock": (sessions.renew_session_lock, Rights.LISTEN),
    "get-session-state": (sessions.get_session_state, Rights.LISTEN),
    "set-session-state": (sessions.set_session_state, Rights.LISTEN),
    "get-message-sessions": (sessions.get_message_sessions, Rights.LISTEN),
    "add-rule": (add_rule, Rights.LISTEN),
    "remove-rule": (remove_rule, Rights.LISTEN),
    "enumerate-rules": (enumerate_rules, Rights.LISTEN),
    "schedule-message": (schedule_message, Rights.SEND),
    "cancel-scheduled-message": (cancel_scheduled_message, Rights.SEND),
}


BESIDE_TRANSACTIONS: Final = frozenset(("renew-lock", "renew-session-lock"))
"""Allowed in a transaction but not part of it: they take effect at once (TXN-1)."""


class ManagementNode(RequestLink):
    """The management node of one entity, or of its dead-letter queue."""

    __slots__ = ("entity",)

    def __init__(
        self, connection: "ClientConnection", link: Link, node: Address, entity: Entity
    ) -> None:
        super().__init__(connection, link, node)
        self.entity = entity

    def handle(self, request: Request) -> None:
        if request.transaction is None:
            operation = self._allowed(request.operation.removeprefix(_PREFIX))
            operation(ManagementRequest(self, request))
        else:
            self._handle_in_transaction(request, request.transaction)

    def _allowed(self, name: str) -> Operation:
        """The operation of this name, if the client has the right for it."""
        known = OPERATIONS.get(name)
        if known is None:
            raise NotImplementedHere(f"This server does not offer the operation '{name}'.")
        operation, right = known
        connection = self.connection
        connection.grants.require(self.node.path, right, connection.gateway.now_ms())
        return operation

    def _handle_in_transaction(self, request: Request, transaction: Transaction) -> None:
        """Add an operation to its transaction, or refuse it."""
        name = request.operation.removeprefix(_PREFIX)
        joining = IN_TRANSACTIONS.get(name)
        if joining is None and name not in BESIDE_TRANSACTIONS:
            raise refusal(name, self.entity)
        operation = self._allowed(name)
        managed = ManagementRequest(self, request)
        if joining is None:
            operation(managed)
        else:
            joining(managed, transaction)

    def fail(self, request: Request, error: BusError) -> None:
        status: dict[str, object] = {
            "statusCode": Int(error.http_status),
            "statusDescription": error.description_at(self.connection.host),
            "errorCondition": Symbol(error.condition),
        }
        request.answer(status)
