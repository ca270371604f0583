"""Kombu's own Service Bus transport, for a server with a port and without TLS.

Owns one thing: the connection string. Kombu accepts only the cloud's names (it appends the vendor's
domain) and cannot be given a port or the emulator's connection string, because it splits its URL at
every semicolon. Everything else is Kombu's, unchanged. Used by applications, never by the server;
Celery takes it by name:

    broker_url = "azureservicebus://RootManageSharedAccessKey:SAS_KEY_VALUE@localhost:5672"
    broker_transport = "partibus.integrations.kombu:Transport"
"""

from kombu.transport import azureservicebus


def connection_string(url: str) -> str:
    """The emulator's form of connection string for `azureservicebus://policy:key@host:port`."""
    access, _, host = url.partition("://")[2].rpartition("@")
    policy, _, key = access.partition(":")
    if not (policy and key and host):
        raise ValueError(
            "A URL like azureservicebus://POLICY:KEY@HOST:PORT is needed, for example "
            "azureservicebus://RootManageSharedAccessKey:SAS_KEY_VALUE@localhost:5672"
        )
    return (
        f"Endpoint=sb://{host.rstrip('/')};SharedAccessKeyName={policy};SharedAccessKey={key};"
        "UseDevelopmentEmulator=true"
    )


class Channel(azureservicebus.Channel):
    """Kombu's channel with our connection string."""

    def _try_parse_connection_string(self) -> None:
        self._connection_string = connection_string(self.conninfo.hostname)


class Transport(azureservicebus.Transport):
    """Kombu's transport with our channel."""

    Channel = Channel

    @classmethod
    def as_uri(cls, uri: str, include_password: bool = False, mask: str = "**") -> str:
        """The URL as it may be shown in a log."""
        access, _, host = uri.rpartition("@")
        policy, _, key = access.partition("://")[2].partition(":")
        return f"azureservicebus://{policy}:{key if include_password else mask}@{host}"
