"""The first word of a client: whose key it shows, and which namespace that is.

Owns the reading of SASL PLAIN and the way from the name of a key to the namespace behind it. One
server has one namespace, so there is nothing to choose; a server for tests hosts one for each
test, and the name of the key says which is meant (docs/adr/0019-test-namespaces.md). Whether the
key is right is access control's to say. Called by the connection and by `$cbs`.
"""

from typing import TYPE_CHECKING

from partibus.amqp.sasl import parse_plain
from partibus.control.sas import key_name
from partibus.domain.errors import InvalidOperation, Unauthorized
from partibus.domain.notices import refused

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection


def put_plain(connection: "ClientConnection", response: bytes) -> bool:
    """Let a client in by the name and the key of a policy."""
    plain = parse_plain(response)
    if plain is None:
        return False
    name, key = plain
    try:
        enter(connection, name)
        connection.grants.put_plain(name, key)
    except Unauthorized as error:
        refused("key refused", error, policy=name, **connection.origin.facts())
        return False
    return True


def enter_by_token(connection: "ClientConnection", token: str) -> None:
    """Lead a client to the namespace of the key that signed its token."""
    if connection.gateway.host is not None:
        enter(connection, key_name(token))


def enter(connection: "ClientConnection", name: str) -> None:
    """Lead a client to the namespace of its key; with its first token it has chosen."""
    host = connection.gateway.host
    if host is None:
        return
    gateway = host(name)
    if gateway is connection.gateway:
        return
    if not connection.grants.are_empty:
        raise InvalidOperation(
            f"The key '{name}' belongs to another namespace than the keys that this connection "
            "has shown; open another connection for it."
        )
    connection.move(gateway)
