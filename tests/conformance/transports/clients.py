"""The ways in which a stock client comes over a WebSocket, as options of the Python client.

Owns the pairs of port and protection. TLS is always verified: against the development CA,
with the host name checked.
"""

import ssl
from dataclasses import dataclass, field
from typing import Any, Final

from azure.servicebus import TransportType

from support.namespace import ROOT_KEY, ROOT_POLICY
from support.server import ServerProcess


@dataclass(frozen=True, slots=True)
class Way:
    """A port and whether TLS is used; `to` makes the client's options for a server."""

    port_name: str
    is_secure: bool
    connection_string: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    ca: str = ""

    def __str__(self) -> str:
        return f"{self.port_name}-{'wss' if self.is_secure else 'ws'}"

    def to(self, server: ServerProcess) -> "Way":
        port = getattr(server.ready, self.port_name)
        access = f"SharedAccessKeyName={ROOT_POLICY};SharedAccessKey={ROOT_KEY}"
        emulator = "" if self.is_secure else ";UseDevelopmentEmulator=true"
        options: dict[str, Any] = {
            "custom_endpoint_address": f"sb://localhost:{port}",
            "transport_type": TransportType.AmqpOverWebsocket,
            "retry_total": 0,
        }
        ca = str(server.ready.ca)
        if self.is_secure:
            options["connection_verify"] = ca
        string = f"Endpoint=sb://localhost;{access}{emulator}"
        return Way(self.port_name, self.is_secure, string, options, ca)

    def async_options(self) -> dict[str, Any]:
        """The asynchronous client hands its trust to aiohttp, which takes a context."""
        if not self.is_secure:
            return self.options
        trusting = {k: v for k, v in self.options.items() if k != "connection_verify"}
        return trusting | {"ssl_context": ssl.create_default_context(cafile=self.ca)}


WEBSOCKETS: Final = [
    Way("amqp_port", False),
    Way("amqp_port", True),
    Way("http_port", False),
    Way("http_port", True),
]
