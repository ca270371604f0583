"""The first step of a client: which key it presents, and which namespace that belongs to.

Owns the reading of SASL PLAIN and the look-up of the namespace by the name of a key. A server has
one namespace, so there is nothing to choose; a server for tests hosts one for each test, and the
name of the key selects it (docs/adr/0019-test-namespaces.md). Access control decides whether the
key is right. Called by the connection and by `$cbs`.
"""

from typing import TYPE_CHECKING

from partibus.amqp.sasl import parse_plain
from partibus.control.access.sas import key_name
from partibus.domain.errors import InvalidOperation, Unauthorized
from partibus.domain.observing.notices import refused

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection


def put_plain(connection: "ClientConnection", response: bytes) -> bool:
    """Admit a client by the name and the key of a policy."""
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
    """Move a client to the namespace of the key that signed its token."""
    if connection.gateway.host is not None:
        enter(connection, key_name(token))


def enter(connection: "ClientConnection", name: str) -> None:
    """Move a client to the namespace of its key; its first token decides."""
    host = connection.gateway.host
    if host is None:
        return
    gateway = host(name)
    if gateway is connection.gateway:
        return
    if not connection.grants.are_empty:
        raise InvalidOperation(
            f"The key '{name}' belongs to another namespace than the keys that this connection "
            "has used; open another connection for it."
        )
    connection.move(gateway)
