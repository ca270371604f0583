"""A test server that runs elsewhere: its namespaces, by its connection string.

Owns the handle of a server that something else started with `--testing`. Servers that the
kit starts itself are handles of this kind too (`kit.server`, `partibus.testing.containers`).
"""

from typing import Self

from partibus.client.connection_string import parse_connection_string
from partibus.testing.kit.control import Control
from partibus.testing.kit.namespace import Namespace, new_namespace


class TestingServer:
    """A server that creates a namespace for each test."""

    __test__ = False  # not a test, whatever its name begins with

    def __init__(self, connection_string: str, ca_file: str | None = None) -> None:
        self._attach(connection_string, ca_file)

    def _attach(self, connection_string: str, ca_file: str | None) -> None:
        connection = parse_connection_string(connection_string)
        self._connection_text = connection_string
        self._control = Control(connection, ca_file)
        self.own = Namespace(connection, ca_file=ca_file)
        """The server's own namespace, shared by all tests that use no other."""

    @property
    def connection_string(self) -> str:
        """Of the server's own namespace."""
        return self._connection_text

    @property
    def http_url(self) -> str:
        """Its HTTP address."""
        return self._control.url

    @property
    def ca_file(self) -> str | None:
        """The certificate to trust for TLS, which administration clients always use."""
        return self._control.ca_file

    def namespace(self, name: str | None = None) -> Namespace:
        """A new namespace, empty except for what the server's file declares."""
        return new_namespace(self._control, name)

    def namespaces(self) -> list[str]:
        """The names of those that were created and not deleted."""
        found = self._control.ask("GET", "/namespaces")["namespaces"]
        return [namespace["name"] for namespace in found]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """A server that was only attached to is not stopped."""
