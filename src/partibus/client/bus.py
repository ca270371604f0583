"""A bus by its connection string: TLS, tokens, and links by the path of an entity.

Owns what is needed between a connection string and a working link: the transport, a token for each
path before its first link, and new tokens before the old ones expire. Links themselves are in
`client.links`, requests in `client.management`. Opened by the command line and by tools.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from partibus.client.cbs import CBS, put_token, token_for
from partibus.client.connection import BusClient
from partibus.client.connection_string import ConnectionString
from partibus.client.errors import RemoteError
from partibus.client.links import Receiver, Sender
from partibus.client.management import Management
from partibus.client.requests import RequestLinks, open_request_links
from partibus.client.sessions import accept_session

TOKEN_SECONDS: Final = 3600
CONNECT_SECONDS_MAX: Final = 15.0
_RENEW_SECONDS: Final = TOKEN_SECONDS * 3 / 4


def tls_context(ca_file: str | None = None, ca: bytes | None = None) -> ssl.SSLContext:
    """Trust the machine's authorities (or SSL_CERT_FILE), and the one in `ca_file` or `ca`."""
    context = ssl.create_default_context()
    if ca_file is not None or ca is not None:
        context.load_verify_locations(ca_file, cadata=None if ca is None else ca.decode())
    return context


class Bus:
    """An open connection with its credentials."""

    def __init__(self, client: BusClient, place: ConnectionString, tokens: RequestLinks) -> None:
        self.client = client
        self._place = place
        self._tokens = tokens
        self._authorized: set[str] = set()
        self._renewal = asyncio.create_task(self._renew())

    @classmethod
    @asynccontextmanager
    async def open(
        cls, place: ConnectionString, *, ca_file: str | None = None, ca: bytes | None = None
    ) -> AsyncIterator["Bus"]:
        """Connect; OSError or TimeoutError when the bus cannot be reached.

        `ca_file` or `ca`, in PEM, is an authority to trust in addition to the machine's own.
        """
        context = tls_context(ca_file, ca) if place.uses_tls else None
        connecting = BusClient.connect(
            place.host, place.amqp_port, ssl=context, seconds_max=CONNECT_SECONDS_MAX
        )
        async with connecting as client, cls.over(client, place) as bus:
            yield bus

    @classmethod
    @asynccontextmanager
    async def over(cls, client: BusClient, place: ConnectionString) -> AsyncIterator["Bus"]:
        """The bus over an existing connection."""
        bus = cls(client, place, await open_request_links(client, CBS))
        try:
            yield bus
        finally:
            await bus._end()

    async def _end(self) -> None:
        self._renewal.cancel()
        with suppress(asyncio.CancelledError, RemoteError, TimeoutError):
            await self._renewal

    async def authorize(self, path: str) -> None:
        """Put a token for a path, once; RemoteError when the bus refuses it."""
        if path not in self._authorized:
            await self._put(path)
            self._authorized.add(path)

    async def _put(self, path: str) -> None:
        audience = self._place.audience(path)
        token = token_for(self._place, audience, TOKEN_SECONDS)
        await put_token(self._tokens, audience, token)

    async def _renew(self) -> None:
        """A refusal here ends the links, with the bus's own error."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            for path in sorted(self._authorized):
                await self._put(path)

    async def sender(self, path: str) -> Sender:
        await self.authorize(path)
        return await self.client.sender(path)

    async def receiver(self, path: str, *, delete: bool = False, prefetch: int = 0) -> Receiver:
        """Receive with locks, or with receive-and-delete."""
        await self.authorize(path)
        return await self.client.receiver(path, prefetch=prefetch, receive_and_delete=delete)

    async def session(
        self, path: str, session_id: str | None, *, delete: bool = False, wait_ms: int
    ) -> Receiver:
        """The session with that id, or the next free one; waits for one."""
        await self.authorize(path)
        return await accept_session(self.client, path, session_id, delete=delete, wait_ms=wait_ms)

    @asynccontextmanager
    async def holding(self, path: str, session_id: str, wait_ms: int) -> AsyncIterator[Management]:
        """The management node of an entity, while we hold the lock of a session."""
        receiver = await self.session(path, session_id, wait_ms=wait_ms)
        try:
            yield await self.management(path, receiver.usable().name)
        finally:
            await receiver.close()

    async def management(self, path: str, link_name: str | None = None) -> Management:
        """The management node of an entity; see Management for `link_name`."""
        await self.authorize(path)
        links = await open_request_links(self.client, f"{path}/$management")
        return Management(links, path, link_name)
