"""Fixtures of the listener tests: a front, and raw connections to it, on both event loops."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from partibus.domain.clock import SystemClock
from partibus.listener.tls import DevelopmentAuthority, certificate_names
from unit.listener.front import HOST, Dial, Front, Streams
from unit.listener.web_peer import Web, WebPeer


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> DevelopmentAuthority:
    directory = tmp_path_factory.mktemp("tls")
    made = DevelopmentAuthority(directory, certificate_names(HOST), SystemClock())
    made.ensure()
    return made


@pytest.fixture
async def front(authority: DevelopmentAuthority) -> AsyncIterator[Front]:
    made = Front(authority)
    yield made
    made.listener.close_ports()
    await made.listener.drain(grace_s=0)


@pytest.fixture
async def dial(front: Front) -> AsyncIterator[Dial]:
    """Opens raw connections to the front, which end with the test."""
    opened: list[asyncio.StreamWriter] = []

    async def connect(context: ssl.SSLContext | None = None) -> Streams:
        reader, writer = await front.dial(context)
        opened.append(writer)
        return reader, writer

    yield connect
    for writer in opened:
        writer.transport.abort()


@pytest.fixture
def web(front: Front, dial: Dial) -> Web:
    """Opens WebSockets, over TLS when given a context."""

    async def connect(context: ssl.SSLContext | None = None) -> WebPeer:
        return await WebPeer.connect(front, await dial(context))

    return connect
