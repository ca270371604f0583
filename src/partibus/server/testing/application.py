"""HTTP for the namespaces of a test server: a request goes to the namespace of its key.

Owns the choice by the token of a request, before any part of the server looks at it. The namespace
decides whether the token is valid; a request without one is for the server's own. Wrapped around
the server's application by the service, only with `--testing`.
"""

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Receive, Scope, Send

from partibus.atom.application import with_management
from partibus.control.access.sas import TOKEN_PREFIX, key_name
from partibus.ops.health import operations_application

if TYPE_CHECKING:
    from partibus.server.node import Node
    from partibus.server.testing.namespaces import HostedNamespaces

_AUTHORIZATION: Final = b"authorization"


class HostedApplication:
    """The application of the server and those of the additional namespaces."""

    def __init__(self, namespaces: "HostedNamespaces", own: ASGIApp) -> None:
        self._namespaces = namespaces
        self._own = own
        self._applications: WeakKeyDictionary[Node, ASGIApp] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI hands it over."""
        await self._application(scope)(scope, receive, send)

    def _application(self, scope: Scope) -> ASGIApp:
        node = self._namespaces.guest_of(_key_name(scope))
        if node is None:
            return self._own
        if node not in self._applications:
            self._applications[node] = application_of(node)
        return self._applications[node]


def application_of(node: "Node") -> ASGIApp:
    """Everything that a node serves over HTTP."""
    operations = operations_application(node.health, node.administration, node.data_routes())
    return with_management(node.management(), operations)


def _key_name(scope: Scope) -> str:
    for name, value in scope.get("headers", ()):
        if name == _AUTHORIZATION:
            _, found, token = value.decode("latin-1").partition(TOKEN_PREFIX)
            return key_name(token) if found else ""
    return ""
