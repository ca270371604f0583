"""Namespaces in addition to the server's own, one for each test, selected by the name of the key.

Owns the list of them and the look-up by a key's name. Each is a separate node with its own catalog,
stores in memory, clock and faults, so that parallel tests never interfere. Ports, certificate and
memory account are the server's. Made only by the node of a server started with `--testing`; reached
over HTTP by `ops.admin.testing` (docs/adr/0019-test-namespaces.md).
"""

import asyncio
import re
import secrets
from typing import TYPE_CHECKING, Final

from partibus.cluster.control_hub import Payload
from partibus.control.access.policies import ROOT_POLICY_NAME, AccessPolicy, new_key
from partibus.domain.errors import (
    ArgumentError,
    EntityExists,
    EntityNotFound,
    InvalidOperation,
    QuotaExceeded,
)
from partibus.domain.rights import ALL_RIGHTS

if TYPE_CHECKING:
    from partibus.gateway.gateway import Gateway
    from partibus.server.node import Node

NAMESPACES_MAX: Final = 1_000
"""Each costs a few hundred kilobytes; more than this are forgotten ones."""
NAME_LENGTH_MAX: Final = 64
POLICY_SEPARATOR: Final = "."
"""After the name of a namespace: the policy `t1.reader` belongs to the namespace `t1`."""
SWITCHED_OFF: Final = (
    "This server has one namespace: it was started without --testing. Start it with "
    "'partibus serve --testing' where each test needs its own."
)
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?", re.ASCII)


class NoNamespaces:
    """Used where a server has one namespace."""

    def list(self) -> Payload:
        raise InvalidOperation(SWITCHED_OFF)

    async def create(self, body: Payload) -> Payload:
        raise InvalidOperation(SWITCHED_OFF)

    async def delete(self, name: str) -> Payload:
        raise InvalidOperation(SWITCHED_OFF)


class HostedNamespaces(NoNamespaces):
    """All additional namespaces of a test server."""

    def __init__(self, own: "Node") -> None:
        self._own = own
        self._nodes: dict[str, Node] = {}
        self._is_stopped = False
        own.gateway.host = self._gateway_of

    def guest_of(self, key_name: str) -> "Node | None":
        """The node of the namespace that a key is for; None for the server's own."""
        return self._nodes.get(key_name.partition(POLICY_SEPARATOR)[0])

    def _gateway_of(self, key_name: str) -> "Gateway":
        return (self.guest_of(key_name) or self._own).gateway

    # --- their lives --------------------------------------------------------------------------

    def list(self) -> Payload:
        """The names of the namespaces."""
        return {"namespaces": [{"name": name} for name in self._nodes]}

    async def create(self, body: Payload) -> Payload:
        """An empty namespace; without a name it gets a new one."""
        if set(body) - {"name"}:
            raise ArgumentError("Only 'name' is allowed, and it may be left out.")
        name = self._checked(body.get("name", f"test-{secrets.token_hex(8)}"))
        node = self._own.guest()
        await node.start()
        if self._is_stopped or name in self._nodes:
            await node.stop()
            raise EntityExists(f"A namespace '{name}' already exists.")
        key = self._key()
        node.catalog.put_policy("", AccessPolicy(name, key, new_key(), ALL_RIGHTS))
        node.gateway.memory = self._own.gateway.memory
        node.bulk.certificates = self._own.bulk.certificates
        node.gateway.host = self._gateway_of
        self._nodes[name] = node
        return {"name": name, "key_name": name, "key": key}

    async def delete(self, name: str) -> Payload:
        """Delete a namespace with all its content; its clients are disconnected."""
        node = self._nodes.pop(name, None)
        if node is None:
            raise EntityNotFound(f"There is no namespace '{name}'.")
        await node.stop()
        return {"deleted": name}

    async def stop(self) -> None:
        """The server stops."""
        self._is_stopped = True
        await asyncio.gather(*(self.delete(name) for name in list(self._nodes)))

    def _checked(self, name: object) -> str:
        if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX or not _NAME.fullmatch(name):
            raise ArgumentError(
                f"'{name}' is not a valid namespace name: use 1 to {NAME_LENGTH_MAX} letters, "
                "digits, '-' and '_', beginning and ending with a letter or digit."
            )
        if name in self._nodes or self._own.catalog.policy("", name) is not None:
            raise EntityExists(f"A namespace or policy '{name}' already exists.")
        if len(self._nodes) >= NAMESPACES_MAX:
            raise QuotaExceeded(f"There are {NAMESPACES_MAX} namespaces; delete some first.")
        return name

    def _key(self) -> str:
        """The server's own key opens all of them: its holder could create them anyway."""
        policy = self._own.catalog.policy("", ROOT_POLICY_NAME)
        assert policy is not None
        return policy.primary_key
