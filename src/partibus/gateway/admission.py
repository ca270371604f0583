"""The first word of a client: whose key it shows, and which namespace that is.

Owns the reading of SASL PLAIN and the way from the name of a key to the namespace behind it. One
server has one namespace, so there is nothing to choose; a server for tests hosts one for each
test, and the name of the key says which is meant (docs/adr/0019-test-namespaces.md). Whether the
key is right is access control's to say. Called by the connection and by `$cbs`.
"""

from typing import TYPE_CHECKING

from partibus.control.sas import key_name
from partibus.domain.errors import InvalidOperation, Unauthorized
from partibus.domain.notices import refused

if TYPE_CHECKING:
    from partibus.gateway.connection import ClientConnection


def put_plain(connection: "ClientConnection", response: bytes) -> bool:
    """RFC 4616: authorization identity, name and password between zero bytes."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        return False
    name = ""
    try:
        name, key = parts[1].decode(), parts[2].decode()
        enter(connection, name)
        connection.grants.put_plain(name, key)
    except UnicodeDecodeError:
        return False
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
