"""Which server a command uses, from its options, the environment and the contexts.

Owns the order: --connection-string, --context, PARTIBUS_CONNECTION_STRING, PARTIBUS_CONTEXT, the
current context, and finally the server of this machine with the development key. A URL (--url,
PARTIBUS_URL) changes only the HTTP address. It must never open a connection itself.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from partibus.cli.contexts import load_contexts
from partibus.cli.failures import CommandFailed, unreachable
from partibus.client.connection_string import (
    ConnectionString,
    ConnectionStringError,
    parse_connection_string,
)
from partibus.client.errors import RemoteError
from partibus.client.http_connection import http_connection
from partibus.server.failure import EXIT_USAGE

if TYPE_CHECKING:
    from partibus.client.bus import Bus

DEVELOPMENT_POLICY: Final = "RootManageSharedAccessKey"
DEVELOPMENT_KEY: Final = "SAS_KEY_VALUE"
DEFAULT_URL: Final = "http://127.0.0.1:5672"
HTTP_TIMEOUT_S: Final = 60.0
LOCAL: Final = "the default: the server of this machine"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True, frozen=True, kw_only=True)
class Place:
    """A bus: its AMQP and HTTP addresses, the CA to trust, and which option selected it."""

    connection: ConnectionString
    url: str
    ca_file: str | None = None
    origin: str = LOCAL

    @property
    def amqp(self) -> str:
        return self.connection.amqp_url

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Bus"]:
        """An authorized connection; a failure says what to do."""
        from partibus.client.bus import Bus

        async with AsyncExitStack() as stack:
            try:
                opening = Bus.open(self.connection, ca_file=self.ca_file)
                bus = await stack.enter_async_context(opening)
            except (OSError, RemoteError) as error:
                raise unreachable(self.amqp, error) from error
            yield bus

    def open_http(self, timeout_s: float = HTTP_TIMEOUT_S) -> HTTPConnection:
        """A connection to the HTTP address; nothing is sent yet."""
        return http_connection(self.url, timeout_s, self.ca_file)


def find_place(
    connection_string: str | None,
    url: str | None = None,
    context: str | None = None,
    ca_file: str | None = None,
) -> Place:
    """The server selected by the options, or else by the environment and the contexts."""
    environment = os.environ
    url = url or environment.get("PARTIBUS_URL") or None
    ca_file = ca_file or environment.get("PARTIBUS_CA_FILE") or None
    named = context or environment.get("PARTIBUS_CONTEXT") or None
    if connection_string:
        return _stated(connection_string, url, ca_file, "--connection-string")
    if context:
        return _from_context(context, url, ca_file, f"--context {context}")
    if environment.get("PARTIBUS_CONNECTION_STRING"):
        text = environment["PARTIBUS_CONNECTION_STRING"]
        return _stated(text, url, ca_file, "PARTIBUS_CONNECTION_STRING")
    if named:
        return _from_context(named, url, ca_file, f"PARTIBUS_CONTEXT {named}")
    current = load_contexts().current
    if current is not None and url is None:
        return _from_context(current, url, ca_file, f"context {current}")
    return _local(url, ca_file)


def _stated(text: str, url: str | None, ca_file: str | None, origin: str) -> Place:
    try:
        connection = parse_connection_string(text)
    except ConnectionStringError as error:
        raise CommandFailed(str(error), EXIT_USAGE) from error
    place = checked_url(url) if url else connection.http_url
    return Place(connection=connection, url=place, ca_file=ca_file, origin=origin)


def _from_context(name: str, url: str | None, ca_file: str | None, origin: str) -> Place:
    found = load_contexts().get(name)
    place = _stated(found.connection_string, url or found.url, ca_file or found.ca_file, origin)
    return replace(place, origin=origin)


def _local(url: str | None, ca_file: str | None) -> Place:
    place = checked_url(url or DEFAULT_URL)
    parts = urlsplit(place)
    if parts.hostname not in _LOOPBACK:
        raise CommandFailed(
            f"{place} needs a key: give --connection-string, or set PARTIBUS_CONNECTION_STRING.",
            EXIT_USAGE,
        )
    connection = ConnectionString(
        host=str(parts.hostname),
        port=parts.port,
        policy=DEVELOPMENT_POLICY,
        key=DEVELOPMENT_KEY,
        is_emulator=parts.scheme == "http",
    )
    return Place(connection=connection, url=place, ca_file=ca_file)


def checked_url(url: str) -> str:
    """Scheme, host and port of a URL; http when it names no scheme."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandFailed(f"'{url}' is not a valid URL; for example: {DEFAULT_URL}.", EXIT_USAGE)
    return f"{parts.scheme}://{parts.netloc}"
