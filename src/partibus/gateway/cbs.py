"""The `$cbs` node: clients put their tokens here before they open links (SAS-9).

Owns the put-token operation and its answers. Access control decides whether a token is valid; the
connection keeps the grant.
"""

from partibus.amqp.codec.text import is_text, text_of
from partibus.amqp.codec.types import Int, Symbol
from partibus.domain.address import parse_address
from partibus.domain.errors import ArgumentError, BusError, NotImplementedHere, Unauthorized
from partibus.domain.observing.error_counts import note_error
from partibus.domain.observing.notices import refused
from partibus.gateway.admission import enter_by_token
from partibus.gateway.requests import Request, RequestLink


class CbsNode(RequestLink):
    """Tokens in, grants on the connection."""

    __slots__ = ()

    def handle(self, request: Request) -> None:
        if request.operation != "put-token":
            raise NotImplementedHere(
                f"'$cbs' supports only the operation put-token, not '{request.operation}'."
            )
        given, name = request.body, request.properties.get("name")
        token, audience = text_of(given), text_of(name)
        if token is None or audience is None or not is_text(given) or not is_text(name):
            raise ArgumentError("put-token needs the token as its body and the property 'name'.")
        connection = self.connection
        enter_by_token(connection, token)
        if not connection.gateway.access.accepts(token):
            raise Unauthorized(
                "Only shared access signatures are accepted; connect with a connection string."
            )
        connection.grants.put_token(token, audience, connection.gateway.now_ms())
        connection.grants_changed()
        if connection.gateway.profile.refuses_tokens_for_nothing:
            self._require_entity(audience)
        request.answer({"status-code": Int(202), "status-description": "Accepted"})

    def _require_entity(self, audience: str) -> None:
        """The service looks up the entity at this point, but only for a valid token."""
        path = parse_address(audience).entity_path
        if path and "://" in audience:  # without a scheme, the host could be taken for a name
            self.connection.gateway.namespace.record(path)

    def fail(self, request: Request, error: BusError) -> None:
        """Report the error; the SDKs raise their own authentication error for a 401 and for a
        404."""
        note_error(error)
        refused("token refused", error, **self.connection.origin.facts())
        status: dict[str, object] = {
            "status-code": Int(error.http_status),
            "status-description": error.description_at(self.connection.host),
            "error-condition": Symbol(error.condition),
        }
        request.answer(status)
