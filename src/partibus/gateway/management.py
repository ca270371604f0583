"""The `$management` node of an entity: operations that need no link of their own.

Owns the envelope of management requests and the table of operations; each operation lives in
`operations/`. Answers carry statusCode as an int, statusDescription and, on failure, the
condition as a symbol (amqp-contract 7.2).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from partibus.amqp.link import Link
from partibus.amqp.types import Int, Symbol
from partibus.domain.address import DEAD_LETTER, Address
from partibus.domain.errors import ArgumentError, BusError, NotImplementedHere
from partibus.domain.rights import Rights
from partibus.fragment.commands import Lane
from partibus.gateway.namespace import Entity
from partibus.gateway.operations.locks import renew_lock, update_disposition
from partibus.gateway.requests import Request, RequestLink

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection

_PREFIX: Final = "com.microsoft:"


class ManagementRequest:
    """A request to an entity's management node, with what its operation works on."""

    __slots__ = ("_request", "entity", "fields", "lane", "node")

    def __init__(self, node: "ManagementNode", request: Request) -> None:
        if not isinstance(request.body, Mapping):
            raise ArgumentError("A management request needs a map as its body.")
        self._request = request
        self.node = node
        self.entity = node.entity
        self.lane = Lane.DEAD_LETTER if node.node.sub_queue == DEAD_LETTER else Lane.MAIN
        self.fields: Mapping[object, object] = request.body

    def succeed(self, body: dict[str, object] | None = None) -> None:
        """Answer 200 with a body."""
        status = {"statusCode": Int(200), "statusDescription": "OK"}
        self._request.answer(status, body if body is not None else {})

    def fail(self, error: BusError) -> None:
        """Answer with an error."""
        self.node.fail(self._request, error)


Operation = Callable[[ManagementRequest], None]

OPERATIONS: Final[Mapping[str, tuple[Operation, Rights]]] = {
    "renew-lock": (renew_lock, Rights.LISTEN),
    "update-disposition": (update_disposition, Rights.LISTEN),
}


class ManagementNode(RequestLink):
    """The management node of one entity, or of its dead-letter queue."""

    __slots__ = ("entity",)

    def __init__(
        self, connection: "ClientConnection", link: Link, node: Address, entity: Entity
    ) -> None:
        super().__init__(connection, link, node)
        self.entity = entity

    def handle(self, request: Request) -> None:
        name = request.operation.removeprefix(_PREFIX)
        known = OPERATIONS.get(name)
        if known is None:
            raise NotImplementedHere(f"This server does not offer the operation '{name}'.")
        operation, right = known
        connection = self.connection
        connection.claims.require(self.node.path, right, connection.gateway.now_ms())
        operation(ManagementRequest(self, request))

    def fail(self, request: Request, error: BusError) -> None:
        status: dict[str, object] = {
            "statusCode": Int(error.http_status),
            "statusDescription": error.description,
            "errorCondition": Symbol(error.condition),
        }
        request.answer(status)
