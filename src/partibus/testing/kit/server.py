"""A server in this process, for the stock clients: ready in about ten milliseconds.

Owns a thread with its own event loop, and the server on it: everything in memory, on a free port of
loopback, with a development certificate. It is the complete server that `partibus serve --testing`
runs, only without a separate process.
"""

import asyncio
import threading
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Final, Self

from partibus.testing.kit.attached import TestingServer

if TYPE_CHECKING:
    from partibus.server.config import Configuration
    from partibus.server.service import Endpoints

START_S_MAX: Final = 30.0
STOP_S_MAX: Final = 30.0
SOCKETS_MAX: Final = 4096
"""Usually a test process has no descriptors for more."""


class Server(TestingServer):
    """A test server, from `start` to `stop`; as a context manager it does both."""

    def __init__(
        self,
        *,
        config: str | PathLike[str] | None = None,
        stores: int = 1,
        profile: str = "selfhost",
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """`config` declares entities that every namespace starts with."""
        self._flags: Mapping[str, object] = {
            "testing": True,
            "config": config,
            "stores": stores,
            "profile": profile,
            "host": host,
            "port": port,
            "tls_port": "none",
            "http_port": "none",
        }
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._endpoints: Endpoints | None = None
        self._failure: BaseException | None = None

    # --- start and end ------------------------------------------------------------------

    def start(self) -> Self:
        """Serve; returns when clients can connect, and raises what prevents that."""
        assert self._thread is None, "the server has already been started"
        from partibus.server.config import resolve_configuration

        configuration = resolve_configuration(self._flags, {})
        self._thread = threading.Thread(
            target=self._run, args=(configuration,), name="partibus-server", daemon=True
        )
        self._thread.start()
        self._started.wait(START_S_MAX)
        if self._failure is not None or self._endpoints is None:
            raise self._failure or TimeoutError("the server did not start in time")
        endpoints = self._endpoints
        self._attach(endpoints.connection_string, str(endpoints.ca_path))
        return self

    def stop(self) -> None:
        """Stop; returns when every port is closed. A second call does nothing."""
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        thread.join(STOP_S_MAX)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self.stop)

    # --- the thread -----------------------------------------------------------------------

    def _run(self, configuration: "Configuration") -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve(configuration))
        except BaseException as error:  # raised in the thread that waits for the start
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self, configuration: "Configuration") -> None:
        from partibus.domain.clock import SystemClock
        from partibus.server.lifecycle import log_loop_exception
        from partibus.server.node import Node
        from partibus.server.service import Service

        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(log_loop_exception)
        self._stopping = asyncio.Event()
        clock = SystemClock()
        node = Node(configuration.settings, clock, configuration.definitions)
        service: Service = Service(node, configuration.settings, clock, SOCKETS_MAX)
        self._endpoints = await service.start()
        self._started.set()
        await self._stopping.wait()
        await service.stop()
