"""AMQP for blocking code: one connection per process, opened when needed.

Owns the thread that runs all connections of a process, the token of a connection, and the
translation of errors for the rest of the package. A link that ended is attached again at the next
call, a broken connection is opened again; what may work later is retried as long as the options
allow. A `Wire` belongs to one thread.
"""

import asyncio
import dataclasses
import os
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, TypeVar

from partibus.amqp.errors import AmqpError
from partibus.client.bus import Bus
from partibus.client.errors import RemoteError
from partibus.client.links import LinkOwner, Receiver, Sender
from partibus.client.management import Management
from partibus.domain import conditions
from pyspark_servicebus.access import Access
from pyspark_servicebus.errors import BulkError, retried

RETRYABLE: Final = frozenset(
    (
        conditions.INTERNAL_ERROR,
        conditions.CONNECTION_FORCED,
        conditions.LINK_DETACH_FORCED,
        conditions.LINK_TRANSFER_LIMIT_EXCEEDED,
        conditions.MICROSOFT_TIMEOUT,
        conditions.MICROSOFT_SERVER_BUSY,
        conditions.MICROSOFT_OPERATION_CANCELLED,
    )
)
"""Refusals that may be temporary (amqp-contract 10)."""
DEAD_LETTERS: Final = "/$DeadLetterQueue"
CALL_SECONDS_MAX: Final = 120.0
_T = TypeVar("_T")
_loops: dict[int, asyncio.AbstractEventLoop] = {}
"""By process, since Spark's workers are forked."""


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run something on the thread of the connections, and wait for it."""
    loop = _loops.get(os.getpid())
    if loop is None:
        loop = _loops[os.getpid()] = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, name="amqp", daemon=True).start()
    return asyncio.run_coroutine_threadsafe(work, loop).result()


class Wire:
    """A connection with a token for one path, and its links by path."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._bus: Bus | None = None
        self._stack = AsyncExitStack()
        self._token = ""
        self.incarnation = 0
        """Counts the openings: a position of an earlier one is void."""
        self._nodes: dict[str, Management] = {}
        self._senders: dict[str, Sender] = {}
        self._receivers: dict[str, Receiver] = {}

    # --- calls ----------------------------------------------------------------------------

    def ask(self, work: Callable[["Wire"], Awaitable[_T]]) -> _T:
        """Do something; what may work later is retried as long as the options allow.

        So the work must be repeatable.
        """
        return retried(self.access.retry_s, lambda: self.call(work))

    def call(self, work: Callable[["Wire"], Awaitable[_T]]) -> _T:
        """Do something once, with a time limit: a lost answer never comes."""
        return run(self._call(work))

    async def _call(self, work: Callable[["Wire"], Awaitable[_T]]) -> _T:
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                await self._ready()
                return await work(self)
        except RemoteError as error:
            if self._bus is not None and self._bus.client.error is not None:
                await self._drop()
            raise bus_error(error) from None
        except (OSError, TimeoutError) as error:
            await self._drop()
            raise unreachable(self.access.host, error) from None

    def close(self) -> None:
        """Close the connection."""
        run(self._drop())

    async def _ready(self) -> None:
        token = self.access.token()
        bus = self._bus
        if bus is not None and bus.client.error is None and token == self._token:
            return
        await self._drop()
        where = dataclasses.replace(self.access.where, token=token)
        opening = Bus.open(where, ca=self.access.ca)
        self._bus, self._token = await self._stack.enter_async_context(opening), token
        self.incarnation += 1

    async def _drop(self) -> None:
        self._bus = None
        self._nodes, self._senders, self._receivers = {}, {}, {}
        stack, self._stack = self._stack, AsyncExitStack()
        with suppress(RemoteError, OSError, TimeoutError):
            await stack.aclose()

    # --- links ----------------------------------------------------------------------------

    async def management(self, path: str) -> Management:
        """The management node of an entity or of its dead letters."""
        node = self._nodes.get(path)
        if node is None or not node.is_usable:
            node = self._nodes[path] = await self._connected().management(path)
        return node

    async def sender(self, path: str) -> Sender:
        """A link to send on."""
        sender = self._senders.get(path)
        if sender is None or not _works(sender):
            sender = self._senders[path] = await self._connected().sender(path)
        return sender

    async def receiver(self, path: str) -> Receiver:
        """A link to receive on, with locks; it sends no credit by itself."""
        receiver = self._receivers.get(path)
        if receiver is None or not _works(receiver):
            receiver = self._receivers[path] = await self._connected().receiver(path)
        return receiver

    def _connected(self) -> Bus:
        assert self._bus is not None
        return self._bus


def _works(owner: LinkOwner) -> bool:
    return owner.error is None


_wires: dict[tuple[int, str, str], Wire] = {}


def wire_of(access: Access) -> Wire:
    """The connection of this worker process, which runs one task after another."""
    place = (os.getpid(), repr(access.where), access.path)
    known = _wires.get(place)
    if known is None or known.access.ca != access.ca:
        known = _wires[place] = Wire(access)
    known.access = access
    return known


def bus_error(error: RemoteError | AmqpError) -> BulkError:
    """The error of the bus."""
    condition = error.condition
    return BulkError(condition, error.description or condition, condition in RETRYABLE)


def unreachable(host: str, error: OSError | TimeoutError) -> BulkError:
    """The error of a bus that does not answer."""
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"The certificate of {host} is not trusted ({error.verify_message}); name its "
        return BulkError(conditions.PARTIBUS_UNREACHABLE, text + "authority with caFile.", False)
    return BulkError(
        conditions.PARTIBUS_UNREACHABLE, f"{host} cannot be reached: {error or 'no answer'}.", True
    )
