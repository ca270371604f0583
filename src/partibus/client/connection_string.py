"""Connection strings: the one line that says where a bus is and with which key.

Owns the grammar (amqp-contract 1.1) and what follows from it: host, ports, whether TLS is used, and
the audience of a path. It must never open a connection or show a key: `repr` leaves the secrets
out. Used by the client and by the command line.
"""

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

PLAIN_PORT: Final = 5672
TLS_PORT: Final = 5671
HTTPS_PORT: Final = 443
TOKEN_PREFIX: Final = "SharedAccessSignature "  # noqa: S105 - a word of the format
# Hosts of the vendor's clouds, which answer HTTP on port 443 only.
_CLOUD_SUFFIXES: Final = (
    ".servicebus.windows.net",
    ".servicebus.chinacloudapi.cn",
    ".servicebus.usgovcloudapi.net",
)


class ConnectionStringError(ValueError):
    """A connection string that cannot be used; the text says what is missing."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ConnectionString:
    """Where a bus is, and the credentials for it."""

    host: str
    port: int | None = None
    policy: str = ""
    key: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    entity_path: str | None = None
    is_emulator: bool = False

    @property
    def uses_tls(self) -> bool:
        """Whether AMQP goes through TLS: always, unless the string says otherwise."""
        return not self.is_emulator

    @property
    def amqp_port(self) -> int:
        return self.port or (PLAIN_PORT if self.is_emulator else TLS_PORT)

    @property
    def is_cloud(self) -> bool:
        """Whether this is a namespace of the vendor's cloud."""
        return self.host.lower().endswith(_CLOUD_SUFFIXES)

    @property
    def http_url(self) -> str:
        """Where the bus answers HTTP: our ports detect protocols by themselves."""
        if self.is_emulator:
            return f"http://{self._url_host}:{self.amqp_port}"
        port = self.port or (HTTPS_PORT if self.is_cloud else TLS_PORT)
        return f"https://{self._url_host}:{port}"

    @property
    def amqp_url(self) -> str:
        scheme = "amqps" if self.uses_tls else "amqp"
        return f"{scheme}://{self._url_host}:{self.amqp_port}"

    @property
    def _url_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    def audience(self, path: str) -> str:
        """The resource of a token for a path (amqp-contract 3.2)."""
        port = f":{self.port}" if self.port is not None and self.is_emulator else ""
        return f"sb://{self._url_host}{port}/{path}"

    def text(self) -> str:
        """The connection string as clients read it, with its key or token: not for a log."""
        port = "" if self.port is None else f":{self.port}"
        parts = [f"Endpoint=sb://{self._url_host}{port}"]
        if self.token is not None:
            parts.append(f"SharedAccessSignature={self.token}")
        else:
            parts += [f"SharedAccessKeyName={self.policy}", f"SharedAccessKey={self.key}"]
        if self.entity_path is not None:
            parts.append(f"EntityPath={self.entity_path}")
        if self.is_emulator:
            parts.append("UseDevelopmentEmulator=true")
        return ";".join(parts) + ";"


def parse_connection_string(text: str) -> ConnectionString:
    """Parse a connection string; ConnectionStringError says what is wrong with it."""
    fields = _fields(text)
    host, port = _endpoint(fields)
    token = fields.get("sharedaccesssignature")
    policy, key = fields.get("sharedaccesskeyname", ""), fields.get("sharedaccesskey", "")
    if token is None and not (policy and key):
        raise ConnectionStringError(
            "the connection string has no SharedAccessKeyName and SharedAccessKey; copy it from"
            " the READY line of the server."
        )
    if token is None and key.startswith("<"):
        raise ConnectionStringError(
            "the connection string holds no key: a server shows a secret key only at its first"
            f" start. Replace {key} with the key."
        )
    if token is not None and not token.startswith(TOKEN_PREFIX):
        token = TOKEN_PREFIX + token
    return ConnectionString(
        host=host,
        port=port,
        policy=policy,
        key=key,
        token=token,
        entity_path=fields.get("entitypath") or None,
        is_emulator=fields.get("usedevelopmentemulator", "").lower() == "true",
    )


def _fields(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in text.strip().split(";") if part.strip()]
    return {name.strip().lower(): value.strip() for name, _, value in parts}


def _endpoint(fields: dict[str, str]) -> tuple[str, int | None]:
    endpoint = fields.get("endpoint") or fields.get("hostname", "")
    parts = urlsplit(endpoint if "://" in endpoint else f"sb://{endpoint}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise ConnectionStringError(
            "the connection string has no Endpoint; copy it from the READY line of the server."
        )
    return host, port
